"""Counters that do not fit the plan are detected, each kind separately."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.southbound.enforcement.registry import rule_enforcements
from emulation.experiments.counters import GroupCount, RuleCount, Snapshot
from emulation.experiments.evidence import Evidence, Planned, arrived, at_rules, judge
from emulation.experiments.request import Draw, EmulatedScenario
from tests.unit.emulation.experiments.made import FRAME, PACKETS, counters, ports, ring, scenario_of, units
from tests.unit.laws import examples

CLOS = "{spines: 3, leaves: 2, hosts_per_leaf: 3}"


@pytest.fixture(scope="module", params=rule_enforcements())
def scenario(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EmulatedScenario:
    return scenario_of(
        tmp_path_factory.mktemp("s"), CLOS, [ring("a", ["h1", "h4", "h2", "h5"])], enforcement=request.param
    )


def verdict(
    scenario: EmulatedScenario, planned: list[Planned], after: Snapshot, *, retransmissions: int = 0
) -> Evidence:
    before = counters(scenario, planned, packets=0)
    return judge(planned, ports(scenario), before, after, retransmissions=retransmissions)


def with_group(counted: Snapshot, leaf: str, number: int, group: GroupCount) -> Snapshot:
    return replace(counted, groups={**counted.groups, leaf: {**counted.groups[leaf], number: group}})


@settings(max_examples=examples(10, 60), deadline=None)
@given(seed=st.integers(0, 100), packets=st.integers(PACKETS, 10 * PACKETS))
def test_counters_that_fit_the_plan_prove_it(scenario: EmulatedScenario, seed: int, packets: int) -> None:
    planned = units(scenario, Draw("ecmp", seed))
    after = counters(scenario, planned, packets=packets)
    evidence = verdict(scenario, planned, after)
    assert evidence.wrong == ()
    assert {one.packets for one in evidence.flows} == {packets}
    assert arrived(planned, counters(scenario, planned, packets=0), after)


def test_counts_of_an_earlier_run_do_not_matter(scenario: EmulatedScenario) -> None:
    planned = units(scenario, Draw("greedy", 1))
    before, after = (counters(scenario, planned, packets=n) for n in (5 * PACKETS, 6 * PACKETS))
    evidence = judge(planned, ports(scenario), before, after, retransmissions=0)
    assert evidence.wrong == ()
    assert {one.packets for one in evidence.flows} == {PACKETS}


def test_qps_with_neighbouring_ports_are_counted_by_one_rule() -> None:
    planned = [
        Planned(unit, unit, (f"a/c/0.{port}",), "leaf1", ("leaf1->spine1", "spine1->leaf2"), 0, PACKETS * 4096)
        for port in range(50000, 50005)
        for unit in [("10.0.1.1", "10.0.2.1", port)]
    ]
    ends = ("10.0.1.1", "10.0.2.1")
    block = RuleCount(4 * PACKETS, 4 * PACKETS * FRAME, 7, ports=4)
    single = RuleCount(PACKETS, PACKETS * FRAME, 7)
    after = Snapshot(
        {"leaf1": {(*ends, 50000): block, (*ends, 50004): single}},
        {"leaf1": {7: GroupCount(1, (5 * PACKETS, 0))}},
        {"leaf1->spine1": 5 * PACKETS * FRAME, "spine1->leaf2": 5 * PACKETS * FRAME},
    )
    nothing = replace(after, rules={"leaf1": {}}, sent=dict.fromkeys(after.sent, 0))
    nothing = replace(nothing, groups={"leaf1": {7: GroupCount(1, (0, 0))}})
    units = at_rules(planned, after)
    assert [one.rule[2] for one in units] == [50000] * 4 + [50004]
    evidence = judge(units, {"leaf1->spine1": 1}, nothing, after, retransmissions=0)
    assert evidence.wrong == ()
    assert [one.packets for one in evidence.flows] == [PACKETS] * 5
    (line,) = judge(at_rules(planned, nothing), {"leaf1->spine1": 1}, nothing, after, retransmissions=0).wrong[:1]
    assert "leaf1" in line


def test_a_packet_that_left_by_the_fallback_is_reported(scenario: EmulatedScenario) -> None:
    planned = units(scenario, Draw("greedy", 1))
    after = counters(scenario, planned, packets=PACKETS)
    one = planned[0]
    number = after.rules[one.leaf][one.rule].group
    group = after.groups[one.leaf][number]
    after = with_group(after, one.leaf, number, replace(group, packets=(group.packets[0] - 1, 1)))
    (line,) = verdict(scenario, planned, after).wrong
    assert one.flows[0] in line
    assert "1 packets left" in line


def test_a_rule_that_is_missing_idle_or_leads_elsewhere_is_reported(scenario: EmulatedScenario) -> None:
    planned = units(scenario, Draw("greedy", 1))
    one = planned[0]
    for change, words in (
        (lambda rules: rules.pop(one.rule), "has no rule for it"),
        (lambda rules: rules.update({one.rule: RuleCount(1, 4154, rules[one.rule].group)}), "counted 1 packets"),
        (lambda rules: rules.update({one.rule: replace(rules[one.rule], group=999)}), "sends it out of port 999"),
    ):
        after = with_group(counters(scenario, planned, packets=PACKETS), one.leaf, 999, GroupCount(999, (0, 0)))
        change(after.rules[one.leaf])
        assert any(words in line and one.flows[0] in line for line in verdict(scenario, planned, after).wrong)
        assert words == "sends it out of port 999" or not arrived(
            planned, counters(scenario, planned, packets=0), after
        )


def test_the_pieces_of_split_flows_are_judged_one_by_one(scenario: EmulatedScenario) -> None:
    planned = units(scenario, Draw("ethereal", 1))
    assert len(planned) > scenario.traffic.n_flows
    after = counters(scenario, planned, packets=PACKETS)
    assert verdict(scenario, planned, after).wrong == ()
    one = planned[0]
    moved = dict(after.sent)
    moved[one.links[1]] -= 10 * PACKETS * FRAME
    (line,) = verdict(scenario, planned, replace(after, sent=moved)).wrong
    assert line.startswith(f"{one.links[1]} sent")


@settings(max_examples=examples(10, 60), deadline=None)
@given(seed=st.integers(0, 100), which=st.integers(0, 3), hop=st.integers(0, 1))
def test_a_flow_that_took_another_link_up_or_down_is_reported(
    scenario: EmulatedScenario, seed: int, which: int, hop: int
) -> None:
    packets = 10 * PACKETS
    planned = units(scenario, Draw("ecmp", seed))
    after = counters(scenario, planned, packets=packets)
    one = planned[which]
    moved = dict(after.sent)
    other = next(link for link in sorted(moved) if link not in one.links)
    size = after.rules[one.leaf][one.rule].bytes
    moved[one.links[hop]] -= size
    moved[other] += size
    lines = verdict(scenario, planned, replace(after, sent=moved)).wrong
    assert any(line.startswith(f"{one.links[hop]} sent") for line in lines)
    assert any(line.startswith(f"{other} sent") for line in lines)


def test_acknowledgements_that_travel_by_any_link_are_no_mismatch(scenario: EmulatedScenario) -> None:
    planned = units(scenario, Draw("greedy", 1))
    after = counters(scenario, planned, packets=PACKETS)
    acknowledged = {link: sent + len(planned) * PACKETS // 8 * 62 for link, sent in after.sent.items()}
    assert verdict(scenario, planned, replace(after, sent=acknowledged)).wrong == ()
