"""Rates and counters of links and flows from two readings per switch, for any change in between."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import ANY_PORT, FIRST_PORT, Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.ingress import with_exact_ports
from controller.southbound.enforcement.port_blocks import port_blocks
from controller.southbound.enforcement.registry import compile_rules, encode_flows
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import RuleKey
from controller.telemetry.counters import PortCounters, RuleCounters, SwitchCounters
from controller.telemetry.port_rates import UNKNOWN, Readings, block_keys
from tests.traffic_columns import traffic_of_columns
from tests.unit.laws import examples
from tests.unit.southbound.plans import KEEPING, cases, patient
from tests.unit.strategies import fabrics
from tests.unit.telemetry.placed_traffic import place, with_ports

UNSUPPORTED = 2**64 - 1
SMALL = st.integers(0, 10**12)
MAYBE = SMALL | st.just(UNSUPPORTED)
PERIODS = st.floats(0.001, 100)


@st.composite
def counted(draw: st.DrawFn, fabric: Fabric, values: st.SearchStrategy[int] = MAYBE) -> dict[int, SwitchCounters]:
    """A reading of every switch."""
    at = draw(st.floats(0, 1e6))
    return {
        dpid: SwitchCounters(dpid, at, {port: PortCounters(*(draw(values) for _ in range(8))) for port in ports})
        for dpid, ports in with_ports(fabric).items()
    }


def one_way(count: PortCounters, receives: bool) -> list[int]:
    """Bytes, drops and errors; ``UNKNOWN`` where the switch does not count."""
    values = (
        [count.rx_bytes, count.rx_dropped, count.rx_errors]
        if receives
        else [count.tx_bytes, count.tx_dropped, count.tx_errors]
    )
    return [UNKNOWN if value == UNSUPPORTED else value for value in values]


@settings(patient)
@given(data=st.data())
def test_a_link_has_the_counters_of_the_port_that_sends_and_the_rate_between_its_readings(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    first = data.draw(counted(fabric))
    # Every switch has a period of its own; some counters go back, some switches were read once, some are gone.
    second = {
        dpid: dataclasses.replace(count, at=first[dpid].at + data.draw(PERIODS))
        for dpid, count in data.draw(counted(fabric)).items()
        if data.draw(st.booleans())
    }
    gone = data.draw(st.sets(st.sampled_from(sorted(first)), max_size=2))
    readings = Readings()
    for count in (*first.values(), *second.values()):
        readings.add(count)
    for dpid in gone:
        readings.forget(dpid)
    rates = readings.link_rates(fabric)
    for number, link in enumerate(fabric.link_ids):
        dpid, port, receives = place(fabric, link)
        told = [int(column[number]) for column in (rates.bytes, rates.dropped, rates.errors)]
        gbps = float(rates.gbps[number])
        if dpid in gone:
            assert (told, math.isnan(gbps)) == ([UNKNOWN] * 3, True)
            continue
        before = one_way(first[dpid].ports[port], receives)
        now = one_way(second[dpid].ports[port], receives) if dpid in second else before
        assert told == now
        if dpid not in second or UNKNOWN in (now[0], before[0]) or now[0] < before[0]:
            assert math.isnan(gbps)
        else:
            seconds = second[dpid].at - first[dpid].at
            assert math.isclose(gbps, (now[0] - before[0]) * 8 / 1e9 / seconds, rel_tol=1e-9)


@settings(patient)
@given(data=st.data())
def test_what_is_counted_in_a_steady_stream_is_its_rate_however_uneven_the_periods(data: st.DataObject) -> None:
    fabric = data.draw(fabrics())
    rate = data.draw(st.floats(0.001, 400))
    readings, at = Readings(), 0.0
    ports = with_ports(fabric)
    for period in data.draw(st.lists(st.floats(0.1, 50), min_size=2, max_size=5)):
        at += period
        octets = round(rate * at * 1e9 / 8)
        for dpid, numbers in ports.items():
            count = PortCounters(0, 0, octets, octets, 0, 0, 0, 0)
            readings.add(SwitchCounters(dpid, at, dict.fromkeys(numbers, count)))
        # The same answer twice is no news.
        readings.add(SwitchCounters(next(iter(ports)), at, {}))
    assert np.allclose(readings.link_rates(fabric).gbps, rate, rtol=1e-3)
    assert readings.measured == at


@settings(patient)
@given(data=st.data())
def test_readers_get_the_last_two_and_forgotten_switches_begin_anew(data: st.DataObject) -> None:
    readings = Readings()
    expected: dict[int, list[SwitchCounters]] = {}
    clock = 0.0
    for dpid, forget, news in data.draw(st.lists(st.tuples(st.integers(1, 3), st.booleans(), st.booleans()))):
        if forget:
            readings.forget(dpid)
            expected.pop(dpid, None)
            continue
        clock += news
        count = SwitchCounters(dpid, clock)
        known = expected.setdefault(dpid, [])
        if not known or clock > known[-1].at:
            known.append(count)
        readings.add(count)
    for dpid in (1, 2, 3):
        known = expected.get(dpid, [])
        assert readings.latest(dpid) == (known[-1] if known else None)
        assert readings.previous(dpid) == (known[-2] if len(known) > 1 else None)


@settings(patient, max_examples=examples(30, 180))
@given(data=st.data())
def test_a_row_has_its_part_of_the_rate_of_its_rule_unless_it_cannot_be_told_apart(data: st.DataObject) -> None:
    enforcement = data.draw(st.sampled_from(KEEPING))
    case = data.draw(cases(enforcement))
    keys = row_keys(case.fabric, case.traffic, case.encoding)
    # What the compilers make is what is looked for, and nothing of it is left over.
    made = {(dpid, key) for dpid in case.rules for key in case.rules[dpid].rules if FLOW <= key[1] < DISCOVERY}
    assert made <= {key for key in keys if key is not None}
    size = case.traffic.bytes[case.encoding.flow] * case.encoding.share
    readings = Readings()
    seconds = data.draw(PERIODS)
    octets: dict[tuple[int, RuleKey], tuple[int, int]] = {each: (data.draw(SMALL), data.draw(SMALL)) for each in made}
    for moment in (0, 1):
        for dpid in case.rules:
            rules = {key: RuleCounters(1, both[moment]) for (owner, key), both in octets.items() if owner == dpid}
            readings.add(SwitchCounters(dpid, moment * seconds, rules=rules))
    rates = readings.row_rates(case.fabric, case.traffic, case.encoding)
    for row, each in enumerate(keys):
        several = each is not None and isinstance(dict(each[1][2]).get("udp_src"), tuple)
        alone = several or keys.count(each) == 1
        if each is None or each not in made or not alone or octets[each][1] < octets[each][0]:
            assert math.isnan(rates[row])
        else:
            before, after = octets[each]
            part = size[row] / sum(size[other] for other, key in enumerate(keys) if key == each)
            assert math.isclose(rates[row], part * (after - before) * 8 / 1e9 / seconds, rel_tol=1e-9)


def test_qps_have_the_rates_of_their_own_rules_on_a_switch_that_takes_no_masked_ports() -> None:
    fabric = clos(1, 2, 1)
    traffic = traffic_of_columns([0] * 4, [1] * 4, FIRST_PORT + np.arange(4), size=9)
    wire = encode_flows(fabric, traffic, Assignment.single(np.zeros(4, dtype=np.int32)), "per_flow")
    rules = compile_rules("per_flow", fabric, traffic, wire)[1]
    masked = [key for key in rules.rules if FLOW <= key[1] < DISCOVERY]
    exact = sorted((key for key in with_exact_ports(rules).rules if FLOW <= key[1] < DISCOVERY), key=lambda key: key[2])
    assert (len(masked), len(exact)) == (1, 4)
    for keys, rates in ((masked, [0.25, 0.25, 0.25, 0.25]), (exact, [1.0, 2.0, 3.0, 4.0])):
        readings = Readings()
        for at in (0.0, 1.0):
            counted = {key: RuleCounters(1, int(at * (i + 1) * 125_000_000)) for i, key in enumerate(keys)}
            readings.add(SwitchCounters(1, at, rules=counted))
        assert readings.row_rates(fabric, traffic, wire).tolist() == pytest.approx(rates)


def row_keys(fabric: Fabric, traffic: Traffic, wire: FlowEncoding) -> list[tuple[int, RuleKey] | None]:
    """The leaf and the key of the rule of each row."""
    blocks = port_blocks(traffic, wire)
    keys, leaf = block_keys(fabric, blocks), fabric.host_leaf[blocks.src]
    return [None if each < 0 else (fabric.leaves[leaf[each]].dpid, keys[each]) for each in blocks.of_row.tolist()]


def test_flows_that_no_switch_can_distinguish_have_no_rate_of_their_own() -> None:
    fabric = clos(2, 2, 2)
    traffic = traffic_of_columns([0, 0, 1], [2, 2, 3], [ANY_PORT, ANY_PORT, 50000])
    assignment = Assignment.single(np.array([0, 0, 1], dtype=np.int32))
    wire = encode_flows(fabric, traffic, assignment, "per_flow")
    keys = [each for each in row_keys(fabric, traffic, wire) if each is not None]
    assert keys[0] == keys[1] != keys[2]
    readings = Readings()
    for at in (0.0, 1.0):
        rules = {key: RuleCounters(1, int(at * 125_000_000)) for _, key in keys}
        readings.add(SwitchCounters(keys[0][0], at, rules=rules))
    assert np.array_equal(readings.row_rates(fabric, traffic, wire), [np.nan, np.nan, 1.0], equal_nan=True)
