"""When the stages of a job begin at a host."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.timing import IterationGrid
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle, awaiting, cycles_of
from emulation.roce.job_run import JobRun

SECONDS = st.floats(0.0, 10.0)


@given(st.floats(0.1, 10.0), st.floats(0.0, 1.0), SECONDS, st.booleans())
def test_iterations_begin_on_the_grid_or_at_once(period: float, part: float, ended: float, hold: bool) -> None:
    grid = IterationGrid(period, part * period, hold)

    def distance(at: float) -> float:
        periods = (at - grid.shift_seconds) / period
        return abs(periods - round(periods)) * period

    first = grid.first(ended)
    assert first >= ended
    assert first - ended <= period * (1 + 1e-9)
    assert distance(first) == pytest.approx(0.0, abs=1e-6) or first == pytest.approx(ended)
    begin = grid.after(ended)
    if not hold:
        assert begin == ended
    elif begin > ended:
        assert distance(begin) == pytest.approx(0.0, abs=1e-6)
        assert begin - ended <= period / 2 + 1e-9
    else:
        # The nearest time of the grid is past, or now: the remainder of a multiple may be a period, by rounding.
        assert (ended - grid.shift_seconds) % period <= period / 2 + 1e-9 or distance(ended) <= 1e-9


@dataclass
class Part:
    """A rank of a collective that takes some time in each iteration."""

    config: Any
    seconds: float
    clock: Clock
    ended: Callable[[float], None] = lambda at: None
    running: bool = False
    began: list[float] = field(default_factory=list)

    def begin(self, now: float) -> None:
        self.began.append(now)
        self.running = True
        if self.seconds:
            self.clock.call_at(max(now, self.clock.now) + self.seconds, self.end)
        else:
            self.end()

    def end(self) -> None:
        self.running = False
        self.ended(self.clock.now)


@dataclass
class Clock:
    """Simulated time."""

    now: float = 0.0
    agenda: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    calls: int = 0

    def call_at(self, at: float, callback: Callable[[], None]) -> None:
        self.calls += 1
        heapq.heappush(self.agenda, (at, self.calls, callback))

    def play(self) -> None:
        while self.agenda:
            at, _, callback = heapq.heappop(self.agenda)
            self.now = max(self.now, at)
            callback()


@dataclass
class Config:
    collective: CollectiveSpec


def parts(clock: Clock, rows: list[tuple[int, float]]) -> list[Any]:
    """A part for each (phase, seconds)."""
    return [
        Part(Config(CollectiveSpec("a", f"c{i}", ("h1", "h2"), bytes=8, phase=phase)), seconds, clock)
        for i, (phase, seconds) in enumerate(rows)
    ]


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.sampled_from((1, 4)), SECONDS), max_size=5),
    st.tuples(SECONDS, SECONDS),
    st.none() | st.builds(IterationGrid, st.floats(0.1, 50.0), SECONDS, st.booleans()),
)
def test_a_job_computes_then_sends_phase_after_phase(
    iterations: int, rows: list[tuple[int, float]], compute: tuple[float, float], grid: IterationGrid | None
) -> None:
    clock = Clock(100.0)
    made = parts(clock, rows)
    ends: list[tuple[int, float]] = []

    def report(job: str, stage: int, collective: str | None, at: float) -> None:
        assert collective is None
        ends.append((stage, at))
        # The launcher's answer comes with the end of another host, which was half a second later.
        run.go_on(stage, at + 0.5)

    cycle = JobCycle("a", iterations, ((1, compute[0]), (4, compute[1])), grid)
    run = JobRun(cycle, made, clock.call_at, report)
    run.begin(100.0)
    clock.play()
    assert run.done
    assert [stage for stage, _ in ends] == list(range(2 * iterations - 1))
    first = 100.0 if grid is None else 100.0 + grid.first(0.0)
    begins = [first + compute[0]]
    for stage, ended in ends:
        at = ended + 0.5
        if stage % 2 and grid is not None:
            at = 100.0 + grid.after(at - 100.0)
        begins.append(at + compute[(stage + 1) % 2])
    for part in made:
        own = begins[0::2] if part.config.collective.phase == 1 else begins[1::2]
        assert part.began == pytest.approx(own)


@given(
    st.lists(st.tuples(SECONDS, st.booleans(), st.sets(st.integers(1, 4), max_size=2)), min_size=1, max_size=5),
    SECONDS,
    st.integers(1, 3),
    st.booleans(),
)
def test_collectives_begin_when_all_has_ended_that_they_wait_for_at_every_host(
    rows: list[tuple[float, bool, set[int]]], compute: float, iterations: int, by_launcher: bool
) -> None:
    """A collective may wait for the computing, and for some collectives before it (so many places)."""
    clock = Clock(100.0)
    later = 0.5 if by_launcher else 0.0  # another host's end
    names = [f"c{i}" for i in range(len(rows))]
    specs = [
        CollectiveSpec(
            "a",
            names[i],
            ("h1", "h2"),
            bytes=8,
            iterations=iterations,
            overlaps=overlaps,
            after=tuple(names[i - back] for back in sorted(before) if back <= i),
        )
        for i, (_, overlaps, before) in enumerate(rows)
    ]
    made: list[Any] = [Part(Config(spec), row[0], clock) for spec, row in zip(specs, rows, strict=True)]

    def report(job: str, stage: int, collective: str | None, at: float) -> None:
        if collective is None:
            clock.call_at(at, lambda: run.go_on(stage, at + later))
        else:
            clock.call_at(at, lambda: run.take_end(stage, collective, at + later))

    (cycle,) = awaiting([JobCycle("a", iterations, ((0, compute),))], specs)
    run = JobRun(cycle, made, clock.call_at, report if by_launcher else None)
    run.begin(100.0)
    clock.play()
    assert run.done
    begin = 100.0
    for iteration in range(iterations):
        ends: dict[str, float] = {}
        for spec, (seconds, overlaps, _), part in zip(specs, rows, made, strict=True):
            own = max([begin if overlaps else begin + compute, *(ends[name] + later for name in spec.after)])
            assert part.began[iteration] == pytest.approx(own)
            ends[spec.name] = own + seconds
        begin = max(begin + compute, *ends.values()) + later


def test_collectives_that_wait_for_others_of_another_phase_or_in_a_circle_are_refused() -> None:
    first = CollectiveSpec("a", "x", ("h1", "h2"), bytes=8, after=("y",))
    cycles = [JobCycle("a", 1, ((0, 0.0), (1, 0.0)))]
    for other in ("a", "b"):
        second = CollectiveSpec(other, "y", ("h1", "h2"), bytes=8, phase=1 if other == "a" else 0)
        with pytest.raises(InputError, match=r"collectives\[0\].after: 'y': a/x: no collective of its phase"):
            awaiting(cycles, [first, second])
    circle = [first, CollectiveSpec("a", "y", ("h1", "h2"), bytes=8, after=("x",))]
    with pytest.raises(InputError, match="wait for each other"):
        awaiting(cycles, circle)


def test_without_a_launcher_the_end_at_this_host_counts() -> None:
    clock = Clock(7.0)
    (part,) = parts(clock, [(0, 0.25)])
    run = JobRun(JobCycle("a", 3, ((0, 0.5),)), [part], clock.call_at, None)
    run.begin(7.0)
    clock.play()
    assert run.done
    assert part.began == pytest.approx([7.5, 8.25, 9.0])


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"iterations": 0}, "iterations: 0"),
        ({"compute": ()}, "compute"),
        ({"compute": ((0, 1.0), (0, 2.0))}, "compute"),
        ({"compute": ((0, -1.0),)}, "compute: -1.0"),
        ({"compute": ((0, float("inf")),)}, "compute: inf"),
        ({"grid": IterationGrid(0.0, 0.0, False)}, "period_seconds: 0.0"),
        ({"grid": IterationGrid(1.0, -1.0, False)}, "shift_seconds: -1.0"),
    ],
)
def test_a_cycle_with_a_mistake_is_refused_by_field(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InputError, match=word):
        JobCycle("a", **change)


def test_collectives_that_do_not_fit_the_cycle_of_their_job_are_refused() -> None:
    spec = CollectiveSpec("a", "c", ("h1", "h2"), bytes=8, iterations=2, phase=3)
    assert cycles_of([spec]) == {"a": JobCycle("a", 2, ((3, 0.0),))}
    with pytest.raises(InputError, match="iterations: 2: a/c: the job has 3 iterations"):
        cycles_of([spec], [JobCycle("a", 3, ((3, 0.0),))])
    with pytest.raises(InputError, match="phase: 3: a/c: the job has no such phase"):
        cycles_of([spec], [JobCycle("a", 2)])
    with pytest.raises(InputError, match="listed twice"):
        cycles_of([spec], [JobCycle("a", 2), JobCycle("a", 2)])
