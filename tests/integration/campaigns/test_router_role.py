"""Attacks of a router of the fabric by its real BGP sessions: nothing of others changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.bench import Bench
from tests.rig.routers.attack_as_router import FABRIC, RouterCampaign
from tests.rig.routers.router_world import router_world

pytestmark = pytest.mark.switches

KINDS = ("the ids of others", "its own id no more")
"""``make attack-as-router`` has more."""


def test_a_router_changes_nothing_of_others_by_bgp(bench: Bench, tmp_path: Path) -> None:
    with router_world(bench, tmp_path, FABRIC, routing="bgp") as world:
        campaign = RouterCampaign(world)
        assert {kind: campaign.round(kind) for kind in KINDS} == {kind: [] for kind in KINDS}
        assert world.controller.is_well()
