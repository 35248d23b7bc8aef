"""Cables are found, and found to be silent, by evidence; no delay is evidence."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.network_state import PortId
from controller.model.switch_key import SwitchKey
from controller.southbound.discovery.link_evidence import (
    CONNECTING,
    LONGEST,
    LOSSES,
    REPORT_AFTER,
    LinkEvidence,
    PacketVerdict,
)
from controller.southbound.discovery.link_state import LONGEST_WAIT, QueueDelay
from tests.unit.laws import examples
from tests.unit.southbound.discovery_world import Stall, World, cable_ports, probe_of

FABRIC = clos(2, 3, 1)
WIRES = cable_ports(FABRIC)
SWITCHES = sorted({port.switch for port in WIRES})

NOTICED = 4.0
"""Seconds until a silent cable of a small fabric is noticed (docs/how-to/operations.md), with reserve."""

stalls = st.lists(
    st.builds(
        lambda who, begin, length: Stall(who, 100 + begin, 100 + begin + length),
        st.sampled_from([0, *SWITCHES]),
        st.floats(0, 12),
        st.floats(0.01, 8),
    ),
    max_size=6,
)


@settings(max_examples=examples(10, 150), deadline=None)
@given(stalls, st.integers(0, 2**32), st.sampled_from([0.002, 0.05, 0.3, 1.5]), st.booleans())
def test_no_stalls_and_delays_make_a_cable_silent_whose_packets_pass(
    when: list[Stall], seed: int, most: float, known: bool
) -> None:
    draw = random.Random(seed)
    world = World(
        WIRES, expected=WIRES if known else None, stalls=when, delay=lambda: draw.uniform(0.001, most), shuffle=draw
    )
    world.run(20)
    assert world.became_silent == []
    # And once all is well, every cable is confirmed, by itself.
    world.delay = lambda: 0.001
    world.run(8)
    assert world.evidence.links == WIRES
    assert world.became_silent == []


GROWTH = 0.5
"""Seconds by which the delay of a queue may grow in a second."""

Queue = list[tuple[float, float]]
"""(seconds, delay): the delay of a queue at some times; between them it changes evenly."""


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Draw how long a port holds packets: up to ``LONGEST_WAIT``, growing by at most half a second in a second."""
    points, at, delay = [(0.0, 0.0)], 0.0, 0.0
    for _ in range(draw(st.integers(1, 6))):
        seconds = draw(st.floats(0.1, 6))
        # Packets leave a queue in order, so its delay falls no faster than a second in a second.
        delay = draw(st.floats(max(0.0, delay - seconds), min(LONGEST_WAIT, delay + GROWTH * seconds)))
        at += seconds
        points.append((at, delay))
    return points


def holding(drawn: dict[PortId, Queue], begin: float) -> Callable[[PortId, float], float]:
    """Return the delay of each port's queue at a time; the last one stays."""
    tables = {at: np.array(points).T for at, points in drawn.items()}
    return lambda at, now: float(np.interp(now - begin, tables[at][0], tables[at][1])) if at in tables else 0.0


drawn_queues = st.dictionaries(st.sampled_from(sorted(WIRES)), queues(), max_size=6)


@settings(max_examples=examples(8, 300), deadline=None)
@given(drawn_queues, st.floats(0, 8), st.integers(0, 2**32))
def test_no_queue_that_grows_by_up_to_half_a_second_in_a_second_makes_a_cable_silent(
    drawn: dict[PortId, Queue], before: float, seed: int
) -> None:
    draw = random.Random(seed)
    world = World(WIRES, expected=WIRES, delay=lambda: draw.uniform(0.001, 0.02), shuffle=draw)
    world.run(before)
    world.queue = holding(drawn, world.now)
    world.run(45)
    assert world.became_silent == []
    assert world.evidence.links == WIRES


@settings(max_examples=examples(8, 300), deadline=None)
@given(drawn_queues, st.floats(0, 30), st.sampled_from(sorted(WIRES)), st.integers(0, 2**32))
def test_a_cable_behind_a_queue_is_silent_in_time_once_its_packets_stop(
    drawn: dict[PortId, Queue], begin: float, dead: PortId, seed: int
) -> None:
    draw = random.Random(seed)
    world = World(WIRES, expected=WIRES, delay=lambda: draw.uniform(0.001, 0.02), shuffle=draw)
    world.queue = holding(drawn, world.now)
    world.run(begin)
    world.dead = {dead}
    # Packets that were in the queue still come.
    world.run(NOTICED + 2 * LONGEST_WAIT)
    assert world.evidence.silent == {dead}


@given(st.lists(st.floats(0, 60, allow_subnormal=False)))
def test_a_port_is_waited_for_up_to_a_bound_and_not_at_all_where_nothing_had_to_wait(delays: list[float]) -> None:
    queue = QueueDelay()
    for seconds in delays:
        before = queue.longest
        queue.saw(seconds)
        assert 0 <= queue.longest <= LONGEST_WAIT
        # A packet that came later than it was waited for raises the time to what this one needed.
        assert seconds <= before or queue.longest >= min(seconds, LONGEST_WAIT)
    for _ in range(100):
        queue.saw(0.0)
    assert queue.longest < 1e-3


