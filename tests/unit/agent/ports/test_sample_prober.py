"""What an agent keeps of samples: what was seen in another state of the cables does not count."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address

from agent.ports.port_plan import NumberedFlow, PortPlan
from agent.ports.sample_prober import ICMP_AGAIN_SECONDS, SAMPLING_SECONDS, SampledPorts, part_of
from agent.ports.sample_reader import SampleAnswer
from agent.ports.sampled_paths import SeenPacket
from agent.ports.sampled_search import LATENCY_SECONDS
from tests.rig.routers.hashing_routers import HashingNetwork

DST = IPv4Address("10.1.0.1")
PORT = 50000
NETWORK = HashingNetwork((4,), 1)


def plan_in(state: str, n_flows: int = 1) -> PortPlan:
    """A plan in a state of the cables of this name."""
    task = NETWORK.task({DST: {0: n_flows}, DST + 1: {1: 1}})
    task = dataclasses.replace(task, pairs=tuple(dataclasses.replace(pair, map=state) for pair in task.pairs))
    flows = tuple(NumberedFlow(DST, number, 0) for number in range(1, n_flows + 1))
    return PortPlan(1, "0" * 16, task, flows, {}, 10.0, 0.0, 1000.0)


def seen(router: int, at: float, *, one_in: float | None = None) -> SampleAnswer:
    return SampleAnswer(1, one_in, [SeenPacket(DST, PORT, NETWORK.routers[router], at)])


def test_samples_count_until_the_cables_change_and_then_only_those_of_later_packets() -> None:
    sampled = SampledPorts()
    sampled.follow(plan_in("whole"), 100.0)
    sampled.take(seen(0, 101.0))
    assert sampled.paths()[DST].shown(PORT).paths == {0}
    assert sampled.contradicts(DST, PORT, 1)
    assert not sampled.contradicts(DST, PORT, 0)
    assert not sampled.contradicts(DST, PORT + 1, 3)
    # Another plan in the same state.
    sampled.follow(plan_in("whole"), 110.0)
    assert sampled.contradicts(DST, PORT, 1)
    sampled.follow(plan_in("broken"), 120.0)
    assert not sampled.contradicts(DST, PORT, 1)
    # A router may have sampled it before the cables changed.
    sampled.take(seen(0, 120.0 + SAMPLING_SECONDS / 2))
    assert not sampled.contradicts(DST, PORT, 1)
    sampled.take(seen(1, 120.0 + SAMPLING_SECONDS))
    assert sampled.contradicts(DST, PORT, 0)
    # Of a destination that no plan has.
    sampled.take(SampleAnswer(2, None, [SeenPacket(DST + 9, PORT, NETWORK.routers[0], 130.0)]))
    assert not sampled.contradicts(DST + 9, PORT, 3)


def test_routers_that_were_silent_are_probed_again_after_some_time() -> None:
    sampled = SampledPorts()
    sampled.note_silent(DST, 50.0)
    assert sampled.is_silent(DST, 50.0 + ICMP_AGAIN_SECONDS / 2)
    assert not sampled.is_silent(DST, 50.0 + ICMP_AGAIN_SECONDS)
    assert not sampled.is_silent(DST + 1, 50.0)


def test_checks_leave_time_for_the_packets_that_they_take() -> None:
    sampled = SampledPorts()
    sampled.follow(plan_in("whole"), 0.0)
    sampled.take(seen(0, 1.0, one_in=100))
    assert sampled.check_seconds(plan_in("whole"), 1000.0) == 10.0 + LATENCY_SECONDS
    assert sampled.check_seconds(plan_in("whole", 80), 1000.0) == 80 * 100 / 250 + LATENCY_SECONDS
    # What is not told in an answer is as it was.
    sampled.take(seen(0, 2.0))
    assert sampled.one_in == 100


def test_a_part_of_a_task_has_just_the_destinations_that_are_wanted() -> None:
    task = plan_in("whole").task
    assert [pair.dst for pair in part_of(task, frozenset([DST + 1])).pairs] == [DST + 1]
    assert part_of(task, frozenset()).pairs == ()
