"""Laws of the state machine of paths, on made clocks."""

from __future__ import annotations

from ipaddress import IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from agent.path_health import (
    GOOD_ANSWERS,
    ICMP,
    LEAST_PATIENCE,
    MISSES,
    MOST_PENALTY_SECONDS,
    PENALTY_SECONDS,
    PENALTY_WITHOUT_PROBES_SECONDS,
    PROBE,
    PathHealth,
)

A, B = IPv6Address("fcbb:bb00:c001:2:e001::"), IPv6Address("fcbb:bb00:c002:2:e001::")
PROBE_A, PROBE_B = IPv6Address("fcbb:bb00:c001:2:c001:1:f001::"), IPv6Address("fcbb:bb00:c002:2:c002:1:f001::")
EVERY = 0.05


class Run:
    """Two probed paths; ``delays`` of None are losses."""

    def __init__(self) -> None:
        self.health, self.now, self.number = PathHealth(), 0.0, 0
        self.health.watch({PROBE_A: [A], PROBE_B: [B]})
        self.pending: list[tuple[float, IPv6Address, int]] = []

    def step(self, a: float | None, b: float | None = 0.001, *, asleep: float = 0.0) -> None:
        """Send a probe over each path, then wait; the agent itself is ``asleep`` for a time."""
        for probe, delay in ((PROBE_A, a), (PROBE_B, b)):
            self.number += 1
            self.health.sent(probe, self.number, self.now)
            if delay is not None:
                self.pending.append((self.now + delay, probe, self.number))
        self.now += EVERY + asleep
        for at, probe, number in sorted(each for each in self.pending if each[0] <= self.now):
            self.health.answered(probe, number, at)
        self.pending = [each for each in self.pending if each[0] > self.now]
        self.health.judge(self.now)

    def steps(self, count: int, a: float | None, b: float | None = 0.001) -> None:
        for _ in range(count):
            self.step(a, b)


def test_a_path_that_loses_all_dies_after_some_misses_and_lives_again_after_many_answers() -> None:
    run = Run()
    run.steps(10, 0.001)
    run.steps(MISSES - 1, None)
    assert run.health.live(A)
    run.steps(2, None)
    assert run.health.dead[A].evidence == PROBE
    assert run.health.live(B)
    died = run.health.dead[A].since
    run.steps(GOOD_ANSWERS - 1, 0.001)
    assert not run.health.live(A)
    run.steps(round(PENALTY_SECONDS / EVERY) + 1, 0.001)
    assert run.health.live(A)
    assert run.now - died >= PENALTY_SECONDS


@given(st.lists(st.one_of(st.none(), st.floats(0.0001, 0.01)), max_size=60).filter(lambda all_: not lost_in_row(all_)))
def test_a_path_lives_while_fewer_probes_in_a_row_are_lost(delays: list[float | None]) -> None:
    run = Run()
    run.steps(10, 0.001)
    for delay in delays:
        run.step(delay)
        assert run.health.live(A)


def lost_in_row(delays: list[float | None]) -> bool:
    """Whether so many in a row are lost that the path may die."""
    return any(delays[at : at + MISSES] == [None] * MISSES for at in range(len(delays)))


@given(st.lists(st.tuples(st.floats(0.0001, LEAST_PATIENCE / 2), st.floats(0, 5)), max_size=40))
def test_an_agent_that_sleeps_takes_no_path_for_dead(steps: list[tuple[float, float]]) -> None:
    run = Run()
    for delay, asleep in steps:
        run.step(delay, asleep=asleep)
        assert not run.health.dead


@given(st.integers(0, 40))
def test_where_all_paths_are_silent_none_is_taken_for_dead(count: int) -> None:
    run = Run()
    run.steps(5, 0.001)
    run.steps(count, None, None)
    assert not run.health.dead


@given(st.integers(1, 5), st.integers(0, 12), st.integers(0, 40))
def test_a_host_that_hears_nothing_takes_no_path_for_dead_however_rarely_some_are_probed(
    rounds: int, before: int, after: int
) -> None:
    health, now = PathHealth(), 0.0
    health.watch({PROBE_A: [A], PROBE_B: [B]})
    for number in range(before + after):
        for probe in (PROBE_A, PROBE_B) if number % rounds == 0 else (PROBE_A,):
            health.sent(probe, 2 * number + (probe == PROBE_B), now)
            if number < before:
                health.answered(probe, 2 * number + (probe == PROBE_B), now + 0.001)
        now += EVERY
        health.judge(now)
    health.judge(now + 10.0)
    assert not health.dead


def test_late_answers_make_a_path_patient() -> None:
    run = Run()
    run.steps(10, 0.001)
    # Each answer is later than the least patience at first.
    run.steps(200, 0.12)
    assert run.health.live(A)
    assert run.health.round_trips()[A][1] <= MISSES


@given(st.integers(1, 12))
def test_the_penalty_doubles_while_deaths_come_soon_and_is_bounded(times: int) -> None:
    health, now, penalty = PathHealth(), 0.0, PENALTY_WITHOUT_PROBES_SECONDS
    for _ in range(times):
        assert health.unreachable(A, now, "fd00::1")
        assert not health.unreachable(A, now, "fd00::1")
        assert health.dead[A].evidence == ICMP
        assert not health.judge(now + penalty - 0.001)
        assert health.judge(now + penalty)
        assert health.live(A)
        now, penalty = now + penalty, min(2 * penalty, MOST_PENALTY_SECONDS)


def test_what_is_not_in_the_plan_any_more_is_forgotten() -> None:
    run = Run()
    run.health.unreachable(A, run.now, "fd00::1")
    run.health.forget({B})
    run.health.watch({PROBE_B: [B]})
    assert run.health.live(A)
    run.health.answered(PROBE_A, 1, run.now)
    assert run.health.probes == (PROBE_B,)
