"""Faults of Linux routers, of agents, of the controller and of BGP daemons, each at least once."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.lab.routers import Routing
from tests.rig.bench import Bench
from tests.rig.router_faults import FABRIC, FAULTS, WITHOUT_BGP, RouterFaults
from tests.rig.router_world import router_world

pytestmark = pytest.mark.switches


@pytest.mark.parametrize(("routing", "kinds"), [("static", WITHOUT_BGP), ("bgp", {*FAULTS} - {*WITHOUT_BGP})])
def test_each_fault_leaves_everything_as_it_should_be(
    bench: Bench, tmp_path: Path, routing: Routing, kinds: tuple[str, ...]
) -> None:
    with router_world(bench, tmp_path, FABRIC, routing=routing) as world:
        campaign = RouterFaults(world, 1)
        for kind in kinds:
            campaign.round(kind)
