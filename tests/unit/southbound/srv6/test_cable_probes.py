"""Laws of the probes of single cables, and of what is concluded from reports about them."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.srv6.cable_evidence import SETTLE_SECONDS, WITNESSES, CableEvidence
from controller.southbound.srv6.cable_probes import PROBERS
from controller.southbound.srv6.carrier_cables import replaceable_cables
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.router_configuration import CableAddresses
from tests.unit.southbound.plans import patient
from tests.unit.southbound.srv6.probed_network import Network, networks


def single_cables(fabric: Fabric) -> list[int]:
    """Cables of the first tier, each the only one between its ends."""
    ends = [(cable.lower, cable.upper) for cable in fabric.cables]
    tiers = fabric.cable_tier.tolist()
    return [cable for cable, pair in enumerate(ends) if ends.count(pair) == 1 and tiers[cable] == 0]


def reported(network: Network, evidence: CableEvidence, now: float, liars: dict[int, random.Random]) -> float:
    """All hosts report several times, as long as it takes until all is settled; return the time."""
    n_cables = len(network.fabric.cables)
    for _ in range(3):
        for host in range(network.fabric.n_hosts):
            dead, passed, shown = network.report(host)
            if host in liars:
                lie = liars[host]
                dead = [
                    frozenset(lie.sample(range(n_cables), lie.randint(1, min(3, n_cables))))
                    for _ in range(lie.randint(0, 2 * n_cables) if n_cables else 0)
                ]
                passed = shown = frozenset(cable for cable in range(n_cables) if lie.random() < 0.5)
            evidence.take(f"h{host + 1}", now, dead, passed, shown)
            evidence.judge(now)
            now += 0.01
        now += SETTLE_SECONDS
        evidence.judge(now)
    return now


@patient
@given(networks())
def test_each_probe_comes_back_over_its_own_cables_and_each_uplink_is_probed_by_several(network: Network) -> None:
    fabric, probers = network.fabric, Counter[int]()
    for host, probes in enumerate(network.probes):
        probed = set()
        for probe in probes:
            taken = network.walk(host, probe)
            assert taken.host == host
            over = network.over(taken)
            assert over == over[::-1], "back by the same cables"
            assert network.cables.suspects(host, probe, None, probed=True) == frozenset(over)
            probed.add(over[-1])
            if len(set(over)) == 1:
                probers[over[0]] += 1
    hosts = Counter(fabric.host_leaf.tolist())
    for cable, tier in enumerate(fabric.cable_tier.tolist()):
        if tier == 0:
            assert probers[cable] == min(PROBERS, hosts[int(fabric.cable_lower[cable])])


@patient
@given(networks(), st.data())
def test_probes_that_confirm_a_cable_never_come_back_if_it_loses_packets(network: Network, data: st.DataObject) -> None:
    """Nor if routers see that it is down, unless they see that of all cables of the probe: then they pass over both."""
    cables = single_cables(network.fabric)
    if not cables:
        return
    down = frozenset(data.draw(st.sets(st.sampled_from(cables), max_size=3)))
    seen = frozenset(data.draw(st.sets(st.sampled_from(cables), max_size=3)))
    network.loud, network.silent = seen, down - seen
    for host, probes in enumerate(network.probes):
        for probe in probes:
            if network.comes_back(host, probe):
                confirmed = network.cables.confirmed(host, probe)
                assert confirmed.isdisjoint(down - seen)
                assert confirmed.isdisjoint(seen) or confirmed <= seen


@patient
@given(networks(), st.data())
def test_a_cable_that_loses_packets_is_found_if_two_hosts_probe_it_and_is_up_again_after_that(
    network: Network, data: st.DataObject
) -> None:
    fabric = network.fabric
    hosts = Counter(fabric.host_leaf.tolist())
    probed = {
        cable
        for cable, tier in enumerate(fabric.cable_tier.tolist())
        if tier == 0 and hosts[int(fabric.cable_lower[cable])] >= WITNESSES
    }
    if not probed:
        return
    down = data.draw(st.sets(st.sampled_from(sorted(probed)), min_size=1, max_size=3))
    evidence = CableEvidence(replaceable_cables(fabric))
    now = reported(network, evidence, 0.0, {})
    assert evidence.down == frozenset()
    network.silent = frozenset(down)
    now = reported(network, evidence, now, {})
    assert evidence.down == network.silent
    assert all(evidence.cables[cable] for cable in down)
    network.silent = frozenset()
    known = {cable for cable, reason in evidence.cables.items() if not reason}
    reported(network, evidence, now, {})
    confirmed = Counter(
        cable for host in range(fabric.n_hosts) for cable in frozenset[int]().union(*network.report(host)[1:])
    )
    assert evidence.down == {cable for cable in down if confirmed[cable] < WITNESSES}
    assert known <= {cable for cable, reason in evidence.cables.items() if not reason}


@patient
@given(networks(), st.data())
def test_one_liar_never_takes_a_cable_down_nor_lets_one_seem_up_again(network: Network, data: st.DataObject) -> None:
    fabric = network.fabric
    liar = data.draw(st.integers(0, fabric.n_hosts - 1))
    lies = {liar: random.Random(data.draw(st.integers(0, 2**32)))}
    cables = range(len(fabric.cables))
    down = data.draw(st.sets(st.sampled_from(cables), max_size=3)) if cables else set[int]()
    seen = data.draw(st.sets(st.sampled_from(cables), max_size=1)) if cables else set[int]()
    evidence = CableEvidence(replaceable_cables(fabric))
    now = reported(network, evidence, 0.0, lies)
    assert evidence.down == frozenset()
    network.silent, network.loud = frozenset(down - seen), frozenset(seen)
    reported(network, evidence, now, lies)
    assert evidence.down <= down | seen
    works = {cable for cable, reason in evidence.cables.items() if not reason}
    honest = [host for host in range(fabric.n_hosts) if host != liar]
    lost = Counter(cable for host in honest for path in network.report(host)[0] if len(path) == 1 for cable in path)
    assert not any(lost[cable] >= WITNESSES for cable in works)


def test_what_a_router_says_names_the_cable_behind_it() -> None:
    fabric = clos(2, 3, 2)
    network, addresses = Network(fabric), CableAddresses(fabric)
    for src in range(fabric.n_hosts):
        for dst in range(fabric.n_hosts):
            ends = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
            for path in fabric.ways.between(*ends).tolist() if ends[0] != ends[1] else ():
                links = fabric.flow_links(src, dst, path)
                carrier = network.ids.address(path_ids(network.ids, src, dst, path))
                for link in links[1:-1]:
                    at = str(addresses.of_link(link, far=False).ip)
                    said = network.cables.suspects(src, carrier, at, probed=False)
                    assert said == {(link - fabric.first_cable_link) // 2}
                assert network.cables.suspects(src, carrier, "fd00::1", probed=False) == {
                    (link - fabric.first_cable_link) // 2 for link in links[1:-1]
                }
                for first, second in pairwise(links[:-1]):
                    assert first != second


def test_hosts_that_are_silent_count_no_more_and_a_cable_stays_down_meanwhile() -> None:
    evidence = CableEvidence()
    for host in ("h1", "h2"):
        evidence.take(host, 1.0, [frozenset({7})], (), ())
    evidence.judge(1.0)
    assert evidence.down == {7}
    for host in ("h1", "h2"):
        evidence.silent(host)
    evidence.judge(50.0)
    assert evidence.down == {7}
    evidence.take("h1", 51.0, (), {7}, {7})
    evidence.judge(51.0)
    assert evidence.down == {7}, "one host alone does not bring it back"
    evidence.take("h3", 52.0, (), {7}, {7})
    evidence.judge(52.0)
    assert evidence.cables == {7: ""}


def test_a_path_of_several_cables_accuses_one_only_after_the_others_are_cleared_since() -> None:
    evidence = CableEvidence()
    for host in ("h1", "h2"):
        evidence.take(host, 0.0, (), {1}, {1})
        evidence.take(host, 1.0, [frozenset({1, 2})], (), ())
    evidence.judge(10.0)
    assert evidence.down == frozenset(), "what came back before the loss says nothing"
    for host in ("h1", "h2"):
        evidence.take(host, 11.0, [frozenset({1, 2})], {1}, ())
    evidence.judge(11.0)
    assert evidence.down == frozenset(), "what came back may have taken another way"
    for host in ("h1", "h2"):
        evidence.take(host, 11.0, [frozenset({1, 2})], {1}, {1})
    evidence.judge(11.0)
    assert evidence.down == {2}
