"""Jobs whose collectives may take until later phases: the estimate, the flow simulator, and the gain of their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, Result
from controller.routing.problem.demand import Demand
from controller.routing.times.flow_estimate import plan_times
from controller.workload.job_file import parse_job
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import joined
from emulation.fluid.simulator import Simulation, simulate
from tests.unit.laws import examples

UNIT = 0.001
"""Seconds of a unit of time; a flow of one unit takes as long alone at 100 Gbit/s."""

BYTES = 12_500_000


def both(fabric: Fabric, document: dict[str, Any], path: list[int]) -> tuple[float, list[float]]:
    """Return the units of an iteration alone on these paths: by the estimate, and each of three by the simulator."""
    jobs = simulated_jobs(fabric, [TimedJob(parse_job(document), epochs=3)])
    traffic = joined(jobs)[0]
    plan = Assignment.single(np.array(path, dtype=np.int32))

    def planned(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> Result:
        return Result(plan)

    expected = plan_times(Demand.of(fabric, traffic), plan)
    assert expected is not None
    results = simulate(Simulation(fabric, jobs, planned, triggers=frozenset({"arrival"})))
    took = [(epoch.before + epoch.seconds) / UNIT for epoch in results.epochs]
    return expected.jobs[0].iteration_seconds / UNIT, took


def exchanges_and_gradients(micro_batches: int, *, layers: int = 8, until: bool = True, **of: int) -> dict[str, Any]:
    """Return a job of expert exchanges and gradients over one link; ``of`` are the classes of ``ep`` and ``dp``.

    A pass computes for 1 forward and 2 backward, with an exchange of 1 before and after; each backward pass of the last
    micro-batch is followed by gradients of 2, for which the end of the iteration waits.
    """
    passes = [(1, False)] * layers + [(2, False)] * layers
    passes = passes * (micro_batches - 1) + [(1, False)] * layers + [(2, True)] * layers
    flows = [{"src": "h1", "dst": "h5", "bytes": BYTES, "collective": "ep0"}]
    for phase, (_, is_last) in enumerate(passes, start=1):
        # The exchange after a pass, and the one before the next.
        size = BYTES * (2 if phase < len(passes) else 1)
        flows.append({"src": "h1", "dst": "h5", "bytes": size, "collective": f"ep{phase}"})
        if is_last:
            flows.append({"src": "h2", "dst": "h6", "bytes": 2 * BYTES, "collective": f"dp{phase}"})
    names = {str(flow["collective"]) for flow in flows}
    return {
        "name": "a",
        "flows": flows,
        "phases": {name: int(name[2:]) for name in names},
        "compute_seconds": {str(phase): seconds * UNIT for phase, (seconds, _) in enumerate(passes, start=1)},
        "classes": {name: of.get(name[:2], 0) for name in names},
        "until": {name: "end" for name in names if until and name.startswith("dp")},
    }


@pytest.mark.parametrize(("micro_batches", "shared", "first"), [(1, 72, 58), (4, 240, 226)])
def test_exchanges_before_gradients_make_iterations_shorter(micro_batches: int, shared: int, first: int) -> None:
    """The link has 6 of every 6 units to send in a backward pass, so gradients fit beside its computing."""
    fabric = clos(1, 2, 4)

    def took(*, until: bool = True, **of: int) -> float:
        document = exchanges_and_gradients(micro_batches, until=until, **of)
        expected, simulated = both(fabric, document, [0] * len(document["flows"]))
        assert simulated == pytest.approx([expected] * 3, rel=0.001)
        return expected

    alike, exchanges_first, gradients_first = took(), took(ep=1), took(dp=1)
    assert alike == pytest.approx(shared)
    # Lower classes have a floor of one part in a hundred.
    assert exchanges_first == pytest.approx(first, rel=0.003)
    assert exchanges_first >= first
    assert gradients_first >= alike * (1 - 1e-9)
    assert took(until=False, ep=1) == pytest.approx(shared)


N = 6


@st.composite
def jobs(draw: st.DrawFn) -> dict[str, Any]:
    """Return a job of up to three phases whose collectives are of one flow each, between hosts of their own."""
    names = [f"c{i}" for i in range(draw(st.integers(1, N)))]
    phase = {name: draw(st.integers(0, 2)) for name in names}
    order = sorted(names, key=lambda name: phase[name])
    last = phase[order[-1]]
    present = sorted(set(phase.values()))
    after = {name: draw(st.lists(st.sampled_from(order[:i]), unique=True)) for i, name in enumerate(order) if i}
    return {
        "name": "a",
        "flows": [
            {"src": f"h{i + 1}", "dst": f"h{N + i + 1}", "bytes": BYTES * draw(st.integers(1, 9)), "collective": name}
            for i, name in enumerate(names)
        ],
        "phases": phase,
        "compute_seconds": {str(p): draw(st.integers(0, 5)) * UNIT for p in present},
        "overlap": {name: "compute" for name in names if draw(st.booleans())},
        "after": {name: before for name, before in after.items() if before},
        "until": {
            name: draw(st.sampled_from(["end", *(p for p in present if p >= phase[name])]))
            for name in names
            if draw(st.booleans()) and phase[name] <= last
        },
    }


def by_hand(document: dict[str, Any]) -> float:
    """Return the units of an iteration where no two collectives share a link."""
    flows = {flow["collective"]: flow["bytes"] / BYTES for flow in document["flows"]}
    phase, last = document["phases"], max(document["phases"].values())
    due = {
        name: last if document["until"].get(name) == "end" else document["until"].get(name, phase[name])
        for name in flows
    }
    ends: dict[str, float] = {}
    now = 0.0
    for number in sorted(set(phase.values())):
        computed = now + document["compute_seconds"].get(str(number), 0.0) / UNIT
        own = [name for name in flows if phase[name] == number]
        while own:
            ready = [name for name in own if all(other in ends for other in document["after"].get(name, ()))]
            for name in ready:
                begin = now if name in document["overlap"] else computed
                ends[name] = max([begin, *(ends[k] for k in document["after"].get(name, ()))]) + flows[name]
            own = [name for name in own if name not in ready]
        now = max([computed, *(ends[name] for name in flows if due[name] == number)])
    return now


@given(jobs())
@settings(max_examples=examples(30, 200), deadline=None)
def test_without_shared_links_all_take_what_the_order_says(document: dict[str, Any]) -> None:
    expected, simulated = both(clos(N, 2, N), document, list(range(len(document["flows"]))))
    assert expected == pytest.approx(by_hand(document), rel=1e-6)
    assert simulated == pytest.approx([expected] * 3, rel=1e-6)
