"""Results of training, as values and as the JSON document."""

from __future__ import annotations

import itertools
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import Any

from emulation.training.learned_jobs import JobLearning
from emulation.training.training_request import LEARNED, TrainingScenario

LESS, MORE = 0.98, 1.08
"""Bytes counted on a link, as multiples of those that a plan leads over it: headers are 1.5 % of full packets, and
acknowledgements of flows the other way less than 1 %. Each step has the bytes of its job, to a rounded word."""

BESIDE = 0.05
"""Bytes on links without planned flows, as a part of those of the largest flow: acknowledgements, and what ranks tell
each other when they start."""

TARGET = 0.5
"""Part of the first loss of a job whose first step below it is looked for."""


@dataclass(frozen=True)
class JobSteps:
    """The steps of one job in one launch.

    Attributes:
        seconds: of each step.
        losses: after each number of steps: the first one is that before any step.
        together: numbers of the steps during which all jobs were training.
    """

    job: str
    seconds: tuple[float, ...]
    losses: tuple[float | None, ...]
    together: tuple[int, ...]

    @property
    def step_seconds(self) -> float:
        """The median of the steps during which all jobs were training (of all but the first, if there are none)."""
        steps = self.together or range(1, len(self.seconds))
        return statistics.median(self.seconds[step] for step in steps)

    @property
    def steps_to_target(self) -> int | None:
        """The steps until the loss is ``TARGET`` of the first one; ``None``: it is not, or losses are not said."""
        first = self.losses[0]
        if first is None:
            return None
        return next((n for n, loss in enumerate(self.losses) if loss is not None and loss <= TARGET * first), None)

    @property
    def seconds_to_target(self) -> float | None:
        """The seconds of these steps, the first one with its compilation included."""
        return None if self.steps_to_target is None else sum(self.seconds[: self.steps_to_target])


@dataclass(frozen=True)
class LaunchMeasured:
    """One launch of all jobs.

    Attributes:
        policy: of the plan, or ``HASHED``.
        number: of the launch of this policy, from 1.
        sent: bytes that switches sent over each cable, by directed link, from before the launch to its end (where it is
            learned, in steps under one plan).
        planned: payload of these that the plan leads over each link; ``None``: hashed.
        start_seconds: until all ranks had taken their first step.
        uncertain: bytes by which a link may have carried less or more than planned, since it was counted within a step.
        learned: of each job, what the controller learned of it; empty: jobs were pushed or hashed.
        counted_steps: during which ``sent`` was counted; ``None``: all.
    """

    policy: str
    number: int
    jobs: tuple[JobSteps, ...]
    sent: Mapping[str, int]
    planned: Mapping[str, float] | None
    start_seconds: float
    uncertain: Mapping[str, float] = field(default_factory=dict)
    learned: tuple[JobLearning, ...] = ()
    counted_steps: float | None = None

    def off_plan(self) -> list[str]:
        """Return in words which links carried less or more than planned."""
        if self.planned is None:
            return []
        beside = BESIDE * max(self.planned.values())
        lines = []
        for link, count in self.sent.items():
            wanted = self.planned.get(link, 0.0)
            unsure = self.uncertain.get(link, 0.0)
            if not LESS * wanted - unsure <= count <= MORE * (wanted + unsure) + beside:
                lines.append(f"{link} carried {count / 1e6:.1f} MB, planned {wanted / 1e6:.1f} MB")
        return lines


