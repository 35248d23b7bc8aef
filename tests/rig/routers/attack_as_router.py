"""``python -m tests.rig.routers.attack_as_router``: what a router may try by its BGP sessions. Needs root.

Linux routers run FRR, and the controller hears them. One leaf is the attacker; while it attacks, cables and plan
of the others stay as they are, and the controller answers.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from ipaddress import IPv6Network
from pathlib import Path

from controller.model.files.clos import clos
from controller.southbound.srv6.bgp_configuration import as_numbers
from emulation import isolate
from tests.rig.bench import Bench
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

FABRIC = with_routers(clos(2, 3, 2))
ATTACKER = FABRIC.leaves[-1].name
HONEST = [name for name in FABRIC.cable_names if ATTACKER not in name.split("-")]
LOOKS, LOOK_SECONDS = 20, 0.2
MANY_ROUTES, FLAPS = 2000, 10


class RouterCampaign:
    """A job between honest leaves, and attacks of another leaf."""

    def __init__(self, world: RouterWorld) -> None:
        """Start all agents, and wait until the job's plan is active."""
        self._world = world
        for agent in world.agents.values():
            agent.start()
        world.begin()
        world.well()
        eventually(lambda: not self.changed(), "all cables work", shown=self.changed)
        ids = world.lab.ids
        *others, self._own = [ids.prefix(ids.switch(0, index)) for index in range(FABRIC.n_leaves)]
        self._others = [*others, *(ids.prefix(ids.switch(1, index)) for index in range(len(FABRIC.spines)))]
        self._planned = world.planned()

    def round(self, attack: str) -> list[str]:
        """Carry out an attack, and return what has changed that must not."""
        changed: list[str] = []
        with ATTACKS[attack](self):
            for _ in range(LOOKS):
                changed += self.changed()
                if self._world.planned() != self._planned:
                    changed.append("the honest job has other paths")
                time.sleep(LOOK_SECONDS)
        self._world.well()
        return sorted(set(changed))

    def changed(self) -> list[str]:
        """Return the honest cables that do not count as working."""
        return [f"{name} is down or unknown" for name in self._lost() if name in HONEST]

    def _lost(self) -> list[str]:
        rows = self._world.get("/v1/links")["links"][FABRIC.first_cable_link :: 2]
        named = zip(FABRIC.cable_names, rows, strict=True)
        return [name for name, row in named if not (row["up"] and row["known"])]

    def _wait_for_loss(self) -> None:
        """Wait until the controller has taken the attacker's cables from plans: it hears what the attacker does."""
        eventually(lambda: len(self._lost()) == len(FABRIC.cable_names) - len(HONEST), "the attacker is not reached")

    @contextmanager
    def others_ids(self) -> Iterator[None]:
        """Announce the ids of all other routers."""
        with self._announced(self._others):
            yield

    @contextmanager
    def parts_of_others_ids(self) -> Iterator[None]:
        """Announce longer prefixes in the ids of all other routers."""
        with self._announced([next(each.subnets(new_prefix=each.prefixlen + 16)) for each in self._others]):
            yield

    @contextmanager
    def default_route(self) -> Iterator[None]:
        """Announce that it reaches everything."""
        with self._announced([IPv6Network("::/0")]):
            yield

    @contextmanager
    def many_routes(self) -> Iterator[None]:
        """Announce thousands of routes."""
        block = IPv6Network("2001:db8::/32").subnets(new_prefix=48)
        with self._announced([next(block) for _ in range(MANY_ROUTES)]):
            yield

    @contextmanager
    def own_id_gone(self) -> Iterator[None]:
        """Announce its own id no more."""
        self._configure([f"no network {self._own}"])
        self._wait_for_loss()
        yield
        self._configure([f"network {self._own}"])

    @contextmanager
    def flapping(self) -> Iterator[None]:
        """End all sessions again and again."""
        for _ in range(FLAPS):
            self._world.lab.lab.configure_bgp(ATTACKER, ["do clear bgp ipv6 unicast *"])
            time.sleep(LOOK_SECONDS)
        yield

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Kill the daemon; its neighbours hear nothing."""
        self._world.lab.lab.stop_bgp(ATTACKER, kill=True)
        self._wait_for_loss()
        yield
        self._world.lab.lab.start_bgp(ATTACKER)

    @contextmanager
    def _announced(self, networks: Sequence[IPv6Network]) -> Iterator[None]:
        self._configure([f"network {each}" for each in networks])
        yield
        self._configure([f"no network {each}" for each in networks])

    def _configure(self, lines: Sequence[str]) -> None:
        family = [f"router bgp {as_numbers(FABRIC)[ATTACKER]}", "address-family ipv6 unicast"]
        self._world.lab.lab.configure_bgp(ATTACKER, [*family, *lines])


ATTACKS: dict[str, Callable[[RouterCampaign], AbstractContextManager[None]]] = {
    "the ids of others": RouterCampaign.others_ids,
    "parts of the ids of others": RouterCampaign.parts_of_others_ids,
    "a default route": RouterCampaign.default_route,
    "thousands of routes": RouterCampaign.many_routes,
    "its own id no more": RouterCampaign.own_id_gone,
    "sessions that flap": RouterCampaign.flapping,
    "a dead daemon": RouterCampaign.killed,
}


def main(arguments: Sequence[str]) -> int:
    """Carry out all attacks in each round; return 0 if what must not change has not, and no log has errors, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.rig.routers.attack_as_router", description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="of all attacks")
    parser.add_argument("--kind", action="append", choices=ATTACKS, help="this attack alone; may be repeated")
    options = parser.parse_args(arguments)
    isolate.enter()
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        # FRR's daemons run as another user.
        os.chmod(folder, 0o755)
        bench = Bench(Path(folder) / "out")
        try:
            with router_world(bench, Path(folder), FABRIC, routing="bgp") as world:
                campaign = RouterCampaign(world)
                for number in range(1, options.rounds + 1):
                    for attack in options.kind or ATTACKS:
                        changed = campaign.round(attack)
                        failures += bool(changed)
                        print(f"round {number}: {attack}: {', '.join(changed) or 'held'}", flush=True)
            problems = bench.problems()
        finally:
            bench.close()
    for problem in problems:
        print(problem)
    return 1 if failures or problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
