"""What is said of cables by probes of agents alone: what they do not determine is unknown, never up or down."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.srv6.cable_evidence import SETTLE_SECONDS
from controller.southbound.srv6.carrier_cables import replaceable_cables
from tests.unit.southbound.plans import patient
from tests.unit.southbound.srv6.probed_network import Network, networks


class Witnesses:
    """Agents of a network without BGP sessions: some are silent, and some are of a version without bypass probes."""

    def __init__(self, network: Network, reporting: list[int], old: set[int]) -> None:
        self.network, self.reporting, self.old, self.now = network, reporting, old, 0.0
        fabric = network.fabric
        self.verdicts = CableVerdicts(fabric.cable_names, replaceable=replaceable_cables(fabric))

    def report(self) -> None:
        """Those that report do so several times, until nothing is judged otherwise with time."""
        for _ in range(3):
            for host in 2 * self.reporting:
                self.now += 0.01
                self.verdicts.take(f"h{host + 1}", self.now, *self.network.answers(host, old=host in self.old))
            self.now += SETTLE_SECONDS
            self.verdicts.judge(self.now)

    def said(self, *, up: bool) -> set[int]:
        return {cable for cable, reason in self.verdicts.cables.items() if bool(reason) != up}


def fail(network: Network, draw: random.Random) -> None:
    """Let one or two cables fail, or all of a switch: seen by routers, or silently, in both directions or in one."""
    fabric = network.fabric
    if draw.random() < 0.4:
        switch = draw.choice([each.name for each in fabric.switches])
        network.loud = frozenset(n for n, each in enumerate(fabric.cables) if switch in (each.lower, each.upper))
        return
    chosen = draw.sample(range(len(fabric.cables)), min(len(fabric.cables), draw.randint(1, 2)))
    kinds = [(cable, draw.choice(("loud", "silent", "one way"))) for cable in chosen]
    network.loud = frozenset(cable for cable, kind in kinds if kind == "loud")
    network.silent = frozenset(cable for cable, kind in kinds if kind == "silent")
    links = (fabric.first_cable_link + 2 * cable + draw.randint(0, 1) for cable, kind in kinds if kind == "one way")
    network.one_way = frozenset(links)


def never_shown(network: Network) -> set[int]:
    """Return the parallel cables to a switch with one leaf: that leaf may send all their probes back itself."""
    fabric = network.fabric
    many = Counter((each.lower, each.upper) for each in fabric.cables)
    leaves = Counter(upper for _, upper in many)
    return {n for n, each in enumerate(fabric.cables) if many[each.lower, each.upper] > 1 and leaves[each.upper] == 1}


@patient
@given(networks(), st.integers(0, 2**32))
def test_what_probes_alone_say_of_a_cable_is_true_whatever_fails_and_whoever_reports(
    network: Network, seed: int
) -> None:
    if not network.fabric.cables:
        return
    draw = random.Random(seed)
    hosts, part = range(network.fabric.n_hosts), draw.choice((1.0, 0.6))
    reporting = [host for host in hosts if draw.random() < part]
    witnesses = Witnesses(network, reporting, {host for host in reporting if draw.random() < draw.choice((0, 0.5))})
    if draw.random() < 0.5:
        witnesses.report()
        assert witnesses.said(up=False) == set()
    kept = set[int]()
    for _ in range(2):
        fail(network, draw)
        witnesses.report()
        assert witnesses.said(up=True).isdisjoint(network.down)
        assert witnesses.said(up=False) <= network.down | kept
        network.loud = network.silent = network.one_way = frozenset()
        witnesses.report()
        back = witnesses.said(up=True) | witnesses.verdicts.passed_cables
        # A cable stays down that nothing shows to work again.
        kept = witnesses.said(up=False)
        assert kept.isdisjoint(back)
        if not witnesses.old and len(reporting) == len(hosts):
            assert kept <= never_shown(network)


@patient
@given(networks())
def test_each_single_cable_of_a_leaf_with_two_agents_is_known_to_work_or_to_be_down(network: Network) -> None:
    """A switch without power was not noticed where all leaves pass over it."""
    fabric = network.fabric
    known = {
        cable
        for cable in set(range(len(fabric.cables))) - replaceable_cables(fabric)
        if fabric.host_leaf.tolist().count(int(fabric.cable_lower[cable])) >= 2
    }
    witnesses = Witnesses(network, [*range(fabric.n_hosts)], set())
    witnesses.report()
    assert witnesses.said(up=True) >= known
    network.loud = frozenset(cable for cable in known if fabric.cables[cable].upper == fabric.layers[1][0].name)
    witnesses.report()
    assert witnesses.said(up=False) == network.loud
    network.loud = frozenset()
    witnesses.report()
    assert witnesses.said(up=True) >= known


@patient
@given(networks(), st.data())
def test_bypass_probes_come_back_only_where_a_leaf_passes_over_a_switch(network: Network, data: st.DataObject) -> None:
    cables = range(len(network.fabric.cables))
    if not cables:
        return
    network.loud = frozenset(data.draw(st.sets(st.sampled_from(cables), max_size=4)))
    for host, probes in enumerate(network.bypasses):
        for probe in probes:
            cable = network.cables.bypassed(host, probe)
            assert cable is not None
            assert network.comes_back(host, probe) == (cable in network.loud)
        for probe in network.probes[host]:
            assert network.cables.bypassed(host, probe) is None


@pytest.mark.parametrize("old", [True, False])
def test_a_spine_without_power_is_down_and_never_works_to_agents_without_bypass_probes(old: bool) -> None:
    network = Network(clos(3, 4, 2))
    witnesses = Witnesses(network, [*range(8)], {*range(8)} if old else set())
    witnesses.report()
    assert witnesses.said(up=True) == (set() if old else {*range(12)})
    network.loud = frozenset(n for n, each in enumerate(network.fabric.cables) if each.upper == "spine1")
    witnesses.report()
    assert witnesses.said(up=False) == (set() if old else network.loud)
    assert not witnesses.said(up=True) & network.loud
