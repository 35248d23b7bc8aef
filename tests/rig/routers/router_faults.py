"""``python -m tests.rig.routers.router_faults``: random faults on routers while agents follow plans. Needs root.

The controller's store is a PostgreSQL server of the campaign's own.

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
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

from controller.model.files.clos import clos
from emulation import isolate
from emulation.errors import LabError
from emulation.lab.routers import Routing
from tests.rig.bench import Bench
from tests.rig.packet_stream import Stream
from tests.rig.routers.router_world import JOB, PORT, RouterWorld, router_world
from tests.rig.store.postgres import PostgresServer
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(3, 2, 2))
STREAM_PORT = PORT + 1
"""Packets of no planned flow, too, have a path that the controller gives them."""
CUTS = 3
"""Times that all connections to the store are cut in a row."""
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
SOME = 100
"""Packets that must arrive after each fault."""

Holds = AbstractContextManager[set[int]]
"""While a fault lasts; the cables that it takes down."""


class RouterFaults:
    """A job on routers, and faults of these, of agents, of the controller, of its store and of BGP daemons."""

    def __init__(self, world: RouterWorld, seed: int, store: PostgresServer) -> None:
        """Start all agents, and wait until all is well; ``store`` is that of the controller."""
        self._world, self._draw, self._store = world, random.Random(seed), store
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
    def store(self) -> Iterator[set[int]]:
        """The store is stopped or killed and starts again, or its connections are cut, while the job is changed.

        Nothing that was acknowledged is lost, also if the controller is killed then, and no packet of the job is.
        """
        how = self._draw.choice(("stopped", "killed", "cut"))
        lab = self._world.lab
        stream = Stream(lab, lab.fabric.host_index["h1"], lab.fabric.host_index["h3"], PORT)
        with JobChanges(self._world) as changes:
            if how == "cut":
                for _ in range(CUTS):
                    self._store.sql("postgres", CUT)
                    changes.wait_for_acknowledged()
            else:
                (self._store.stop if how == "stopped" else self._store.kill)()
                changes.wait_for_refused()
                self._store.start()
                changes.wait_for_acknowledged()
        if self._draw.random() < 0.5:
            self._world.controller.signal(signal.SIGKILL)
            self._world.controller.wait()
            self._world.controller.start()
        eventually(changes.are_kept, f"changes are kept (store {how})", shown=changes.shown)
        eventually(self._world.active, "the plan is active", shown=self._shown)
        sent, received = stream.end()
        if sent != received:
            raise LabError(f"store {how}: {sent - received} of {sent} packets are lost")
        yield set()

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


class JobChanges:
    """Changes the weight of the job again and again, until ``with`` ends, and knows what was acknowledged.

    The controller does not say whether a change that it did not acknowledge has happened.
    """

    def __init__(self, world: RouterWorld) -> None:
        """Begin with none."""
        self._world, self._ended, self._pool = world, threading.Event(), ThreadPoolExecutor(1)
        self._weight, self._acknowledged, self._refused = 1, 0, 0
        self._possible = {1}

    def __enter__(self) -> JobChanges:
        """Begin, and wait until one is acknowledged."""
        self._running = self._pool.submit(self._run)
        self.wait_for_acknowledged()
        return self

    def __exit__(self, *_: object) -> None:
        """End after the answer to the last one."""
        self._ended.set()
        try:
            self._running.result()
        finally:
            self._pool.shutdown()

    def wait_for_acknowledged(self) -> None:
        """Wait until one more is acknowledged."""
        before = self._acknowledged
        eventually(lambda: self._acknowledged > before, "a change is acknowledged", shown=self.shown)

    def wait_for_refused(self) -> None:
        """Wait until one more is refused."""
        before = self._refused
        eventually(lambda: self._refused > before, "a change is refused", shown=self.shown)

    def are_kept(self) -> bool:
        """Return whether the job is as the last acknowledged change, or one after it, has made it."""
        return self._world.get(f"/v1/jobs/{JOB['name']}").get("weight") in self._possible

    def shown(self) -> object:
        """Return what is known of changes, and the job."""
        return self._possible, self._refused, self._world.get(f"/v1/jobs/{JOB['name']}")

    def _run(self) -> None:
        while not self._ended.is_set():
            self._weight += 1
            self._possible = {*self._possible, self._weight}
            answer = self._world.controller.ask("PUT", f"/v1/jobs/{JOB['name']}", {**JOB, "weight": self._weight})
            if answer.status == 200:
                self._possible = {self._weight}
                self._acknowledged += 1
            else:
                self._refused += 1


FAULTS: dict[str, Callable[[RouterFaults], Holds]] = {
    "cable": RouterFaults.cable,
    "spine": RouterFaults.spine,
    "silent": RouterFaults.silent,
    "agent": RouterFaults.agent,
    "controller": RouterFaults.controller,
    "store": RouterFaults.store,
    "daemon": RouterFaults.daemon,
}


def fault_world(bench: Bench, folder: Path, routing: Routing, store: str) -> AbstractContextManager[RouterWorld]:
    """Return the routers, and a controller with a store at this URL."""
    options = ("--enforcement", "srv6", "--store", store)
    return router_world(bench, folder, FABRIC, routing=routing, controller_options=options)


WITHOUT_BGP = tuple(name for name in FAULTS if name != "daemon")


def main(arguments: Sequence[str]) -> int:
    """Draw a fault in each round; return 0 if all was as it should be and no log has errors, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.routers.router_faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same faults in the same order")
    parser.add_argument("--rounds", type=int, default=20, help="faults one after the other")
    parser.add_argument("--kinds", default="", help=f"only these, separated by commas, of {', '.join(FAULTS)}")
    parser.add_argument("--bgp", action="store_true", help="routers find their routes by FRR, and the controller hears")
    options = parser.parse_args(arguments)
    kinds, routing = (tuple(FAULTS), "bgp") if options.bgp else (WITHOUT_BGP, "static")
    wanted = tuple(filter(None, options.kinds.split(",")))
    if unknown := [kind for kind in wanted if kind not in kinds]:
        parser.error(f"--kinds: {unknown[0]!r} is none of {', '.join(kinds)}")
    kinds = wanted or kinds
    isolate.enter()
    with tempfile.TemporaryDirectory() as folder:
        # FRR's daemons run as another user.
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder) / "out")
        try:
            with closing(PostgresServer()) as store, ExitStack() as stack:
                store.start()
                url = store.url(store.create())
                world = stack.enter_context(fault_world(bench, Path(folder), _routing(routing), url))
                campaign = RouterFaults(world, options.seed, store)
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
