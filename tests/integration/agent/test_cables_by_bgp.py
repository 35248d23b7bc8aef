"""A controller hears routers by BGP: cables that they lose leave plans, and conflicts with agents are told."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.southbound.path_addresses.path_addresses import DEFAULT_BLOCK
from emulation.errors import LabError
from tests.rig.bench import Bench
from tests.rig.routers.router_world import RouterWorld, router_world
from tests.rig.waiting import eventually
from tests.unit.strategies import with_routers

pytestmark = pytest.mark.switches

FABRIC = with_routers(clos(2, 2, 2))
SRC, DST = FABRIC.host_index["h1"], FABRIC.host_index["h3"]
PATHS = FABRIC.live_paths(0, 1).tolist()


@pytest.fixture
def world(bench: Bench, tmp_path: Path) -> Iterator[RouterWorld]:
    with router_world(bench, tmp_path, FABRIC, routing="bgp", path_addresses=DEFAULT_BLOCK) as world:
        yield world


def wait_for_way(world: RouterWorld, address: str, path: int) -> None:
    """Wait until routers send packets to an address of the receiver over a path."""
    planned, flow = FABRIC.flow_links(SRC, DST, path), ("h1", "h3", 50000)

    def is_way() -> bool:
        try:
            return world.lab.lab.routed([flow], address)[flow] == planned
        except LabError:
            return False

    eventually(is_way, f"{address} is reached over {FABRIC.path_names[path]}")


def cables(world: RouterWorld) -> list[dict[str, Any]]:
    return list(world.get("/v1/links")["links"][FABRIC.first_cable_link :: 2])


def all_known(world: RouterWorld) -> bool:
    return all(row["known"] for row in cables(world))


def down(world: RouterWorld) -> list[str]:
    return [name for name, row in zip(FABRIC.cable_names, cables(world), strict=True) if not row["up"]]


def is_down(world: RouterWorld, name: str) -> bool:
    """Whether a cable is down, and no other one."""
    return down(world) == [name]


def reasons(world: RouterWorld) -> list[str]:
    return list(world.get("/healthz")["reasons"])


def wait_for_reason(world: RouterWorld, begin: str) -> None:
    eventually(
        lambda: any(text.startswith(begin) for text in reasons(world)), begin, shown=lambda: world.get("/healthz")
    )


def test_without_agents_routes_show_which_cables_work_and_which_routers_are_not_heard(world: RouterWorld) -> None:
    world.begin()
    eventually(lambda: all_known(world), "the routers show all cables", shown=lambda: cables(world))
    assert down(world) == []
    assert world.lab.lab.path_addresses is not None
    addresses = [str(world.lab.lab.path_addresses.to_host(DST, path)) for path in PATHS]
    for path, address in zip(PATHS, addresses, strict=True):
        wait_for_way(world, address, path)
    for name, lost in (("leaf1-spine2", 1), ("leaf2-spine1", 0)):
        world.lab.lab.set_cable(name, up=False)
        lower, upper = name.split("-")
        wait_for_reason(world, f"{name} is down: {lower} and {upper} have no BGP session over it")
        eventually(partial(is_down, world, name), "no other cable is down", shown=lambda: cables(world))
        # An address whose path is dead, near or far, is reached over the other one.
        for address in addresses:
            wait_for_way(world, address, PATHS[1 - lost])
        world.lab.lab.set_cable(name, up=True)
        eventually(lambda: down(world) == [], "all cables work", shown=lambda: cables(world))
        for path, address in zip(PATHS, addresses, strict=True):
            wait_for_way(world, address, path)
    answer = world.controller.ask("PUT", "/v1/mode", {"enforcement": "path_address"})
    assert answer.status == 200
    (flow,) = world.get("/v1/routes?host=h1")["flows"]
    (piece,) = flow["pieces"]
    assert piece["dst_ip"] in addresses
    assert world.taken(piece["dst_ip"]) == world.planned()
    assert world.controller.ask("PUT", "/v1/mode", {"enforcement": "srv6"}).status == 200
    world.lab.lab.stop_bgp("spine1", kill=True)
    both = ["leaf1-spine1", "leaf2-spine1"]
    eventually(lambda: down(world) == both, "the cables of spine1 are down", shown=lambda: cables(world))
    address = "fd00:6d67::5"
    wait_for_reason(world, f"no BGP session to spine1 ({address})")
    world.lab.lab.start_bgp("spine1")
    eventually(lambda: down(world) == [], "all cables work", shown=lambda: cables(world))
    eventually(lambda: not any("BGP" in text for text in reasons(world)), "all is heard", shown=lambda: reasons(world))


def test_flows_leave_a_cable_that_routers_lose_and_a_silent_loss_is_told_as_a_conflict(world: RouterWorld) -> None:
    for agent in world.agents.values():
        agent.start()
    world.begin()
    world.well()
    link = min(link for link in world.planned() if link >= FABRIC.first_cable_link)
    cable = (link - FABRIC.first_cable_link) // 2
    name = FABRIC.cable_names[cable]
    world.lab.lab.set_cable(name, up=False)
    eventually(lambda: down(world) == [name], "the cable is down", shown=lambda: cables(world))
    eventually(lambda: link not in world.planned(), "no flow is planned over it")
    eventually(world.active, "the plan is active")
    eventually(lambda: world.taken() == world.planned(), "packets take the new path")
    world.lab.lab.set_cable(name, up=True)
    eventually(lambda: down(world) == [], "all cables work", shown=lambda: cables(world))
    world.well()
    # BGP's packets pass, others are lost.
    link = min(link for link in world.planned() if link >= FABRIC.first_cable_link)
    name = FABRIC.cable_names[(link - FABRIC.first_cable_link) // 2]
    spine, interface = world.lab.ends(link)[1]
    hook = "type filter hook forward priority 0; policy accept;"
    drop = f'iifname "{interface}" drop; oifname "{interface}" drop;'
    world.lab.run(spine, "nft", f"table ip6 loss {{ chain c {{ {hook} {drop} }}; }}")
    eventually(lambda: down(world) == [name], "the cable is down", shown=lambda: world.get("/v1/hosts"))
    says = "still reach the other end by BGP; it counts as down"
    eventually(
        lambda: any(text.startswith(f"{name}: packets over it are lost") and says in text for text in reasons(world)),
        "the conflict is told",
        shown=lambda: reasons(world),
    )
    world.lab.run(spine, "nft", "delete", "table", "ip6", "loss")
    eventually(lambda: down(world) == [], "all cables work", shown=lambda: world.get("/v1/hosts"))
    world.well()
