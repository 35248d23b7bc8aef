"""The experiment of learned jobs: nobody pushes one, a feeder shows them, and a plan for what was learned is measured.

The same collectives run on packets three times: hashed, while one feeder alone tells the controller of them; with the
learned jobs adopted; and with the jobs pushed instead.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.learned.job_clock import JobClock
from emulation.experiments.learned.learned_lab import LearnedLab
from emulation.experiments.learned.learned_truth import LearnedAgainstSent, SentJob, compare, sent_jobs
from emulation.experiments.learned.learned_watch import BYTES_OFF, LearnedWatch
from emulation.experiments.learned.own_ports import own_ports
from emulation.experiments.networks.network import check_reachable
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.run import Say, prepare
from emulation.experiments.workload import routes
from emulation.lab import Lab
from emulation.processes import Popen
from emulation.roce.run import CollectiveResult

LEARNING_SECONDS = 20.0
"""Time after the last packet in which the last sightings are worked on; a silent job is forgotten after 30 s."""
MOST_ROUNDS = 3
"""Times that the jobs run before they are pushed. On a busy machine iterations differ too much to agree at once."""
COMPARED_ITERATIONS = 2
"""Of each job in the rounds that nothing is learned from: with a plan, one differs little from the next."""
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class LearnedRun:
    """The jobs that the controller learned from one feeder, and the times with and without a plan for them.

    Attributes:
        appeared: iterations of each job that had ended when all of its flows were first learned.
        known: the same, when its bytes and its period were as exact as they should be, and stayed so; ``None``: they
            were not.
        seconds: of the communication of each job in an iteration [iterations], in the three rounds.
    """

    feeder: str
    compared: tuple[LearnedAgainstSent, ...]
    appeared: dict[str, int]
    known: dict[str, int | None]
    seconds: dict[str, dict[str, tuple[float, ...]]]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each job."""
        return [
            {"feeder": self.feeder}
            | asdict(row)
            | {"appeared": self.appeared[row.job], "known": self.known[row.job]}
            | {f"{name}_seconds": fmean(of[row.job]) for name, of in self.seconds.items()}
            for row in self.compared
        ]

    def failures(self, *, expect_faster: bool) -> list[str]:
        """Return what is wrong: edges that were missed or invented, and jobs that their plan makes no faster."""
        failures = [
            f"{self.feeder}: {row.job}: recall {row.recall:.3f}, precision {row.precision:.3f}"
            for row in self.compared
            if row.recall < 1 or row.precision < 1
        ]
        hashed, learned = self.seconds["hashed"], self.seconds["learned"]
        if expect_faster:
            failures += [
                f"{self.feeder}: {job}: not faster when learned"
                for job in hashed
                if fmean(learned[job]) >= fmean(hashed[job])
            ]
        return failures


def run_learned(scenario: EmulatedScenario, say: Say, popen: Popen = subprocess.Popen) -> LearnedRun:
    """Run the experiment on one lab, which is always removed afterwards; ``popen`` starts the controller.

    Raises:
        LabError: a part did not start, or the logs contain errors.
        EmulationError: a collective did not finish.
    """
    request, fabric = scenario.request, scenario.fabric
    scale = prepare(scenario)
    with Lab(fabric, out=request.folder, mbps_per_gbps=scale.mbps_per_gbps) as lab:
        draw = next(draw for draw in scenario.draws if draw.policy != scenario.baseline)
        options = LearnedLab.options(request.learn)
        with ExperimentController(lab, request, draw, options, popen=popen) as controller:
            controller.wait_ready()
            check_reachable(lab, scenario)
            outcome = _all_rounds(LearnedLab(lab, scenario, scale, controller), say)
        problems = lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return outcome


def _all_rounds(rounds: LearnedLab, say: Say) -> LearnedRun:
    controller, feeder = rounds.controller, rounds.scenario.request.learn
    specs = rounds.specs
    ports = own_ports(rounds.scenario.fabric, specs)
    seconds: dict[str, dict[str, tuple[float, ...]]] = {}
    say(f"hashed, nothing pushed; feeder: {feeder}")
    for number in range(MOST_ROUNDS):
        clock = JobClock(rounds.cycles())
        with LearnedWatch(controller.learned, list(rounds.scenario.iterations), clock) as watch:
            results = rounds.measure(ports, feeder, on_ended=clock.on_ended)
        sent = sent_jobs(specs, ports, results)
        learned = _wait_learned(controller, sent)
        compared = tuple(compare(job, learned) for job in sent)
        appeared, known = dict[str, int](), dict[str, int | None]()
        for each in sent:
            before, whole = number * rounds.scenario.iterations[each.job], rounds.scenario.iterations[each.job]
            shown, exact = watch.appeared(each), watch.known(each, BYTES_OFF[feeder])
            # Jobs that are learned after their last packet had ended before.
            appeared[each.job] = before + (whole if shown is None else shown)
            known[each.job] = None if exact is None else before + exact
        if _is_whole(compared):
            break
        say("not all is learned: " + ", ".join(f"{row.job} recall {row.recall:.3f}" for row in compared))
    seconds["hashed"] = _seconds(results)
    names = [document["summary"]["name"] for document in learned]
    say(f"learned: {', '.join(names) or 'nothing'}")
    for name in names:
        controller.adopt(name)
    controller.wait_active()
    seconds["learned"] = _seconds(rounds.measure(ports, "", most=COMPARED_ITERATIONS))
    for name in names:
        controller.delete(name)
    say("the same jobs pushed")
    for job, document in zip(rounds.scenario.jobs, rounds.scenario.documents, strict=True):
        controller.push(job.name, document)
    controller.wait_active()
    routes_of = {host.name: controller.routes(host.name) for host in rounds.scenario.fabric.hosts}
    seconds["pushed"] = _seconds(
        rounds.measure(routes(rounds.scenario.fabric, specs, routes_of), "", most=COMPARED_ITERATIONS)
    )
    return LearnedRun(feeder, compared, appeared, known, seconds)


def _wait_learned(controller: ExperimentController, sent: Sequence[SentJob]) -> list[dict[str, Any]]:
    """Return the learned jobs, once they have all edges; else what there is after some time."""
    deadline = time.monotonic() + LEARNING_SECONDS
    while True:
        learned = controller.learned()
        if _is_whole([compare(job, learned) for job in sent]) or time.monotonic() > deadline:
            return learned
        time.sleep(_POLL_SECONDS)


def _is_whole(compared: Sequence[LearnedAgainstSent]) -> bool:
    """Return whether every edge is learned."""
    return all(row.recall == 1 for row in compared)


def _seconds(results: Sequence[CollectiveResult]) -> dict[str, tuple[float, ...]]:
    """Return the time of each iteration's communication, by job."""
    seconds: dict[str, tuple[float, ...]] = {}
    for job in dict.fromkeys(result.job for result in results):
        spans = [result.seconds for result in results if result.job == job]
        seconds[job] = tuple(sum(each) for each in zip(*spans, strict=True))
    return seconds
