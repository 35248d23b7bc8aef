"""Reading switches back: what they hold comes back as it was put, and many readers cost them one reading."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp

from controller import ryu_compat

ryu_compat.prepare()

from controller.southbound.enforcement.registry import rule_enforcements  # noqa: E402
from controller.southbound.forwarding.leaf_guards import unmetered  # noqa: E402
from controller.southbound.openflow.enforcing import messages  # noqa: E402
from controller.southbound.openflow.enforcing.request_channel import SwitchGone  # noqa: E402
from controller.southbound.rules.priorities import DISCOVERY, FLOW  # noqa: E402
from controller.southbound.rules.rule import Output, Rule, match  # noqa: E402
from controller.telemetry.counters import RuleCounters  # noqa: E402
from controller.telemetry.fabric_snapshot import FRESH, WINDOW  # noqa: E402
from controller.telemetry.snapshot_reader import Readback  # noqa: E402
from tests.fake_switch.decode import PROTOCOL  # noqa: E402
from tests.fake_switch.ports import Port  # noqa: E402
from tests.fake_switch.switch import FakeSwitch  # noqa: E402
from tests.unit.southbound.plans import Case, cases, patient  # noqa: E402


class World:
    """Does everything on the spot; time is a number."""

    def __init__(self) -> None:
        self.time = 100.0

    def spawn(self, task: Callable[[], None]) -> None:
        task()

    def signal(self) -> Any:
        return threading.Event()

    def lock(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def now(self) -> float:
        return self.time

    def clock(self) -> float:
        return self.time


class Switch:
    """A connection to a fake switch, in place of an ``Exchange``."""

    def __init__(self, dpid: int, ports: int = 2) -> None:
        self.switch = FakeSwitch(dpid, f"s{dpid}", [Port(n + 1, "p", "02:00:00:00:00:01", 1.0) for n in range(ports)])
        described = {n + 1: SimpleNamespace(config=0, state=0) for n in range(ports)}
        self.datapath = SimpleNamespace(ports=described, ofproto=PROTOCOL.ofproto, ofproto_parser=None)
        self.asked = 0
        self.fails: Exception | None = None

    def say(self, message: Any) -> list[bytes]:
        message.xid = 1
        message.serialize()
        return list(self.switch.receive(bytes(message.buf)))

    def ask_raw(self, message: Any) -> list[bytes]:
        self.asked += 1
        if self.fails is not None:
            raise self.fails
        # Requests are made for the connection's own protocol object.
        message.datapath = PROTOCOL
        return self.say(message)


def reader(*switches: Switch) -> tuple[World, Readback]:
    world = World()
    return world, Readback(world, lambda: {s.switch.dpid: s for s in switches})  # type: ignore[arg-type,misc]


@patient
@given(st.sampled_from(rule_enforcements()).flatmap(cases))
def test_rules_and_groups_come_back_as_they_were_put(case: Case) -> None:
    switches = [Switch(dpid, ports=12) for dpid in case.rules]
    for each in switches:
        held = unmetered(case.rules[each.switch.dpid])
        nested = sorted(held.groups.values(), key=lambda group: any(b.watch_group is not None for b in group.buckets))
        for group in nested:
            assert each.say(messages.put_group(PROTOCOL, group)) == []
        for rule in held.rules.values():
            assert each.say(messages.put_rule(PROTOCOL, rule, 1)) == []
    _, readback = reader(*switches)
    read = readback.read()
    assert read.silent == {}
    for each in switches:
        found = read.switches[each.switch.dpid]
        assert found.rules == unmetered(case.rules[each.switch.dpid])
        # Planned rules are counted, others say nothing of a flow.
        assert found.count.rules == {key: RuleCounters(0, 0) for key in found.rules.rules if FLOW <= key[1] < DISCOVERY}
        assert set(found.count.ports) == set(range(1, 13))


def test_foreign_rules_are_read_but_not_counted_and_dead_ports_are_reported() -> None:
    one = Switch(1, ports=3)
    strange = Rule(0, 5000, match(in_port=1), (Output(2),))
    message = messages.put_rule(PROTOCOL, strange, 0)
    message.cookie = 0x77
    assert one.say(message) == []
    one.datapath.ports[2].config = ofp.OFPPC_PORT_DOWN
    one.datapath.ports[3].state = ofp.OFPPS_LINK_DOWN
    _, readback = reader(one)
    held = readback.read().switches[1]
    assert held.rules.rules == {strange.key: strange}
    assert held.count.rules == {}
    assert held.dead == {2, 3}


def test_readers_within_a_moment_share_a_reading_and_counters_are_compared_over_a_window() -> None:
    one = Switch(1)
    world, readback = reader(one)
    first = readback.read()
    assert first.before == {}
    each = one.asked
    world.time += FRESH / 2
    assert readback.read() is first
    assert one.asked == each
    world.time += FRESH
    second = readback.read()
    assert (one.asked, second.before) == (2 * each, {1: first.switches[1].count})
    assert second.switches[1].count.at - second.before[1].at >= WINDOW


def test_what_was_counted_under_other_rules_or_with_other_ports_is_compared_with_nothing() -> None:
    one = Switch(1)
    world, readback = reader(one)
    for change in (
        lambda: one.say(messages.put_rule(PROTOCOL, Rule(0, 5, match(in_port=1), (Output(2),)), 1)),
        lambda: setattr(one.datapath.ports[1], "state", ofp.OFPPS_LINK_DOWN),
    ):
        readback.read()
        change()
        world.time += FRESH + 1
        assert readback.read().before == {}
        world.time += FRESH + 1
        assert set(readback.read().before) == {1}


def test_a_switch_that_fails_in_whatever_way_is_silent_and_the_others_are_read() -> None:
    well, gone, broken = Switch(1), Switch(2), Switch(3)
    gone.fails, broken.fails = SwitchGone("no answer within 5 s"), ZeroDivisionError("oh")
    world, readback = reader(well, gone, broken)
    read = readback.read()
    assert set(read.switches) == {1}
    assert read.silent == {2: "no answer within 5 s", 3: "ZeroDivisionError: oh"}
    gone.fails = broken.fails = None
    world.time += FRESH + 1
    read = readback.read()
    assert (set(read.switches), read.silent, set(read.before)) == ({1, 2, 3}, {}, {1})


def test_without_switches_there_is_nothing_to_wait_for() -> None:
    _, readback = reader()
    assert (readback.read().switches, readback.read().silent) == ({}, {})


def test_an_answer_that_is_none_is_silence_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    one, liar = Switch(1), Switch(2)
    liar.say = lambda message: [b"no answer at all"]  # type: ignore[method-assign, assignment]
    _, readback = reader(one, liar)
    read = readback.read()
    assert set(read.switches) == {1}
    assert set(read.silent) == {2}
    assert caplog.records == []
