"""Capacities after the speeds that ports tell."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import PortId
from controller.southbound.cabling.speeds import with_speeds
from controller.southbound.cabling.survey import survey
from tests.unit.southbound.cabling.networks import seen
from tests.unit.strategies import fabrics


def speeds(fabric: Fabric, scale: float = 1.0) -> dict[PortId, float]:
    """Every port at its cable's capacity, times something."""
    dpid = {switch.name: switch.dpid for switch in fabric.switches}
    told = {PortId(dpid[host.leaf], host.port or 0): host.gbps * scale for host in fabric.hosts}
    for cable in fabric.cables:
        told[PortId(dpid[cable.lower], cable.lower_port or 0)] = cable.gbps * scale
        told[PortId(dpid[cable.upper], cable.upper_port or 0)] = cable.gbps * scale
    return told


@given(fabric=fabrics(), scale=st.sampled_from([0.1, 1.0, 4.0]), at_most=st.booleans())
def test_ports_that_agree_with_each_other_change_nothing_whatever_their_unit(
    fabric: Fabric, scale: float, at_most: bool
) -> None:
    assert with_speeds(fabric, speeds(fabric, scale), at_most=at_most) == fabric


@pytest.mark.parametrize("intended", [True, False])
def test_a_cable_that_comes_back_slower_has_less_capacity_and_one_that_recovers_has_it_back(
    intended: bool,
) -> None:
    fabric = clos(4, 3, 2)
    told = speeds(fabric, 0.1)
    slow = told | {PortId(1, fabric.cables[0].lower_port or 0): 2.5}
    observed = dataclasses.replace(seen(fabric, hosts=True), gbps=slow)
    known = fabric if intended else None
    found = survey(known, observed)
    assert found.fabric is not None
    assert [cable.gbps for cable in found.fabric.cables] == [25.0] + [100.0] * 11
    if intended:
        assert [f.text for f in found.findings] == ["leaf1-spine1 runs at 25 Gbit/s instead of 100"]
    # Over and over: nothing adds up. Also while it is lost from sight, and back at full speed.
    again = survey(known, observed, before=found.fabric)
    assert again.fabric == found.fabric
    blind = dataclasses.replace(observed, links={})
    lost = survey(known, blind, before=found.fabric)
    assert lost.fabric == found.fabric
    back = survey(known, dataclasses.replace(observed, gbps=told), before=found.fabric)
    assert back.fabric is not None
    assert {cable.gbps for cable in back.fabric.cables} == {100.0}


def test_with_a_fabric_file_a_faster_port_changes_nothing_without_one_it_does() -> None:
    fabric = clos(4, 3, 2)
    dpid, cable = fabric.spines[0].dpid, fabric.cables[0]
    fast = {PortId(1, cable.lower_port or 0): 400.0, PortId(dpid, cable.upper_port or 0): 400.0}
    told = speeds(fabric) | fast
    assert with_speeds(fabric, told, at_most=True) == fabric
    assert with_speeds(fabric, told, at_most=False).cables[0].gbps == 400.0
