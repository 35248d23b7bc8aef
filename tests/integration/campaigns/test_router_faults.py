"""Faults of Linux routers, of agents, of the controller, of its store and of BGP daemons, each at least once."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulation.lab.routers import Routing
from tests.rig.bench import Bench
from tests.rig.routers.router_faults import FAULTS, WITHOUT_BGP, RouterFaults, fault_world
from tests.rig.store.postgres import PostgresServer

pytestmark = pytest.mark.switches


# Other faults have that of a cable in them.
@pytest.mark.parametrize(
    ("routing", "kinds"), [("static", {*WITHOUT_BGP} - {"cable"}), ("bgp", {*FAULTS} - {*WITHOUT_BGP})]
)
def test_each_fault_leaves_everything_as_it_should_be(
    bench: Bench,
    tmp_path: Path,
    routing: Routing,
    kinds: set[str],
    postgres_server: PostgresServer,
    postgres_url: str,
) -> None:
    with fault_world(bench, tmp_path, routing, postgres_url) as world:
        campaign = RouterFaults(world, 1, postgres_server)
        for kind in sorted(kinds):
            campaign.round(kind)