@dataclass(frozen=True)
class JobStanding:
    """A job under a policy.

    Attributes:
        seconds: of a step, by launch.
        ideal: seconds of its communication alone.
        speed_up: over the first policy, of the means of launches.
        uplinks: bytes that the emptiest and the fullest uplink carried in a step of all jobs, over all launches.
        losses_equal: whether the losses are those of the first launch of all, step by step; a learned job has more.
        last_loss: after as many steps as the first launch had.
        steps_to_target, seconds_to_target: see ``JobSteps``; the seconds by launch.
    """

    job: str
    policy: str
    seconds: tuple[float, ...]
    ideal: float
    speed_up: float
    uplinks: tuple[float, float]
    losses_equal: bool
    last_loss: float | None
    steps_to_target: int | None
    seconds_to_target: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of launches."""
        return statistics.fmean(self.seconds)


@dataclass(frozen=True, eq=False)
class TrainingOutcome:
    """All launches of a scenario, and the seconds that all took."""

    scenario: TrainingScenario
    launches: tuple[LaunchMeasured, ...]
    seconds: float

    def of(self, policy: str) -> list[LaunchMeasured]:
        """Return the launches of a policy."""
        return [launch for launch in self.launches if launch.policy == policy]

    @cached_property
    def standings(self) -> list[JobStanding]:
        """Each job under each policy, job by job."""
        names = [job.name for job in self.scenario.jobs]
        policies = self.scenario.arms
        rows = []
        for place, policy in itertools.product(range(len(names)), policies):
            base = statistics.fmean(launch.jobs[place].step_seconds for launch in self.of(policies[0]))
            first, own = self.launches[0].jobs[place], [launch.jobs[place] for launch in self.of(policy)]
            seconds = tuple(job.step_seconds for job in own)
            reached = [job.seconds_to_target for job in own]
            rows.append(
                JobStanding(
                    names[place],
                    policy,
                    seconds,
                    ideal=self.scenario.ideal[names[place]],
                    speed_up=base / statistics.fmean(seconds),
                    uplinks=self._uplinks(policy),
                    losses_equal=all(_agree(job.losses, first.losses) for job in own),
                    last_loss=own[0].losses[: len(first.losses)][-1],
                    steps_to_target=own[0].steps_to_target,
                    seconds_to_target=tuple(each for each in reached if each is not None),
                )
            )
        return rows

    def failures(self) -> list[str]:
        """Return what is not as it has to be: losses, paths, and with ``expect_faster`` times."""
        texts = [
            f"{row.job}: losses under {row.policy} are not those of the first launch"
            for row in self.standings
            if not row.losses_equal
        ]
        for launch in self.launches:
            texts += [f"{launch.policy}, launch {launch.number}: {line}" for line in launch.off_plan()]
            texts += [f"{LEARNED}: {job.in_words}" for job in launch.learned if not job.is_whole]
        if self.scenario.request.expect_faster:
            texts += [
                f"{row.job} is not faster under {row.policy}: {row.mean:.2f} s a step"
                for row in self.standings
                if row.policy != self.scenario.request.policies[0] and row.speed_up <= 1
            ]
        return texts

    def document(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        request = self.scenario.request
        return {
            "fairspine": version("fairspine"),
            "machine": {"cores": os.cpu_count(), "load": os.getloadavg(), "python": platform.python_version()},
            "fabric": str(request.fabric),
            "scripts": list(request.scripts),
            "enforcement": request.enforcement,
            "link_mbps": request.link_mbps,
            "steps": request.steps,
            "jobs": [asdict(row) | {"mean": row.mean} for row in self.standings],
            "launches": [
                {
                    "policy": launch.policy,
                    "number": launch.number,
                    "start_seconds": launch.start_seconds,
                    "jobs": [asdict(job) | {"step_seconds": job.step_seconds} for job in launch.jobs],
                    "links": [
                        {
                            "id": link,
                            "bytes": count,
                            "planned_bytes": None if launch.planned is None else launch.planned.get(link, 0.0),
                        }
                        for link, count in launch.sent.items()
                    ],
                    "off_plan": launch.off_plan(),
                    "learned": [asdict(job) for job in launch.learned],
                }
                for launch in self.launches
            ],
            "failures": self.failures(),
            "seconds": self.seconds,
        }

    def uplink_bytes(self, launch: LaunchMeasured) -> dict[str, float]:
        """Return the bytes that each uplink of a leaf carried in a step, by directed link."""
        fabric, steps = self.scenario.emulated.fabric, launch.counted_steps or self.scenario.request.steps
        leaves = {leaf.name for leaf in fabric.leaves}
        return {link: count / steps for link, count in launch.sent.items() if link.partition("->")[0] in leaves}

    def _uplinks(self, policy: str) -> tuple[float, float]:
        counts = [count for launch in self.of(policy) for count in self.uplink_bytes(launch).values()]
        return min(counts), max(counts)


def _agree(losses: Sequence[float | None], others: Sequence[float | None]) -> bool:
    """Return whether two launches have the same losses in the steps that both have taken."""
    return all(one == other for one, other in zip(losses, others, strict=False))
