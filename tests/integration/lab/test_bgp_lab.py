"""Linux routers that find their routes by FRR's BGP, as configurations are exported for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from emulation.lab.routers import RouterLab
from tests.rig.waiting import eventually
from tests.unit.southbound.bgp.bgp_routes import Routes, bgp_routes

pytestmark = pytest.mark.switches

FABRICS = {"parallel cables": clos(2, 2, 1, parallel=2), "three layers": pod_clos(2, 1, 2, 1, 1)}


@pytest.fixture(params=FABRICS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RouterLab]:
    with RouterLab(FABRICS[request.param], out=tmp_path, routing="bgp") as lab:
        yield lab


def hops(routes: Routes) -> dict[str, dict[str, int]]:
    """How many next hops each router has to each prefix that is not its own."""
    return {
        router: {str(prefix): len(route.links) for prefix, route in own.items() if route.path}
        for router, own in routes.items()
    }


def test_kernels_have_the_routes_that_bgp_finds_whatever_is_down_and_hosts_reach_each_other(lab: RouterLab) -> None:
    fabric = lab.fabric

    def settled(down: set[int]) -> bool:
        wanted = hops(bgp_routes(lab.ids, down))
        return {router: lab.bgp_hops(router) for router in wanted} == wanted

    def wait_for(down: set[int]) -> None:
        eventually(lambda: settled(down), f"routes with {down} down", shown=lambda: lab.bgp_hops("leaf1"))
        eventually(lambda: lab.ping_all() == [], "hosts reach each other", shown=lab.ping_all)

    wait_for(set())
    for up, down in ((False, {0}), (True, set[int]())):
        lab.set_cable(fabric.cable_names[0], up=up)
        wait_for(down)


def test_routes_by_way_of_a_router_whose_daemon_is_killed_go_and_come_back(tmp_path: Path) -> None:
    fabric = clos(2, 2, 1)
    with RouterLab(fabric, out=tmp_path, routing="bgp") as lab:
        network = str(lab.addresses.of_leaf(1))
        assert lab.bgp_hops("leaf1")[network] == 2
        assert len(lab.bgp_established("spine1")) == 2
        lab.stop_bgp("spine1", kill=True)
        eventually(
            lambda: lab.bgp_hops("leaf1").get(network) == 1, "one way is left", shown=lambda: lab.bgp_hops("leaf1")
        )
        eventually(lambda: lab.ping_all() == [], "hosts reach each other", shown=lab.ping_all)
        lab.start_bgp("spine1")
        eventually(lambda: lab.bgp_hops("leaf1").get(network) == 2, "both ways are there")
        lab.stop_bgp("spine1")
        eventually(lambda: lab.bgp_hops("leaf1").get(network) == 1, "one way is left")
