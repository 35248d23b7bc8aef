"""Jobs on packets: all iterations of all jobs on the hosts of a lab, and what was measured."""

from __future__ import annotations

import itertools
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from controller.model.fabric import Fabric
from emulation.experiments.job_times import cycles, predicted_iterations
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.results import CollectiveMeasured, JobMeasured
from emulation.experiments.scale import Scale
from emulation.experiments.workload import addresses, ports_of
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle
from emulation.roce.launcher import Spawn
from emulation.roce.run import CollectiveResult, FlowKey, Follow, PortShare, run_collectives
from emulation.roce.sender import SenderOptions

_SLACK = 8.0
"""Time limit of a round, as a multiple of its plan's prediction."""

_START_UP_SECONDS = 40.0

FIRST_TIMEOUT, LEAST_TIMEOUT, LONGEST_TIMEOUT = 2.0, 2.0, 8.0
"""Seconds. Round trips grow within one of them from milliseconds to those of the full queues in both directions, and
processes may wait for a processor; queues are long and lose nothing, so a timeout is nearly always a wrong guess."""


def sender_options(fabric: Fabric, mbps_per_gbps: float) -> SenderOptions:
    """Return the options of all queue pairs on a lab of a fabric, scaled by so much."""
    return SenderOptions(
        line_rate=max(host.gbps for host in fabric.hosts) * mbps_per_gbps * 1e6,
        first_timeout=FIRST_TIMEOUT,
        min_timeout=LEAST_TIMEOUT,
        max_timeout=LONGEST_TIMEOUT,
    )


def spawn_in(lab: Lab) -> Spawn:
    """Return a function that starts a program on a host of the lab."""

    def spawn(host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        return lab.popen(host, argv, stdin=stdin, stdout=stdout, stderr=stderr)

    return spawn


def namespaces_of(lab: Lab) -> dict[str, int]:
    """Return a process in the network namespace of each port of a bond, by the port's name."""
    return {station.name: lab.host(station.name).pid for station in lab.wiring.hosts if station.bond}


@dataclass(frozen=True)
class Predictions:
    """What is expected of jobs, in seconds at the scale of the lab.

    Attributes:
        cycles: when jobs compute and send.
        iteration: of each job.
        collective: of each (job, collective), where that is known.
    """

    cycles: Sequence[JobCycle]
    iteration: Mapping[str, float]
    collective: Mapping[tuple[str, str], float]


def predictions(
    scenario: EmulatedScenario, plan: Mapping[str, Any], specs: Sequence[CollectiveSpec], scale: Scale
) -> Predictions:
    """Return what a plan predicts."""
    seconds = {(row["job"], row["name"]): row["seconds"] * scale.time for row in plan["collectives"] if row["seconds"]}
    of_jobs = cycles(scenario, plan.get("schedule"), scale.time)
    predicted = {cycle.job: _predicted(cycle, specs, seconds, plan, scale) for cycle in of_jobs}
    return Predictions(of_jobs, predicted, seconds)


def measure(
    lab: Lab,
    scenario: EmulatedScenario,
    scale: Scale,
    specs: Sequence[CollectiveSpec],
    ports: Mapping[FlowKey, tuple[PortShare, ...]],
    expected: Predictions,
    follow: Follow | None = None,
) -> tuple[list[CollectiveMeasured], list[JobMeasured]]:
    """Run all jobs with all their iterations."""
    of_jobs, predicted = expected.cycles, expected.iteration
    results = run_collectives(
        addresses(scenario.fabric),
        spawn_in(lab),
        specs,
        ports,
        options=sender_options(scenario.fabric, scale.mbps_per_gbps),
        timeout=_START_UP_SECONDS + _SLACK * sum(predicted[cycle.job] * cycle.iterations for cycle in of_jobs),
        log_dir=scenario.request.folder / "logs",
        cycles=of_jobs,
        ports_of=ports_of(scenario.fabric),
        follow=follow,
        namespaces=namespaces_of(lab),
    )
    measured = [
        CollectiveMeasured(
            result.job,
            result.name,
            seconds=statistics.fmean(result.seconds),
            predicted=expected.collective.get((result.job, result.name)),
            bytes=result.bytes,
            retransmissions=result.retransmissions,
            timeouts=result.timeouts,
            wrong=result.wrong,
        )
        for result in results
    ]
    return measured, [JobMeasured(each.job, _iterations(each, results), predicted[each.job]) for each in of_jobs]


def _predicted(
    cycle: JobCycle,
    specs: Sequence[CollectiveSpec],
    seconds: Mapping[tuple[str, str], float],
    plan: Mapping[str, Any],
    scale: Scale,
) -> float:
    """Return the expected iteration of a job: of the plan, or the sum of its phases if no job computes."""
    iteration = predicted_iterations(plan).get(cycle.job)
    if iteration is not None:
        return iteration * scale.time
    phases = [[seconds[s.job, s.name] for s in specs if (s.job, s.phase) == (cycle.job, p)] for p in cycle.phases]
    return sum(max(phase) for phase in phases)


def _iterations(cycle: JobCycle, results: Sequence[CollectiveResult]) -> tuple[float, ...]:
    """Return the seconds of each iteration of a job."""
    spans = [result.spans for result in results if result.job == cycle.job]
    ends = [max(span[i][1] for span in spans) for i in range(cycle.iterations)]
    return tuple(end - begin for begin, end in itertools.pairwise([cycle.first_begin(), *ends]))
