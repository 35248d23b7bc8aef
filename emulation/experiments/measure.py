"""Jobs on packets: all iterations of all jobs on the hosts of a lab, and what was measured."""

from __future__ import annotations

import itertools
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import IO, Any

from controller.model.fabric import Fabric
from emulation.experiments.job_times import cycles, predicted_iterations
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.results import CollectiveMeasured, JobMeasured
from emulation.experiments.scale import PACKET_BYTES, Scale
from emulation.experiments.workload import addresses, ports_of
from emulation.lab.base import BaseLab
from emulation.packets.settings import PacketSettings
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


def sender_options(
    fabric: Fabric, mbps_per_gbps: float, added_bytes: int = 0, pace_window: float = 0.0
) -> SenderOptions:
    """Return the options of all queue pairs on a lab of a fabric.

    Args:
        fabric: the fabric.
        mbps_per_gbps: by so much it is scaled.
        added_bytes: what the network adds to each packet between hosts and leaves. Without room for it, packets that
            leave at line rate would wait in ever longer queues.
        pace_window: as for ``SenderOptions``. Shapers of the lab let packets through at once as long as they have
            tokens, so a round trip that is measured is shorter than one that keeps links busy: that of links which
            store packets is stated.
    """
    room = PACKET_BYTES / (PACKET_BYTES + added_bytes)
    return SenderOptions(
        line_rate=max(host.gbps for host in fabric.hosts) * mbps_per_gbps * 1e6 * room,
        first_timeout=FIRST_TIMEOUT,
        min_timeout=LEAST_TIMEOUT,
        max_timeout=LONGEST_TIMEOUT,
        pace_window=pace_window,
        round_trip=PacketSettings(cable_seconds=0.0).round_trip_seconds(fabric) * 1e3 / mbps_per_gbps,
    )


def spawn_in(lab: BaseLab) -> Spawn:
    """Return a function that starts a program on a host of the lab."""

    def spawn(host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        return lab.popen(host, argv, stdin=stdin, stdout=stdout, stderr=stderr)

    return spawn


def namespaces_of(lab: BaseLab) -> dict[str, int]:
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
    lab: BaseLab,
    scenario: EmulatedScenario,
    scale: Scale,
    specs: Sequence[CollectiveSpec],
    ports: Mapping[FlowKey, tuple[PortShare, ...]],
    expected: Predictions,
    follow: Follow | None = None,
    *,
    added_bytes: int = 0,
    pace_window: float = 0.0,
) -> tuple[list[CollectiveMeasured], list[JobMeasured]]:
    """Run all jobs with all their iterations. ``added_bytes``, ``pace_window``: as for ``sender_options``."""
    of_jobs, predicted = expected.cycles, expected.iteration
    results = run_collectives(
        addresses(scenario.fabric),
        spawn_in(lab),
        specs,
        ports,
        options=sender_options(scenario.fabric, scale.mbps_per_gbps, added_bytes, pace_window),
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
    return measured, [
        JobMeasured(each.job, iteration_seconds(each, specs, results), predicted[each.job]) for each in of_jobs
    ]


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
    phases = [[s for s in specs if (s.job, s.phase) == (cycle.job, phase)] for phase in cycle.phases]
    return sum(_longest_chain(phase, seconds) for phase in phases)


def _longest_chain(phase: Sequence[CollectiveSpec], seconds: Mapping[tuple[str, str], float]) -> float:
    """Return the seconds of a phase whose collectives begin when those have ended that they are after."""
    of_name = {spec.name: spec for spec in phase}
    ends: dict[str, float] = {}
    for name in TopologicalSorter({spec.name: spec.after for spec in phase}).static_order():
        spec = of_name[name]
        ends[name] = seconds[spec.job, name] + max((ends[other] for other in spec.after), default=0.0)
    return max(ends.values())


def iteration_seconds(
    cycle: JobCycle, specs: Sequence[CollectiveSpec], results: Sequence[CollectiveResult]
) -> tuple[float, ...]:
    """Return the seconds of each iteration of a job: until its last phase has computed and sent."""
    own = [(spec.phase, result.spans) for spec, result in zip(specs, results, strict=True) if spec.job == cycle.job]
    begin = cycle.first_begin()
    ends = []
    for i in range(cycle.iterations):
        end = begin
        for phase, seconds in cycle.compute:
            end = max([end + seconds, *(spans[i][1] for number, spans in own if number == phase)])
        ends.append(end)
        begin = cycle.next_begin(end)
    return tuple(end - start for start, end in itertools.pairwise([cycle.first_begin(), *ends]))
