"""What agents report of lost packets takes cables out of plans, and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from tests.rig.bench import Bench
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

pytestmark = pytest.mark.switches

FABRIC = with_routers(clos(2, 2, 2))


@pytest.fixture
def world(bench: Bench, tmp_path: Path) -> Iterator[RouterWorld]:
    with router_world(bench, tmp_path, FABRIC) as world:
        for agent in world.agents.values():
            agent.start()
        world.begin()
        world.well()
        yield world


def uplink(world: RouterWorld) -> int:
    """The uplink of the job's flow."""
    return min(link for link in world.planned() if link >= FABRIC.first_cable_link)


def row(world: RouterWorld, link: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = world.get("/v1/links")["links"]
    return rows[link]


def reasons_of(world: RouterWorld) -> list[str]:
    return list(world.get("/healthz")["reasons"])


def known(world: RouterWorld) -> bool:
    return all(row["known"] for row in world.get("/v1/links")["links"][FABRIC.first_cable_link :])


def test_a_cable_that_loses_packets_silently_is_down_until_probes_come_back(world: RouterWorld) -> None:
    eventually(lambda: known(world), "probes have shown that all cables work")
    link = uplink(world)
    name = FABRIC.cable_names[(link - FABRIC.first_cable_link) // 2]
    spine, interface = world.lab.ends(link)[1]
    hook = "type filter hook forward priority 0; policy accept;"
    drop = f'iifname "{interface}" drop; oifname "{interface}" drop;'
    world.lab.run(spine, "nft", f"table ip6 loss {{ chain c {{ {hook} {drop} }}; }}")
    eventually(lambda: not row(world, link)["up"], "the cable is down", shown=lambda: world.get("/v1/hosts"))
    eventually(lambda: link not in world.planned(), "no flow is planned over it")
    eventually(world.active, "the plan is active")
    eventually(lambda: world.taken() == world.planned(), "packets take the new path")
    why = f"{name} is down: packets over it are lost, as the agents of h"
    reasons = partial(reasons_of, world)
    eventually(lambda: [text.startswith(why) for text in reasons()] == [True], "it is told why", shown=reasons)
    assert [each["up"] for each in world.get("/v1/links")["links"][FABRIC.first_cable_link :]].count(False) == 2
    world.lab.run(spine, "nft", "delete", "table", "ip6", "loss")
    eventually(lambda: row(world, link)["up"], "the cable is up", shown=lambda: world.get("/v1/hosts"))
    world.well()


def test_what_a_router_says_of_a_cable_that_has_no_signal_takes_it_down_until_it_has_one(world: RouterWorld) -> None:
    eventually(lambda: known(world), "probes have shown that all cables work")
    link = uplink(world)
    cable = (link - FABRIC.first_cable_link) // 2
    world.lab.cut(cable)
    eventually(lambda: not row(world, link)["up"], "the cable is down", shown=lambda: world.get("/v1/hosts"))
    eventually(lambda: link not in world.planned(), "no flow is planned over it")
    eventually(world.active, "the plan is active")
    assert [each["up"] for each in world.get("/v1/links")["links"][FABRIC.first_cable_link :]].count(False) == 2
    world.lab.mend(cable)
    eventually(lambda: row(world, link)["up"], "the cable is up", shown=lambda: world.get("/v1/hosts"))
    world.well()


def test_a_spine_without_power_is_down_although_all_probes_come_back_by_the_other_one(world: RouterWorld) -> None:
    eventually(lambda: known(world), "probes have shown that all cables work")
    link = uplink(world)
    spine = FABRIC.cables[(link - FABRIC.first_cable_link) // 2].upper
    cables = [number for number, each in enumerate(FABRIC.cables) if each.upper == spine]
    for cable in cables:
        world.lab.cut(cable)

    def down() -> set[int]:
        links = world.get("/v1/links")["links"][FABRIC.first_cable_link :]
        return {number // 2 for number, each in enumerate(links) if not each["up"]}

    hosts = partial(world.get, "/v1/hosts")
    eventually(lambda: down() == {*cables}, "all cables of the spine are down", shown=hosts)
    eventually(lambda: link not in world.planned(), "no flow is planned over it")
    eventually(world.active, "the plan is active")
    for cable in cables:
        world.lab.mend(cable)
    eventually(lambda: not down() and known(world), "all cables are known to work", shown=hosts)
    world.well()
