"""Discovery alone finds leaves, aggregation switches and cores, and names what does not fit."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import SPINE_DPID, clos
from controller.model.files.pod_clos import CORE_DPID, pod_clos
from controller.model.network_state import NetworkState, PortId
from controller.southbound.cabling.survey import survey
from controller.southbound.forwarding.destinations import check_rules_exist
from tests.unit.southbound.cabling.networks import seen
from tests.unit.southbound.forwarding.pods import K4, up_to_three


@st.composite
def whole_pods(draw: st.DrawFn) -> Fabric:
    sizes = [draw(st.integers(low, 3)) for low in (2, 1, 1, 1, 1)]
    return pod_clos(*sizes, core_parallel=draw(st.integers(1, 2)))


def with_link(shown: NetworkState, a: tuple[int, int], b: tuple[int, int]) -> NetworkState:
    """The same with one more cable."""
    one, other = PortId(*a), PortId(*b)
    links = {**shown.links, one: other, other: one}
    return dataclasses.replace(shown, links=links, ports={**shown.ports, one: True, other: True})


def with_hosts_of(fabric: Fabric, leaves: set[str]) -> NetworkState:
    """What discovery shows while only the hosts of some leaves have sent packets."""
    shown = seen(fabric, hosts=True)
    heard = {host.ip for host in fabric.hosts if host.leaf in leaves}
    return dataclasses.replace(shown, hosts={ip: place for ip, place in shown.hosts.items() if ip in heard})


@given(real=whole_pods())
def test_discovery_alone_finds_the_same_layers_cables_and_hosts(real: Fabric) -> None:
    found = survey(None, seen(real, hosts=True))
    assert found.fabric is not None
    assert found.findings == ()
    assert found.fabric.layers == real.layers
    assert set(found.fabric.cables) == set(real.cables)
    assert {(h.ip, h.mac, h.leaf, h.port) for h in found.fabric.hosts} == {
        (h.ip, h.mac, h.leaf, h.port) for h in real.hosts
    }
    check_rules_exist(found.fabric)


@given(failed=up_to_three(), data=st.data())
def test_what_was_discovered_keeps_its_layer_when_it_goes_down(failed: list[str], data: st.DataObject) -> None:
    before = survey(None, seen(K4, hosts=True)).fabric
    assert before is not None
    cables = [name for name in before.cable_names if not {name, *name.split("-")}.isdisjoint(failed)]
    after = survey(None, seen(K4.without_links(cables), hosts=True), before=before).fabric
    assert after == before.without_links(cables)
    # And again from there, with all of it back.
    assert survey(None, seen(K4, hosts=True), before=after).fabric == before


@given(leaves=st.sets(st.sampled_from([leaf.name for leaf in K4.leaves]), min_size=1))
def test_leaves_with_hosts_are_joined_as_they_are_whichever_hosts_have_been_heard(leaves: set[str]) -> None:
    found = survey(None, with_hosts_of(K4, leaves))
    fabric = found.fabric
    assert fabric is not None
    assert set(fabric.leaf_index) == leaves
    check_rules_exist(fabric)
    pods = {K4.pod_of_leaf[K4.leaf_index[leaf]] for leaf in leaves}
    assert len(fabric.layers) == (3 if len(pods) > 1 else 2)
    for a in leaves:
        for b in leaves - {a}:
            here = len(fabric.live_paths(fabric.leaf_index[a], fabric.leaf_index[b]))
            assert here == len(K4.live_paths(K4.leaf_index[a], K4.leaf_index[b]))
    # With hosts of one pod only, a core cannot be told from a leaf: the cores lead to switches of no known layer.
    unknown = {finding.subject for finding in found.findings}
    assert unknown == ({f"{CORE_DPID + n:#x}" for n in range(1, 5)} if len(pods) == 1 else set())


@given(leaves=st.lists(st.sampled_from([leaf.name for leaf in K4.leaves]), min_size=2, unique=True))
def test_the_order_in_which_hosts_are_heard_does_not_matter(leaves: list[str]) -> None:
    before = None
    for many in range(1, len(leaves) + 1):
        before = survey(None, with_hosts_of(K4, set(leaves[:many])), before=before).fabric
    at_once = survey(None, with_hosts_of(K4, set(leaves))).fabric
    assert before is not None
    assert at_once is not None
    assert [set(layer) for layer in before.layers] == [set(layer) for layer in at_once.layers]
    assert set(before.cables) == set(at_once.cables)


def test_a_leaf_without_hosts_is_no_core_and_gives_no_finding() -> None:
    found = survey(None, with_hosts_of(clos(2, 3, 1), {"leaf1", "leaf2"}))
    assert found.findings == ()
    assert found.fabric is not None
    assert [len(layer) for layer in found.fabric.layers] == [2, 2]


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        (
            (SPINE_DPID + 1, 9),
            (SPINE_DPID + 3, 9),
            "agg1 port 9 and agg3 port 9 connect two aggregation switches: not used",
        ),
        ((CORE_DPID + 1, 9), (CORE_DPID + 2, 9), "core1 port 9 and core2 port 9 connect two cores: not used"),
        (
            (1, 9),
            (SPINE_DPID + 1, 9),
            "leaf1 port 9 and agg1 port 9 connect a leaf and an aggregation switch that another cable connects: "
            "not used",
        ),
        (
            (SPINE_DPID + 2, 9),
            (CORE_DPID + 1, 9),
            "agg2 port 9 and core1 port 9 connect a core to another aggregation switch of a pod: not used",
        ),
    ],
)
def test_a_cable_for_which_there_are_no_rules_is_named_and_not_used(
    a: tuple[int, int], b: tuple[int, int], text: str
) -> None:
    before = survey(None, seen(K4, hosts=True)).fabric
    for earlier in (None, before):
        found = survey(None, with_link(seen(K4, hosts=True), a, b), before=earlier)
        assert [finding.text for finding in found.findings] == [text]
        assert found.fabric is not None
        assert set(found.fabric.cables) == set(K4.cables)
