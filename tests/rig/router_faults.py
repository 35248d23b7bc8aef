"""``python -m tests.rig.router_faults``: random faults on Linux routers on which agents follow plans. Needs root.

A job sends all the time. While a fault lasts, the controller must say of each cable what is true, the job must be
planned around what is down, and its packets must take the planned links. After the fault, all must be as before.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from controller.model.files.clos import clos
from emulation import isolate
from emulation.errors import LabError
from emulation.lab.routers import Routing
from tests.rig.bench import Bench
from tests.rig.packet_stream import Stream
from tests.rig.router_world import PORT, RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(3, 2, 2))
STREAM_PORT = PORT + 1
"""Packets of no planned flow, too, have a path that the controller gives them."""
SOME = 100
"""Packets that must arrive after each fault."""

Holds = AbstractContextManager[set[int]]
"""While a fault lasts; the cables that it takes down."""


class RouterFaults:
    """A job on routers, and faults of these, of agents, of the controller and of BGP daemons."""

    def __init__(self, world: RouterWorld, seed: int) -> None:
        """Start all agents, and wait until all is well."""
        self._world, self._draw = world, random.Random(seed)
        for agent in world.agents.values():
            agent.start()
        world.begin()
        self._settled(set())

    def round(self, fault: str) -> None:
        """Let a fault happen, check, undo it, and check again.

        Raises:
            LabError: something is not as it should be.
        """
        ends = [FABRIC.host_index[name] for name in ("h2", "h4")]
        stream = Stream(self._world.lab, ends[0], ends[1], STREAM_PORT)
        try:
            with FAULTS[fault](self) as down:
                self._settled(down)
            self._settled(set())
            before = stream.received()
            eventually(lambda: stream.received() > before + SOME, "packets of no plan arrive")
        finally:
            stream.end()

    def _settled(self, down: set[int]) -> None:
        """Wait until cables are what they are, and the job goes where it is planned."""
        eventually(lambda: self._said() == down, "each cable is said to be what it is", shown=self._shown)
        lost = {FABRIC.first_cable_link + 2 * cable + way for cable in down for way in (0, 1)}
        eventually(lambda: lost.isdisjoint(self._world.planned()), "nothing is planned over what is down")
        eventually(self._world.active, "the plan is active", shown=self._shown)
        eventually(lambda: self._world.taken() == self._world.planned(), "packets take the planned path")
        if not down:
            self._world.well()

    def _said(self) -> set[int] | None:
        """Return the cables that count as down; ``None``: some are unknown."""
        # A controller that has just started has no fabric yet.
        rows = self._world.get("/v1/links").get("links", [])[FABRIC.first_cable_link :: 2]
        if not rows or not all(row["known"] for row in rows):
            return None
        return {cable for cable, row in enumerate(rows) if not row["up"]}

    def _shown(self) -> object:
        return self._world.get("/healthz"), self._world.get("/v1/hosts")

    # -- faults --------------------------------------------------------------------------------------------------

    @contextmanager
    def cable(self) -> Iterator[set[int]]:
        """A cable loses its signal."""
        cable = self._draw.randrange(len(FABRIC.cables))
        with self._without({cable}):
            yield {cable}

    @contextmanager
    def spine(self) -> Iterator[set[int]]:
        """All cables of a spine lose their signal, as if it had no power."""
        spine = self._draw.choice(FABRIC.spines).name
        cables = {number for number, each in enumerate(FABRIC.cables) if each.upper == spine}
        with self._without(cables):
            yield cables

    @contextmanager
    def silent(self) -> Iterator[set[int]]:
        """A cable loses all packets in one direction or in both, and keeps its signal."""
        cable = self._draw.randrange(len(FABRIC.cables))
        spine, interface = self._world.lab.ends(FABRIC.first_cable_link + 2 * cable)[1]
        ways = self._draw.choice((("iifname",), ("oifname",), ("iifname", "oifname")))
        drops = " ".join(f'{way} "{interface}" drop;' for way in ways)
        hook = "type filter hook forward priority 0; policy accept;"
        self._world.lab.run(spine, "nft", f"table ip6 loss {{ chain c {{ {hook} {drops} }}; }}")
        yield {cable}
        self._world.lab.run(spine, "nft", "delete", "table", "ip6", "loss")

    @contextmanager
    def agent(self) -> Iterator[set[int]]:
        """An agent of the job is killed and started again while a cable of its leaf is cut."""
        host = self._world.agents[self._draw.choice(("h1", "h3"))]
        with self.cable() as down:
            host.end(signal.SIGKILL)
            host.start()
            yield down

    @contextmanager
    def controller(self) -> Iterator[set[int]]:
        """The controller is killed, a cable is cut meanwhile, and it starts again."""
        controller = self._world.controller
        controller.signal(signal.SIGKILL)
        controller.wait()
        with self.cable() as down:
            controller.start()
            yield down

    @contextmanager
    def daemon(self) -> Iterator[set[int]]:
        """The BGP daemon of a spine is killed: with its routes, its cables are of no use."""
        spine, lab = self._draw.choice(FABRIC.spines).name, self._world.lab.lab
        lab.stop_bgp(spine, kill=True)
        yield {number for number, each in enumerate(FABRIC.cables) if each.upper == spine}
        lab.start_bgp(spine)

    @contextmanager
    def _without(self, cables: set[int]) -> Iterator[None]:
        names = [FABRIC.cable_names[cable] for cable in sorted(cables)]
        with ExitStack() as stack:
            for name in names:
                self._world.lab.lab.set_cable(name, up=False)
                stack.callback(partial(self._world.lab.lab.set_cable, name, up=True))
            yield


FAULTS: dict[str, Callable[[RouterFaults], Holds]] = {
    "cable": RouterFaults.cable,
    "spine": RouterFaults.spine,
    "silent": RouterFaults.silent,
    "agent": RouterFaults.agent,
    "controller": RouterFaults.controller,
    "daemon": RouterFaults.daemon,
}
WITHOUT_BGP = tuple(name for name in FAULTS if name != "daemon")


def main(arguments: Sequence[str]) -> int:
    """Draw a fault in each round; return 0 if all was as it should be and no log has errors, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.router_faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same faults in the same order")
    parser.add_argument("--rounds", type=int, default=20, help="faults one after the other")
    parser.add_argument("--bgp", action="store_true", help="routers find their routes by FRR, and the controller hears")
    options = parser.parse_args(arguments)
    isolate.enter()
    kinds, routing = (tuple(FAULTS), "bgp") if options.bgp else (WITHOUT_BGP, "static")
    with tempfile.TemporaryDirectory() as folder:
        # FRR's daemons run as another user.
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder) / "out")
        try:
            with router_world(bench, Path(folder), FABRIC, routing=_routing(routing)) as world:
                campaign = RouterFaults(world, options.seed)
                kind = random.Random(options.seed)
                for number in range(1, options.rounds + 1):
                    fault = kind.choice(kinds)
                    print(f"round {number}: {fault}", end=": ", flush=True)
                    try:
                        campaign.round(fault)
                    except LabError as error:
                        print(f"seed {options.seed}: {error}")
                        return 1
                    print("held", flush=True)
            problems = bench.problems()
        finally:
            bench.close()
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def _routing(name: str) -> Routing:
    return "bgp" if name == "bgp" else "static"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
