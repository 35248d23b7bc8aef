"""Times at which the sender of discovery packets reports its results."""

from __future__ import annotations

from typing import Any

import pytest

from controller import ryu_compat

ryu_compat.prepare()

from controller.model.network_state import PortId  # noqa: E402 (Ryu first)
from controller.southbound.openflow.connections.packet_in import PacketIn  # noqa: E402
from controller.southbound.openflow.observing import prober as module  # noqa: E402
from controller.southbound.openflow.observing.discovery import Discovery  # noqa: E402
from controller.southbound.openflow.observing.prober import Prober  # noqa: E402
from tests.fake_switch.decode import PROTOCOL  # noqa: E402
from tests.unit.southbound.openflow.observing.clock_and_ports import Clock, port  # noqa: E402

CABLES = 6


def found_one_by_one(monkeypatch: pytest.MonkeyPatch, many: int) -> list[int]:
    """Two switches whose cables are found in turn: how often that was told after each, at once, and a second later."""
    monkeypatch.setattr(module, "MANY", many)
    # Sooner than anything that is told since time has passed.
    monkeypatch.setattr(module, "TOGETHER_SECONDS", 1.0)
    clock, told = Clock(), []
    discovery: Any = Discovery(clock)
    calls: list[None] = []
    prober = Prober(discovery, changed=lambda: calls.append(None), noticed=lambda: None, name=str, clock=clock)
    numbers = range(1, CABLES + 1)
    for dpid in (1, 2):
        discovery.switch_entered(dpid, [port(number) for number in numbers])
    for number in numbers:
        discovery.evidence.unconfirmed[PortId(1, number)] = clock.now
    prober._tick()
    calls.clear()
    for number in numbers:
        stamp = discovery.evidence.sent(1, [number], clock.now)
        frame = prober._seal.frame(module.packet_out(1, number)[1], stamp)
        prober.packet(2, PacketIn(number, 0, 0, frame))
        told.append(len(calls))
    prober._tick()
    told.append(len(calls))
    clock.now += 1.0
    prober._tick()
    told.append(len(calls))
    return told


def test_found_links_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found_one_by_one(monkeypatch, many=100)
    assert told[:CABLES] == list(range(1, CABLES + 1))


def test_many_new_cables_are_reported_together_and_none_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found_one_by_one(monkeypatch, many=0)
    assert told == [0] * CABLES + [0, 1]


class Wire:
    """A connection that takes everything, or nothing, and tells which transaction ids its barriers have."""

    intended, waiting_bytes = True, 0
    ofproto, ofproto_parser = PROTOCOL.ofproto, PROTOCOL.ofproto_parser

    def __init__(self, dpid: int) -> None:
        self.id, self.takes, self.xid = dpid, True, 0
        self.asked: list[int] = []

    def set_xid(self, message: Any) -> int:
        self.xid += 1
        message.set_xid(self.xid)
        return self.xid

    def offer(self, _data: bytes) -> bool:
        if self.takes:
            self.asked.append(self.xid)
        return self.takes


def probing(clock: Clock) -> tuple[Prober, Wire]:
    """A switch with two ports up, a packet for each of which is due in every tick of a second."""
    discovery: Any = Discovery(clock)
    prober = Prober(discovery, changed=lambda: None, noticed=lambda: None, name=lambda dpid: f"leaf{dpid}", clock=clock)
    discovery.switch_entered(1, [port(1), port(2)])
    wire = Wire(1)
    prober.connected(wire)
    discovery.evidence.schedule.due = lambda _now: [(1, [1, 2])]
    return prober, wire


def tick(prober: Prober, clock: Clock, times: int, seconds: float) -> None:
    for _ in range(times):
        clock.now += seconds
        prober._tick()


def test_a_switch_that_answers_no_barrier_is_reported_and_checked_again_once_it_answers() -> None:
    clock = Clock()
    prober, wire = probing(clock)
    tick(prober, clock, 2 * module.BARRIERS, 0.01)
    assert len(wire.asked) == module.BARRIERS
    assert prober.notices() == []
    tick(prober, clock, 40, 1.0)
    assert len(wire.asked) > module.BARRIERS
    assert len(prober._connections[1].barriers) <= module.BARRIERS
    assert prober.notices() == ["leaf1 does not answer barrier requests: its cables cannot be checked"]
    tick(prober, clock, 100, 1.0)
    assert prober.notices() == ["leaf1 does not answer barrier requests: its cables cannot be checked"]
    prober.answered(wire, wire.asked[-1])
    assert prober.notices() == []
    for _ in range(100):
        tick(prober, clock, 1, 1.0)
        prober.answered(wire, wire.asked[-1])
        assert prober.notices() == []


def test_an_answer_that_is_too_late_clears_nothing_but_one_to_an_earlier_barrier_shows_a_switch_at_work() -> None:
    clock = Clock()
    prober, wire = probing(clock)
    tick(prober, clock, 40, 1.0)
    prober.answered(wire, wire.asked[0])
    assert len(prober.notices()) == 1
    prober.answered(wire, wire.asked[-2])
    assert prober.notices() == []


def test_packets_that_a_connection_does_not_take_are_no_unanswered_barriers() -> None:
    clock = Clock()
    prober, wire = probing(clock)
    wire.takes = False
    tick(prober, clock, 2 * module.BARRIERS, 0.01)
    wire.takes = True
    tick(prober, clock, 1, 0.01)
    assert len(wire.asked) == 1
    assert prober.counts().sent == 2
