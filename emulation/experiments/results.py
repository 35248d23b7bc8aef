"""Results of an experiment, as values and as the JSON document."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

from controller.model.fabric_parts import PLURALS
from emulation.experiments.evidence import Evidence
from emulation.experiments.hedera.hedera_loop import Placement, largest
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.scale import EFFICIENCY, MTU, Scale
from emulation.experiments.workload import PacedFlow
from emulation.policy_names import PACED, WINDOWS

_SLOWER_THAN_PREDICTED = 1.25


@dataclass(frozen=True)
class CollectiveMeasured:
    """One collective of one run.

    Attributes:
        seconds: measured time, from the begin of sending to the end of the last rank, mean over iterations.
        predicted: prediction of the plan, scaled; ``None``: there is none, as plans change while it runs.
        bytes: payload of all ranks.
        wrong: errors in the computed result; empty if it is correct.
    """

    job: str
    name: str
    seconds: float
    predicted: float | None
    bytes: int
    retransmissions: int
    timeouts: int
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class JobMeasured:
    """One job with traffic on the network, in one run.

    Attributes:
        iterations: seconds of each iteration, from its begin (the first one) or from the end of the one before, so with
            computing and with waiting for a held period.
        predicted: the expected iteration, scaled: of the plan, or as simulated where plans change while the job runs.
    """

    job: str
    iterations: tuple[float, ...]
    predicted: float

    @property
    def mean(self) -> float:
        """Mean of the iterations in seconds."""
        return statistics.fmean(self.iterations)


@dataclass(frozen=True, eq=False)
class MeasuredDraw:
    """One draw: the controller's plan, the measured times, and the counters of the switches.

    Attributes:
        placements: of Hedera's loop, in order; ``plan`` is that of the one with most flows, and no flow is counted.
        paces: the flows that were paced, at the rates with which they began.
    """

    draw: Draw
    plan: dict[str, Any]
    collectives: tuple[CollectiveMeasured, ...]
    evidence: Evidence
    jobs: tuple[JobMeasured, ...]
    placements: tuple[Placement, ...] = ()
    paces: tuple[PacedFlow, ...] = ()

    def of_job(self, name: str) -> JobMeasured:
        """Return the measurements of a job."""
        return next(row for row in self.jobs if row.job == name)

    def flows_on(self) -> dict[str, int]:
        """Return the number of planned flows on each link between two switches; of placements, the largest counts."""
        counts = dict.fromkeys(self.evidence.sent, 0)
        if self.placements:
            for links in largest(self.placements).links.values():
                for link in links:
                    counts[link] += 1
        for one in self.evidence.flows:
            for link in one.planned.links:
                counts[link] += len(one.planned.flows)
        return counts


@dataclass(frozen=True)
class JobMeans:
    """A job under a policy, over all draws.

    Attributes:
        seconds: of an iteration in each draw, mean over iterations.
        predicted: mean over the draws.
        speed_up: mean of the first policy over the mean of this one.
        busiest: planned flows on the busiest uplink, in each draw.
        min_speed: of the plan (over all jobs), in each draw.
        bound: the best ``min_level`` that is proved for one path a flow.
    """

    job: str
    policy: str
    seconds: tuple[float, ...]
    predicted: float
    speed_up: float
    busiest: tuple[int, ...]
    min_speed: tuple[float, ...]
    bound: float | None

    @property
    def mean(self) -> float:
        """Mean of the seconds over draws."""
        return statistics.fmean(self.seconds)


@dataclass(frozen=True, eq=False)
class ExperimentOutcome:
    """The whole experiment."""

    scenario: EmulatedScenario
    scale: Scale
    runs: tuple[MeasuredDraw, ...]
    seconds: float

    def of(self, policy: str) -> list[MeasuredDraw]:
        """Return the runs of a policy."""
        return [run for run in self.runs if run.draw.policy == policy]

    def standings(self) -> list[JobMeans]:
        """Return a row for each job and policy, in order of jobs."""
        rows = []
        for job in (row.job for row in self.runs[0].jobs):
            baseline = statistics.fmean(self._seconds(self.scenario.baseline, job))
            for policy in self.scenario.request.policies:
                own = self.of(policy)
                seconds = self._seconds(policy, job)
                predicted = [run.of_job(job).predicted for run in own]
                rows.append(
                    JobMeans(
                        job,
                        policy,
                        tuple(seconds),
                        statistics.fmean(predicted),
                        baseline / statistics.fmean(seconds),
                        tuple(busiest_uplink(run, self._uplinks()) for run in own),
                        tuple(run.plan["min_speed"] for run in own),
                        own[0].plan["bound_single"],
                    )
                )
        return rows

    def failures(self) -> list[str]:
        """Return the reasons why the experiment failed, one line each; empty if it succeeded."""
        failures = []
        for run in self.runs:
            where = f"{run.draw.policy}, seed {run.draw.seed}"
            for row in run.collectives:
                failures += [f"{where}: {row.job}/{row.name}: wrong result: {wrong}" for wrong in row.wrong]
            failures += [f"{where}: not as planned: {wrong}" for wrong in run.evidence.wrong]
        if self.scenario.request.expect_faster:
            for one in self.standings():
                if one.policy != self.scenario.baseline and not one.speed_up > 1:
                    failures.append(
                        f"{one.job} was not faster under {one.policy} than under {self.scenario.baseline} "
                        f"({one.mean:.2f} s, {one.mean * one.speed_up:.2f} s)"
                    )
        return failures

    def notes(self) -> list[str]:
        """Return remarks on the numbers, one line each."""
        slow = max(row.mean / row.predicted for row in self.standings())
        if slow <= _SLOWER_THAN_PREDICTED:
            return []
        return [
            f"a job took {slow:.2f} times as long as its plan predicts: there was not enough processor time (try a "
            f"lower --link-mbps), or competing jobs did not share links as planned (hosts keep paces with {PACED} or "
            f"{WINDOWS} only)"
        ]

    def busy_seconds(self, run: MeasuredDraw) -> dict[str, float]:
        """Return the busy time of each link between two switches: its counted bytes over its rate."""
        fabric = self.scenario.fabric
        gbps = dict(zip(fabric.link_ids, fabric.link_gbps.tolist(), strict=True))
        rate = {link: gbps[link] * self.scale.mbps_per_gbps * 1e6 for link in run.evidence.sent}
        return {link: sent * 8 / rate[link] for link, sent in run.evidence.sent.items()}

    def _seconds(self, policy: str, job: str) -> list[float]:
        return [run.of_job(job).mean for run in self.of(policy)]

    def _uplinks(self) -> Sequence[str]:
        return self.scenario.fabric.link_ids[self.scenario.fabric.first_cable_link :: 2]


def busiest_uplink(run: MeasuredDraw, uplinks: Sequence[str]) -> int:
    """Planned flows on the uplink that has most."""
    counts = run.flows_on()
    return max((counts[link] for link in uplinks), default=0)


def document(outcome: ExperimentOutcome) -> dict[str, Any]:
    """All numbers, for programs."""
    scenario, scale = outcome.scenario, outcome.scale
    request, fabric = scenario.request, scenario.fabric
    return {
        "fabric": {
            "file": str(request.fabric),
            "version": fabric.version,
            **{
                PLURALS[role].replace(" ", "_"): len(layer)
                for role, layer in zip(fabric.roles, fabric.layers, strict=True)
            },
            "hosts": fabric.n_hosts,
        },
        "jobs": [str(path) for path in request.jobs],
        "enforcement": request.enforcement,
        "scale": {
            "mbps_per_gbps": scale.mbps_per_gbps,
            "rate": scale.rate,
            "bytes": scale.bytes,
            "time": scale.time,
            "mtu": MTU,
            "payload_part": EFFICIENCY,
        },
        "results": [
            {**asdict(row), "mean": row.mean, "spread": max(row.seconds) - min(row.seconds)}
            for row in outcome.standings()
        ],
        "runs": [_run_document(outcome, run) for run in outcome.runs],
        "failures": outcome.failures(),
        "notes": outcome.notes(),
        "seconds": outcome.seconds,
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load": os.getloadavg()[0],
        },
        "versions": {name: version(name) for name in ("fairspine", "ryu", "eventlet", "mininet")},
    }


def _run_document(outcome: ExperimentOutcome, run: MeasuredDraw) -> dict[str, Any]:
    busy, flows = outcome.busy_seconds(run), run.flows_on()
    return {
        "policy": run.draw.policy,
        "seed": run.draw.seed,
        "min_speed": run.plan["min_speed"],
        "bound_split": run.plan["bound_split"],
        "bound_single": run.plan["bound_single"],
        "gap": run.plan["gap"],
        "schedule": run.plan.get("schedule"),
        "paced": run.draw.paced,
        "windows": run.draw.windows,
        "paces": [asdict(row) for row in run.paces],
        "jobs": [asdict(row) for row in run.jobs],
        "collectives": [{**asdict(row), "checked": not row.wrong} for row in run.collectives],
        "flows": [
            {
                "ids": one.planned.flows,
                "udp_src": one.planned.unit[2],
                "links": one.planned.links,
                "packets": one.packets,
                "bytes": one.bytes,
                "packets_elsewhere": one.elsewhere,
            }
            for one in run.evidence.flows
        ],
        "links": [
            {"id": link, "flows": flows[link], "bytes": sent, "busy_seconds": busy[link]}
            for link, sent in run.evidence.sent.items()
        ],
        "placements": [
            {"seconds": one.seconds, "took": one.took, "flows": len(one.flows), "min_speed": one.plan["min_speed"]}
            for one in run.placements
        ],
        "off_plan": list(run.evidence.wrong),
    }
