"""Iterations of jobs on packets, from the times of their collectives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.timing import IterationGrid
from emulation.experiments.measure import iteration_seconds
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle
from emulation.roce.run import CollectiveResult

SECONDS = st.floats(0.0, 5.0)


def result_of(spec: CollectiveSpec, spans: list[tuple[float, float]]) -> CollectiveResult:
    return CollectiveResult(spec.job, spec.name, tuple(spans), 0, 0, 0, checked=True, wrong=(), ranks=())


@given(
    st.lists(st.tuples(SECONDS, SECONDS, SECONDS), min_size=1, max_size=4),
    st.tuples(SECONDS, SECONDS),
    st.none() | st.builds(IterationGrid, st.floats(0.1, 20.0), SECONDS, st.booleans()),
)
def test_an_iteration_ends_when_its_last_phase_has_computed_and_sent(
    rows: list[tuple[float, float, float]], compute: tuple[float, float], grid: IterationGrid | None
) -> None:
    """In each iteration ``dp`` is sent from the begin on, ``ep`` after the computing, and ``pp`` in the next phase."""
    cycle = JobCycle("a", len(rows), ((0, compute[0]), (3, compute[1])), grid)
    specs = [
        CollectiveSpec("a", "dp", ("h1", "h2"), bytes=8, iterations=len(rows), overlaps=True),
        CollectiveSpec("a", "ep", ("h1", "h2"), bytes=8, iterations=len(rows)),
        CollectiveSpec("b", "ep", ("h1", "h2"), bytes=8),
        CollectiveSpec("a", "pp", ("h1", "h2"), bytes=8, iterations=len(rows), phase=3),
    ]
    spans: dict[str, list[tuple[float, float]]] = {"dp": [], "ep": [], "pp": []}
    begin = ended = cycle.first_begin()
    took = []
    for dp, ep, pp in rows:
        computed = begin + compute[0]
        spans["dp"].append((begin, begin + dp))
        spans["ep"].append((computed, computed + ep))
        sent = max(begin + dp, computed + ep)
        spans["pp"].append((sent + compute[1], sent + compute[1] + pp))
        took.append(sent + compute[1] + pp - ended)
        ended = sent + compute[1] + pp
        begin = cycle.next_begin(ended)
    results = [result_of(spec, spans[spec.name] if spec.job == "a" else [(0.0, 99.0)]) for spec in specs]
    assert iteration_seconds(cycle, specs, results) == pytest.approx(took)
