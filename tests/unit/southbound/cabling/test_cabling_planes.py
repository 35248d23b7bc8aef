"""The cabling check where NICs have several ports: leaves that have failed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.network_state import NetworkState
from controller.southbound.cabling.survey import survey
from tests.unit.southbound.cabling.networks import seen

FABRICS = [clos(2, 3, 2, planes=2), clos(2, 4, 2, dual_tor=True), pod_clos(2, 2, 2, 1, 2, planes=2)]


def without_connection(shown: NetworkState, fabric: Fabric, names: set[str]) -> NetworkState:
    """What the others show while these switches are not connected."""
    gone = {switch.dpid for switch in fabric.switches if switch.name in names}
    return dataclasses.replace(
        shown,
        switches=shown.switches - gone,
        ports={at: up for at, up in shown.ports.items() if at.switch not in gone},
        links={a: b for a, b in shown.links.items() if gone.isdisjoint((a.switch, b.switch))},
    )


@pytest.mark.parametrize("fabric", FABRICS, ids=["planes", "dual-tor", "planes-of-pods"])
@given(data=st.data())
def test_links_to_leaves_that_have_failed_are_down_until_the_leaves_are_back(
    fabric: Fabric, data: st.DataObject
) -> None:
    dead = data.draw(st.sets(st.sampled_from([leaf.name for leaf in fabric.leaves]), min_size=1))
    real = fabric.without_links(dead)
    found = survey(fabric, without_connection(seen(real), fabric, dead), before=fabric)
    assert found.fabric == real
    # One that has never been seen is no different.
    assert survey(fabric, without_connection(seen(real), fabric, dead)).fabric == real
    assert survey(fabric, seen(fabric), before=real).fabric == fabric


@pytest.mark.parametrize("fabric", FABRICS, ids=["planes", "dual-tor", "planes-of-pods"])
@given(data=st.data())
def test_leaves_that_are_not_connected_and_have_a_cable_keep_their_ports(fabric: Fabric, data: st.DataObject) -> None:
    away = data.draw(st.sets(st.sampled_from([leaf.name for leaf in fabric.leaves]), min_size=1))
    found = survey(fabric, without_connection(seen(fabric), fabric, away), before=fabric)
    assert found.fabric == fabric
    # While switches have only begun to connect, nothing is known of the others.
    cut = fabric.without_links(
        name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.lower in away
    )
    starting = dataclasses.replace(without_connection(seen(cut), fabric, away), starting=True)
    assert survey(fabric, starting).fabric == cut


def test_hosts_with_one_port_keep_theirs_below_a_leaf_that_has_failed() -> None:
    fabric = clos(2, 2, 2)
    cut = fabric.without_links(["leaf1-spine1", "leaf1-spine2"])
    found = survey(fabric, without_connection(seen(cut), fabric, {"leaf1"}), before=fabric)
    assert found.fabric == cut