def port_ids(*ports: tuple[SwitchKey, int]) -> set[PortId]:
    return {PortId(*each) for each in ports}


@settings(max_examples=examples(15, 90), deadline=None)
@given(st.sets(st.sampled_from(sorted(WIRES)), min_size=1, max_size=4), st.floats(0, 5), st.integers(0, 2**32))
# One switch is left with one cable outward and another one inward.
@example(port_ids((2, 2), (SWITCHES[-1], 2)), 3.778070824511313, 1754)
@example(port_ids((2, 2), (SWITCHES[-1], 2), (SWITCHES[-1], 3)), 3.3128443922622446, 1626)
def test_cables_whose_packets_are_lost_are_silent_in_time_and_no_others(
    dead: set[PortId], begin: float, seed: int
) -> None:
    draw = random.Random(seed)
    world = World(WIRES, expected=WIRES, delay=lambda: draw.uniform(0.001, 0.02), shuffle=draw)
    world.run(begin)
    world.dead = dead
    world.run(NOTICED)
    spoken, heard = {a.switch for a in WIRES if a not in dead}, {WIRES[a].switch for a in WIRES if a not in dead}
    # Where nothing comes in at a switch any more, or out of it, it may be the switch's rule that is missing, and so on.
    surely = {a for a in dead if WIRES[a].switch in heard and a.switch in spoken}
    assert surely <= world.evidence.silent <= dead
    world.dead = set()
    world.run(NOTICED)
    assert world.evidence.silent == set()
    assert world.evidence.links == WIRES


@pytest.mark.parametrize("begin", [0.0, 3.3])
def test_a_switch_that_forwards_nothing_any_more_loses_all_its_cables_and_others_none(begin: float) -> None:
    world = World(WIRES, expected=WIRES)
    world.run(begin)
    spine = SWITCHES[-1]
    world.dead = {a for a, b in WIRES.items() if spine in (a.switch, b.switch)}
    world.run(2 * NOTICED)
    assert {a for a in WIRES if a.switch == spine} <= world.evidence.silent <= world.dead


@pytest.mark.parametrize("what", ["deaf", "mute"])
def test_a_switch_that_lost_its_rule_or_sends_no_packets_keeps_its_cables_and_is_reported(what: str) -> None:
    world = World(WIRES, expected=WIRES)
    world.run(5)
    getattr(world, what).add(SWITCHES[0])
    world.run(REPORT_AFTER + 5)
    assert world.became_silent == []
    assert getattr(world.evidence, what)(world.now) == SWITCHES[:1]
    getattr(world, what).clear()
    world.run(10)
    assert world.became_silent == []
    assert world.evidence.links == WIRES
    assert getattr(world.evidence, what)(world.now) == []


def test_packets_that_the_controller_drops_unread_in_a_flood_are_no_evidence_and_the_other_direction_is() -> None:
    world = World(WIRES, expected=WIRES)
    world.run(3)
    world.flooded = {1}
    world.run(15)
    assert world.became_silent == []
    end = min(WIRES)
    assert end.switch == 1
    world.dead = {end, WIRES[end]}
    world.run(2 * NOTICED)
    assert world.evidence.silent == {end}


def test_a_silent_cable_is_noticed_after_a_stall_too() -> None:
    world = World(WIRES, expected=WIRES, stalls=[Stall(0, 105, 109)])
    world.run(9.1)
    world.dead = {min(WIRES)}
    world.run(NOTICED)
    assert world.evidence.silent == {min(WIRES)}


def test_a_new_cable_is_found_within_a_tenth_of_a_second() -> None:
    world = World(WIRES, expected=WIRES)
    end = min(WIRES)
    world.run(5)
    for port in (end, WIRES[end]):
        world.evidence.port_down(port, world.now)
    world.run(5)
    assert end not in world.evidence.links
    for port in (end, WIRES[end]):
        world.evidence.port_up(port, world.now)
    world.run(0.1)
    assert world.evidence.links == WIRES


def test_swapped_cables_are_links_to_where_they_lead() -> None:
    a, b = min(WIRES.items())
    c, d = next((c, d) for c, d in sorted(WIRES.items()) if c.switch == 2 and d.switch != b.switch)
    wires = WIRES | {a: d, d: a, c: b, b: c}
    world = World(wires, expected=WIRES)
    world.run(1)
    assert world.evidence.links == wires
    assert world.evidence.silent == set()
    assert world.evidence.unconfirmed == {}


def test_no_more_probes_are_sent_than_the_budget_and_none_in_a_rush_after_a_stall() -> None:
    world = World(WIRES, expected=WIRES, stalls=[Stall(0, 110, 118)])
    world.run(9.5)
    sent = world.sent
    world.run(10)
    assert world.sent - sent < 3 * len(WIRES)


# -- packets that are not believed --------------------------------------------------------------------------------


def sent_once(world: World) -> tuple[PortId, PortId, int]:
    """A port, its peer, and the stamp of a packet that was just sent there and is on its way."""
    end = min(WIRES)
    return end, WIRES[end], world.evidence.sent(end.switch, [end.port], world.now)


