"""The cabling check in three layers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.network_state import NetworkState
from controller.planning.drain import joined_by_spines
from controller.southbound.cabling.survey import survey
from tests.unit.southbound.cabling.networks import rewired, seen
from tests.unit.southbound.forwarding.pods import K4, joined, up_to_three


@given(failed=st.sets(st.sampled_from(K4.cable_names)))
def test_missing_cables_of_every_tier_are_down_in_the_fabric_and_named(failed: set[str]) -> None:
    real = K4.without_links(failed)
    found = survey(K4, seen(real))
    assert found.fabric == real
    assert {finding.subject for finding in found.findings} == failed


def test_swapped_cables_to_cores_are_reported_as_swapped() -> None:
    real = rewired(K4, {"agg1-core1": ("core3", "agg3-core3"), "agg3-core3": ("core1", "agg1-core1")})
    found = survey(K4, seen(real))
    assert [(finding.kind, finding.subject) for finding in found.findings] == [("swapped", "agg1-core1, agg3-core3")]


@pytest.mark.parametrize(("away", "down"), [("agg1", 4), ("core1", 4), ("leaf1", 0)])
def test_a_switch_above_leaves_that_stays_away_is_passed_over_and_a_leaf_is_not(away: str, down: int) -> None:
    whole = seen(K4)
    (dpid,) = (switch.dpid for switch in K4.switches if switch.name == away)
    links = {a: b for a, b in whole.links.items() if dpid not in (a.switch, b.switch)}
    ports = {port: up for port, up in whole.ports.items() if port.switch != dpid}
    observed: NetworkState = dataclasses.replace(whole, switches=whole.switches - {dpid}, links=links, ports=ports)
    found = survey(K4, observed, before=K4)
    assert found.fabric is not None
    assert sum(not cable.up for cable in found.fabric.cables) == down


@given(failed=up_to_three())
def test_leaves_are_joined_if_live_cables_lead_up_from_both_to_one_switch(failed: list[str]) -> None:
    fabric = K4.without_links(failed)
    names = [leaf.name for leaf in fabric.leaves]
    expected = [[a != b and joined(fabric, a, b) for b in names] for a in names]
    told = joined_by_spines(fabric)
    assert (told | np.eye(len(names), dtype=bool)).tolist() == (
        np.array(expected) | np.eye(len(names), dtype=bool)
    ).tolist()
