"""Cables that are confirmed falsely: by probes that have taken another way, and by routers that are mistaken."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.bgp.cable_verdicts import CableVerdicts
from controller.southbound.bgp.router_reach import SETTLE_SECONDS
from controller.southbound.srv6 import cable_evidence
from controller.southbound.srv6.cable_evidence import WITNESSES
from controller.southbound.srv6.carrier_cables import replaceable_cables
from tests.unit.southbound.bgp.heard_routers import Heard
from tests.unit.southbound.plans import patient
from tests.unit.southbound.srv6.probed_network import Network, networks


class Court:
    """A network whose routers and agents all report."""

    def __init__(self, network: Network) -> None:
        self.network, fabric = network, network.fabric
        self.heard = Heard(fabric)
        self.verdicts = CableVerdicts(fabric.cable_names, self.heard.reach, replaceable=replaceable_cables(fabric))
        self.heard.begin([switch.name for switch in fabric.switches])
        self.heard.tell(())
        self.reports()

    def report(self) -> None:
        """All hosts report."""
        for _ in range(2):
            for host in range(self.network.fabric.n_hosts):
                self.heard.now += 0.001
                self.verdicts.take(f"h{host + 1}", self.heard.now, *self.network.answers(host))

    def reports(self) -> None:
        """All hosts report, until nothing is judged otherwise with time."""
        for _ in range(4):
            self.report()
            self.heard.now += SETTLE_SECONDS + cable_evidence.SETTLE_SECONDS
            self.heard.reach.look(self.heard.now)
            self.verdicts.judge(self.heard.now)

    def down(self) -> set[int]:
        return {cable for cable, reason in self.verdicts.cables.items() if reason}


def beside_one_switch(network: Network, data: st.DataObject) -> frozenset[int]:
    """All cables below a switch, as if it had no power, or a few of any."""
    fabric = network.fabric
    uppers = sorted({cable.upper for cable in fabric.cables})
    if data.draw(st.booleans()):
        upper = data.draw(st.sampled_from(uppers))
        return frozenset(at for at, cable in enumerate(fabric.cables) if upper in (cable.lower, cable.upper))
    return frozenset(data.draw(st.sets(st.sampled_from(range(len(fabric.cables))), max_size=3)))


@patient
@given(networks(), st.data())
def test_only_probes_that_turn_at_a_spine_show_by_their_hops_that_they_were_passed_over(
    network: Network, data: st.DataObject
) -> None:
    """One that goes on to another leaf crosses as many links by another spine, so its hop limit shows nothing."""
    fabric = network.fabric
    replaceable = replaceable_cables(fabric)
    loud = beside_one_switch(network, data)
    for host, probes in enumerate(network.probes):
        for probe in probes:
            network.loud = frozenset()
            whole = network.over(network.walk(host, probe))
            network.loud = loud
            taken = network.walk(host, probe)
            over = network.over(taken)
            if taken.host != host or over == whole or replaceable & set(whole):
                continue
            turns_at_spine = len(whole) == 2
            assert (len(over) < len(whole)) == turns_at_spine
            # What is not told by its hops confirms falsely, and only cables that are all down.
            confirmed = network.cables.confirmed(host, probe)
            assert confirmed <= loud
            assert bool(confirmed) != turns_at_spine


@patient
@given(networks(), st.data())
def test_a_cable_that_routers_see_to_be_down_is_down_whatever_probes_come_back_by_other_ways(
    network: Network, data: st.DataObject
) -> None:
    court = Court(network)
    assert court.down() == set()
    network.loud = beside_one_switch(network, data)
    if data.draw(st.booleans()):
        court.report()
        court.heard.now += 0.5
    court.heard.tell(network.loud)
    court.reports()
    assert court.down() == network.loud
    network.loud = frozenset()
    court.heard.tell(())
    court.reports()
    assert court.down() == set()
    assert court.verdicts.conflicts == []


@patient
@given(networks(), st.data())
def test_a_cable_that_loses_packets_is_not_held_up_by_routers_that_say_that_it_works(
    network: Network, data: st.DataObject
) -> None:
    """Two hosts whose probes are lost count more, whether the routers lie or BGP's packets pass."""
    fabric = network.fabric
    hosts = Counter(fabric.host_leaf.tolist())
    probed = [
        cable
        for cable, tier in enumerate(fabric.cable_tier.tolist())
        if tier == 0 and hosts[int(fabric.cable_lower[cable])] >= WITNESSES
    ]
    if not probed:
        return
    court = Court(network)
    network.silent = frozenset(data.draw(st.sets(st.sampled_from(probed), min_size=1, max_size=3)))
    court.reports()
    assert court.down() == network.silent
    for cable in network.silent:
        told = [text for text in court.verdicts.conflicts if text.startswith(f"{fabric.cable_names[cable]}: ")]
        assert len(told) == 1
        assert told[0].endswith("by BGP; it counts as down")


@patient
@given(networks(), st.data())
def test_a_cable_that_one_leaf_alone_has_lost_by_bgp_works_if_probes_come_back(
    network: Network, data: st.DataObject
) -> None:
    """A daemon has ended there: other leaves reach the same spines, so probes to these have not passed over them."""
    fabric = network.fabric
    court = Court(network)
    leaf = data.draw(st.integers(0, fabric.n_leaves - 1))
    lost = {cable for cable in range(len(fabric.cables)) if fabric.cables[cable].lower == fabric.leaves[leaf].name}
    court.heard.tell(lost)
    court.reports()
    confirmed = Counter[int]()
    for host in range(fabric.n_hosts):
        _, passed, shown = network.answers(host)
        confirmed.update(shown.union(*(way for way in passed if way - lost)))
    works = {cable for cable in lost if confirmed[cable] >= WITNESSES} - replaceable_cables(fabric)
    assert court.down() == lost - works
    assert len(court.verdicts.conflicts) == min(len(works), 6)
