"""The cabling check, and the fabric that comes out of it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.network_state import Clash, Location, NetworkState, PortId
from controller.southbound.cabling.findings import MOST_CLASHES
from controller.southbound.cabling.survey import survey
from controller.southbound.forwarding.base import compile_base
from tests.unit.southbound.cabling.networks import rewired, seen
from tests.unit.strategies import fabrics


@given(fabric=fabrics(failures=False), data=st.data())
def test_a_network_that_is_cabled_as_intended_gives_the_intended_fabric(fabric: Fabric, data: st.DataObject) -> None:
    assert survey(fabric, seen(fabric)).fabric == fabric
    assert survey(fabric, seen(fabric)).matches


@given(intended=fabrics(failures=False), data=st.data())
def test_missing_cables_are_down_in_the_fabric_and_named(intended: Fabric, data: st.DataObject) -> None:
    names = data.draw(st.sets(st.sampled_from(intended.cable_names), min_size=1))
    real = intended.without_links(names)
    found = survey(intended, seen(real))
    assert {finding.subject for finding in found.findings if finding.kind == "missing"} == names
    assert found.fabric == real


def test_two_swapped_cables_are_reported_as_swapped_and_not_as_missing() -> None:
    intended = clos(2, 2, 1)
    real = rewired(intended, {"leaf1-spine1": ("spine2", "leaf2-spine2"), "leaf2-spine2": ("spine1", "leaf1-spine1")})
    found = survey(intended, seen(real))
    assert [finding.kind for finding in found.findings] == ["swapped"]
    assert found.findings[0].text == (
        "leaf1-spine1 and leaf2-spine2 are swapped: leaf1 is cabled to spine2 and leaf2 to spine1"
    )
    assert found.fabric is not None
    assert [cable.up for cable in found.fabric.cables] == [False, True, True, False]


def test_a_cable_too_many_is_reported_and_not_used() -> None:
    intended = clos(1, 2, 1)
    extra = dataclasses.replace(intended.cables[0], lower_port=7, upper_port=7)
    found = survey(intended, seen(dataclasses.replace(intended, cables=(*intended.cables, extra))))
    assert [(finding.kind, finding.subject) for finding in found.findings] == [("extra", "leaf1-spine1")]
    assert found.fabric == intended


def test_cables_in_other_ports_of_the_right_switches_are_used_as_they_are() -> None:
    intended = clos(2, 2, 1)
    moved = dataclasses.replace(intended.cables[0], lower_port=9, upper_port=8)
    real = dataclasses.replace(intended, cables=(moved, *intended.cables[1:]))
    found = survey(intended, seen(real))
    assert found.matches
    assert found.fabric == real


def test_a_switch_that_is_not_connected_takes_its_cables_down_and_is_named() -> None:
    intended = clos(2, 2, 1)
    shown = seen(intended.without_links(["spine2"]))
    shown = dataclasses.replace(shown, switches=shown.switches - {65538})
    found = survey(intended, shown)
    assert [finding.text for finding in found.findings] == ["spine2 is not connected"]
    assert found.fabric == intended.without_links(["spine2"])


def test_a_leaf_that_is_not_connected_keeps_its_cables_but_those_whose_other_end_is_down() -> None:
    """It may forward on by the rules that it has, and nothing else leads to its hosts."""
    intended = clos(2, 2, 1)
    shown = seen(intended.without_links(["leaf2-spine1"]))
    without = {port: up for port, up in shown.ports.items() if port.switch != 2}
    links = {a: b for a, b in shown.links.items() if 2 not in (a.switch, b.switch)}
    shown = dataclasses.replace(shown, switches=shown.switches - {2}, ports=without, links=links)
    assert survey(intended, shown, before=intended).fabric == intended.without_links(["leaf2-spine1"])


def test_what_was_never_seen_counts_as_there_while_switches_have_only_begun_to_connect() -> None:
    intended = clos(2, 2, 1)
    nothing = NetworkState(starting=True)
    assert survey(intended, nothing).fabric == intended
    down = NetworkState(starting=True, switches=frozenset({1}), ports={PortId(1, 2): False})
    assert survey(intended, down).fabric == intended.without_links(["leaf1-spine1"])


def test_a_port_that_another_cable_was_moved_to_is_no_longer_the_missing_ones() -> None:
    intended = clos(1, 2, 1, parallel=2)
    gone, moved = intended.cables[1], dataclasses.replace(intended.cables[2], upper_port=2)
    assert (gone.lower, gone.upper_port, moved.lower) == ("leaf1", 2, "leaf2")
    real = dataclasses.replace(intended, cables=(intended.cables[0], moved, intended.cables[3]))
    shown = seen(real)
    shown = dataclasses.replace(shown, ports={**shown.ports, PortId(1, 3): False})
    found = survey(intended, shown, before=intended)
    assert found.fabric is not None
    assert [(c.up, c.upper_port) for c in found.fabric.cables] == [(True, 1), (False, None), (True, 2), (True, 4)]
    compile_base(found.fabric)  # no two rules for one port


def test_where_discovery_shows_no_link_at_all_the_cables_stay_as_they_were() -> None:
    intended = clos(2, 2, 1)
    shown = dataclasses.replace(seen(intended), links={})
    found = survey(intended, shown, before=intended)
    assert found.fabric == intended
    # Nothing is known to be wrong; how much is not confirmed is counted.
    assert found.matches
    assert found.unconfirmed == len(intended.cables)
    spines_gone = dataclasses.replace(shown, switches=frozenset({1, 2}))
    assert survey(intended, spines_gone, before=intended).fabric == intended


@given(intended=fabrics(failures=False), data=st.data())
def test_without_evidence_cables_are_as_the_file_says_or_as_before(intended: Fabric, data: st.DataObject) -> None:
    shown = seen(intended)
    unseen = data.draw(st.sets(st.sampled_from(sorted(shown.links))))
    links = {a: b for a, b in shown.links.items() if a not in unseen}
    down = data.draw(st.sets(st.sampled_from(intended.cable_names)))
    before = intended.without_links(down)
    found = survey(intended, dataclasses.replace(shown, links=links), before=before)
    assert found.fabric is not None
    both = NetworkState(shown.ports, shown.switches, links).cables()
    confirmed = {port for ends in both for port in ends}
    for name, cable, now in zip(intended.cable_names, intended.cables, found.fabric.cables, strict=True):
        end = PortId(next(leaf.dpid for leaf in intended.leaves if leaf.name == cable.lower), cable.lower_port or 0)
        assert now.up == (end in confirmed or name not in down)
    assert found.settled == (found.unconfirmed == 0)


@given(intended=fabrics(failures=False), data=st.data())
def test_a_cable_that_is_surely_silent_at_either_end_is_down_and_named(intended: Fabric, data: st.DataObject) -> None:
    shown = seen(intended)
    silent = data.draw(st.sets(st.sampled_from(sorted(shown.links)), min_size=1))
    links = {a: b for a, b in shown.links.items() if a not in silent}
    found = survey(intended, dataclasses.replace(shown, links=links, silent=frozenset(silent)), before=intended)
    dpid = {switch.name: switch.dpid for switch in intended.switches}
    lost = {
        name
        for name, cable in zip(intended.cable_names, intended.cables, strict=True)
        if not silent.isdisjoint(
            (PortId(dpid[cable.lower], cable.lower_port or 0), PortId(dpid[cable.upper], cable.upper_port or 0))
        )
    }
    assert found.fabric == intended.without_links(lost)
    assert {finding.subject for finding in found.findings} == lost


@pytest.mark.parametrize("word", ["there", "lost"])
def test_cables_of_a_spine_that_just_connected_or_disconnected_keep_their_state(word: str) -> None:
    intended = clos(2, 2, 1)
    before = intended.without_links(["leaf1-spine2"])
    shown = seen(intended)
    links = {a: b for a, b in shown.links.items() if 65538 not in (a.switch, b.switch)}
    switches = shown.switches if word == "there" else shown.switches - {65538}
    lost = frozenset() if word == "there" else frozenset({65538})
    shown = dataclasses.replace(shown, links=links, switches=switches, lost=lost)
    assert survey(intended, shown, before=before).fabric == before


def test_a_cable_that_the_file_calls_failed_is_not_missed() -> None:
    intended = clos(2, 2, 1).without_links(["leaf1-spine1"])
    assert survey(intended, seen(intended)).matches


def test_one_way_links_do_not_count() -> None:
    intended = clos(1, 2, 1)
    shown = seen(intended)
    links = dict(shown.links)
    del links[PortId(1, 2)]
    assert survey(intended, dataclasses.replace(shown, links=links)).unconfirmed == 1
    found = survey(intended, dataclasses.replace(shown, links=links, silent=frozenset({PortId(1, 2)})))
    assert [finding.text for finding in found.findings] == ["leaf1-spine1 is missing: discovery packets are lost"]


@given(intended=fabrics(failures=False), data=st.data())
def test_a_host_never_leaves_the_port_or_the_leaf_that_the_file_names_whatever_is_observed(
    intended: Fabric, data: st.DataObject
) -> None:
    keep = data.draw(st.sets(st.sampled_from([host.ip for host in intended.hosts])))
    hosts = tuple(host if host.ip in keep else dataclasses.replace(host, port=None) for host in intended.hosts)
    named = dataclasses.replace(intended, hosts=hosts)
    shown = seen(intended)
    ports = st.sampled_from(sorted({*shown.ports, PortId(1, 99), PortId(2, 99)}))
    claimed = data.draw(st.dictionaries(st.sampled_from([host.ip for host in hosts]), ports))
    heard = {ip: Location("02:66:66:66:66:66", at) for ip, at in claimed.items()}
    found = survey(named, dataclasses.replace(shown, hosts=heard)).fabric
    assert found is not None
    for before, after in zip(named.hosts, found.hosts, strict=True):
        assert after.leaf == before.leaf
        assert before.port is None or after.port == before.port
    places = [(host.leaf, host.port) for host in found.hosts if host.port is not None]
    cable_ends = {(cable.lower, cable.lower_port) for cable in intended.cables}
    assert len(set(places)) == len(places)
    assert cable_ends.isdisjoint(places)


def test_a_host_whose_port_leads_to_a_switch_has_no_port_and_is_reported() -> None:
    intended = clos(1, 2, 1)
    shown = seen(intended)
    a, b = PortId(1, 1), PortId(65537, 9)
    shown = dataclasses.replace(shown, links={**shown.links, a: b, b: a}, ports={**shown.ports, b: True})
    found = survey(intended, shown)
    assert "port 1 of leaf1 leads to a switch instead of h1" in {f.text for f in found.findings}
    assert found.hosts_unplaced == ("h1",)


MAC = "02:66:66:66:66:66"


@pytest.mark.parametrize(
    ("clash", "text"),
    [
        (
            Clash("clash", "10.0.1.1", MAC, PortId(2, 1), "10.0.1.1", PortId(1, 1)),
            f"10.0.1.1 (h1) is claimed at leaf2 port 1 by {MAC}; it stays at leaf1 port 1",
        ),
        (
            Clash("clash", "10.9.9.9", MAC, PortId(2, 1), "10.0.1.1", PortId(1, 1)),
            f"{MAC}, the MAC address of 10.0.1.1 (h1) at leaf1 port 1, is used at leaf2 port 1 for 10.9.9.9",
        ),
        (
            Clash("clash", "10.0.1.1", MAC, PortId(2, 1), "10.0.2.1", PortId(2, 1)),
            f"10.0.1.1 (h1) is claimed at leaf2 port 1 by {MAC}, which is the port of 10.0.2.1 (h2)",
        ),
        (
            Clash("misplaced", "10.0.1.1", MAC, PortId(1, 9), "10.0.1.1", PortId(1, 1)),
            "10.0.1.1 (h1) answers at leaf1 port 9, not at leaf1 port 1, to which its traffic is sent",
        ),
        (
            Clash("misplaced", "10.0.1.1", MAC, PortId(3, 9), "", None),
            "10.0.1.1 (h1) answers at 0x3 port 9, the fabric file does not allow this port",
        ),
    ],
)
def test_a_claim_that_was_not_believed_is_reported_with_both_ports(clash: Clash, text: str) -> None:
    fabric = clos(1, 2, 1)
    found = survey(fabric, dataclasses.replace(seen(fabric), clashes=frozenset({clash})))
    assert [finding.text for finding in found.findings] == [text]
    assert found.fabric == fabric


def test_of_very_many_clashes_some_are_listed_and_the_rest_counted() -> None:
    fabric = clos(1, 2, 1)
    clashes = frozenset(
        Clash("clash", f"10.1.{n // 256}.{n % 256}", MAC, PortId(2, 1), "", None) for n in range(MOST_CLASHES + 7)
    )
    found = survey(fabric, dataclasses.replace(seen(fabric), clashes=clashes))
    assert len(found.findings) == MOST_CLASHES + 1
    assert found.findings[-1].text.startswith("7 more")


# -- discovery alone ------------------------------------------------------------------------------------------


def test_without_a_host_no_switch_has_a_role() -> None:
    assert survey(None, seen(clos(2, 2, 2))).fabric is None


@given(real=fabrics(failures=False))
def test_discovery_alone_finds_the_same_switches_cables_and_hosts(real: Fabric) -> None:
    found = survey(None, seen(real, hosts=True)).fabric
    assert found is not None
    assert found.leaves == real.leaves
    assert found.spines == real.spines
    assert set(found.cables) == set(real.cables)
    assert {(h.ip, h.mac, h.leaf, h.port) for h in found.hosts} == {(h.ip, h.mac, h.leaf, h.port) for h in real.hosts}


@given(real=fabrics(failures=False, min_leaves=2), data=st.data())
def test_what_was_discovered_keeps_its_place_when_it_goes_down(real: Fabric, data: st.DataObject) -> None:
    before = survey(None, seen(real, hosts=True)).fabric
    assert before is not None
    gone = data.draw(st.sets(st.sampled_from(before.cable_names)))
    names = {before.cable_names[c] for c in range(len(before.cables)) if before.cable_names[c] in gone}
    after = survey(None, seen(real.without_links(names), hosts=True), before=before).fabric
    assert after is not None
    assert after == before.without_links(names)


def test_a_link_between_two_leaves_is_named_and_not_used() -> None:
    real = clos(1, 2, 1)
    shown = seen(real, hosts=True)
    a, b = PortId(1, 8), PortId(2, 8)
    shown = dataclasses.replace(shown, links={**shown.links, a: b, b: a}, ports={**shown.ports, a: True, b: True})
    found = survey(None, shown)
    assert [finding.text for finding in found.findings] == [
        "leaf1 port 8 and leaf2 port 8 connect two leaves: not used"
    ]
    assert found.fabric is not None
    assert len(found.fabric.cables) == 2


def test_a_leaf_without_uplinks_is_named() -> None:
    real = clos(1, 2, 1)
    shown = seen(dataclasses.replace(real, cables=real.cables[:1]), hosts=True)
    shown = dataclasses.replace(shown, switches=frozenset({1, 2, 65537}))
    found = survey(None, shown)
    assert [finding.text for finding in found.findings] == ["leaf2 has hosts and no uplink"]


def test_a_host_link_that_was_down_stays_so_while_its_leaf_is_not_connected() -> None:
    fabric = clos(2, 2, 2)
    cut = fabric.without_links(["h1-leaf1"])
    before = survey(fabric, seen(cut)).fabric
    assert before == cut
    observed = seen(cut)
    gone = dataclasses.replace(
        observed,
        switches=observed.switches - {1},
        ports={port: up for port, up in observed.ports.items() if port.switch != 1},
        links={a: b for a, b in observed.links.items() if 1 not in (a.switch, b.switch)},
    )
    without = survey(fabric, gone, before=before).fabric
    assert without is not None
    assert [host.name for host in without.hosts if not host.up] == ["h1"]
    back = survey(fabric, seen(fabric), before=without).fabric
    assert back == fabric