@given(st.integers(1, 6), st.sampled_from(sorted(WIRES)))
def test_a_packet_is_believed_as_often_as_it_was_sent(times: int, elsewhere: PortId) -> None:
    world = World(WIRES, expected=WIRES)
    world.run(1)
    end, far, stamp = sent_once(world)
    assert world.arrive(far, probe_of(end, stamp)) is PacketVerdict.KNOWN
    links = dict(world.evidence.links)
    for at in [far, elsewhere] * times:
        assert world.arrive(at, probe_of(end, stamp)) is PacketVerdict.STALE
    assert world.evidence.links == links


def test_a_packet_that_was_held_back_too_long_is_not_believed() -> None:
    world = World(WIRES, expected=WIRES)
    world.run(1)
    end, far, stamp = sent_once(world)
    world.run(LONGEST + 1)
    assert world.arrive(far, probe_of(end, stamp)) is PacketVerdict.STALE


@given(st.integers(0, 2**63), st.sampled_from(sorted(WIRES)), st.sampled_from(sorted(WIRES)))
def test_a_packet_that_was_never_sent_is_not_believed(stamp: int, sender: PortId, at: PortId) -> None:
    world = World(WIRES, expected=WIRES)
    assert world.arrive(at, probe_of(sender, stamp)) is PacketVerdict.STALE
    assert world.evidence.links == {}


def test_what_comes_in_by_a_port_that_the_file_gives_to_a_host_is_no_link() -> None:
    host, other = PortId(1, 1), PortId(2, 1)
    world = World(WIRES, expected=WIRES, edges=[host, other], host_ports=[host, other])
    world.run(5)
    end, _, stamp = sent_once(world)
    assert world.arrive(host, probe_of(end, stamp)) in (PacketVerdict.DENIED, PacketVerdict.STALE)
    end, far = next((end, far) for end, far in WIRES.items() if end.switch == 2)
    stamp = world.evidence.sent(end.switch, [end.port], world.now)
    assert world.arrive(host, probe_of(end, stamp)) is PacketVerdict.DENIED
    # Whoever is faster with a copy does not keep the packet itself from being believed.
    assert world.arrive(far, probe_of(end, stamp)) is PacketVerdict.KNOWN
    assert host not in world.evidence.schedule
    assert {host, other}.isdisjoint(world.evidence.links.values())


def test_without_a_file_a_port_that_has_shown_a_host_and_no_switch_stays_a_hosts() -> None:
    """Two hosts that pass each other's packets on make no cable."""
    hosts = {PortId(1, 1), PortId(2, 1)}
    world = World(WIRES, edges=hosts, has_host=lambda at: at in hosts)
    world.run(REPORT_AFTER + 1)
    assert world.evidence.links == WIRES
    world.wires = WIRES | {PortId(1, 1): PortId(2, 1), PortId(2, 1): PortId(1, 1)}
    world.run(20)
    assert world.evidence.links == WIRES
    assert PacketVerdict.DENIED in world.arrivals


def test_a_port_that_leads_nowhere_is_asked_more_rarely() -> None:
    world = World(WIRES, edges=[PortId(1, 100)])
    world.run(10)
    before = world.evidence.schedule.weight
    assert before == pytest.approx(len(WIRES) + 0.2)
    assert LOSSES > 1


def test_nothing_is_asked_over_a_cable_whose_far_end_does_not_listen_yet_and_all_once_it_does() -> None:
    near, far = SWITCHES[0], SWITCHES[-1]
    ports = [at for at in sorted(WIRES) if at.switch == near]
    evidence = LinkEvidence(0.0, expected=WIRES)
    evidence.switch_entered(near, 0.0)
    for at in ports:
        evidence.port_up(at, 0.0)
    evidence.listens(near, 0.0)
    assert [batch for batch in evidence.schedule.due(0.05) if evidence.worth_asking(*batch, 0.05)] == []
    # The far switch connects, and has its rule later: then both ends are asked at once.
    evidence.switch_entered(far, 1.0)
    for at in (WIRES[at] for at in ports if WIRES[at].switch == far):
        evidence.port_up(at, 1.0)
    evidence.listens(far, 1.5)
    asked = {PortId(dpid, number) for dpid, numbers in evidence.schedule.due(1.55) for number in numbers}
    assert {at for at in WIRES if {at.switch, WIRES[at].switch} == {near, far}} <= asked
    # A port whose far end never listens is asked after some rounds: it may lead elsewhere.
    numbers = [at.port for at in ports]
    later = CONNECTING * evidence.schedule.period + 0.1
    assert evidence.worth_asking(near, numbers, later) == numbers


def test_a_link_that_is_confirmed_is_not_asked_again_because_its_switch_tells_that_it_listens() -> None:
    world = World(WIRES)
    world.run(2.0)
    evidence = world.evidence
    assert evidence.links == WIRES
    evidence.schedule.due(world.now)
    for dpid in SWITCHES:
        evidence.listens(dpid, world.now)
    assert evidence.schedule.due(world.now) == []
