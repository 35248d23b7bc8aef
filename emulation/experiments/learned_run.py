"""The experiment of learned jobs: nobody pushes one, a feeder shows them, and a plan for what was learned is measured.

The same collectives run on packets three times: hashed, while one feeder alone tells the controller of them; with the
learned jobs adopted; and with the jobs pushed instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

from controller.model.fabric import Fabric
from controller.model.port_numbers import SFLOW_PORT
from controller.model.traffic import FIRST_PORT, LAST_PORT
from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.job_times import cycles
from emulation.experiments.learned_truth import LearnedAgainstSent, SentJob, compare, sent_jobs
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.run import Say, check_reachable, prepare, sender_options, spawn_in
from emulation.experiments.scale import Scale
from emulation.experiments.tally_feeder import TallyFeeder
from emulation.experiments.workload import addresses, collectives, ports_of, routes
from emulation.lab import Lab
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.job_cycle import JobCycle
from emulation.roce.run import CollectiveResult, FlowKey, PortShare, run_collectives

TALLY_SECONDS = 0.1
SAMPLING = 10
"""One of so many packets: a QP that fills a link of 15 Mbit/s is sampled 46 times a second."""
COMPUTE = 1.0
"""Seconds that a job computes, for each that it would send alone, where it states no computing times."""
LEARNING_SECONDS = 20.0
"""Time after the last packet in which the last sightings are worked on; a silent job is forgotten after 30 s."""
MOST_ROUNDS = 3
"""Times that the jobs run before they are pushed. On a busy machine iterations differ too much to agree at once."""
_POLL_SECONDS = 0.5
_ROUND_SECONDS = 120.0
_SEED = 7


@dataclass(frozen=True)
class LearnedRun:
    """What was learned, and the seconds [iterations] of each job's all-reduces in the three rounds."""

    feeder: str
    compared: tuple[LearnedAgainstSent, ...]
    seconds: dict[str, dict[str, tuple[float, ...]]]

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each job."""
        return [
            asdict(row) | {f"{name}_seconds": fmean(of[row.job]) for name, of in self.seconds.items()}
            for row in self.compared
        ]

    def failures(self, *, expect_faster: bool) -> list[str]:
        """Return what is wrong: edges that were missed or invented, and jobs that their plan makes no faster."""
        found = [
            f"{row.job}: recall {row.recall:.3f}, precision {row.precision:.3f}"
            for row in self.compared
            if row.recall < 1 or row.precision < 1
        ]
        hashed, learned = self.seconds["hashed"], self.seconds["learned"]
        if expect_faster:
            found += [f"{job}: not faster when learned" for job in hashed if fmean(learned[job]) >= fmean(hashed[job])]
        return found


def run_learned(scenario: EmulatedScenario, say: Say) -> LearnedRun:
    """Run the experiment on one lab, which is always removed afterwards.

    Raises:
        LabError: a part did not start, or the logs contain errors.
        EmulationError: a collective did not finish.
    """
    request, fabric = scenario.request, scenario.fabric
    scale = prepare(scenario)
    options = ["--learning", "observe"]
    if request.learn == "sflow":
        options += ["--sflow-listen", "127.0.0.1", "--sflow-agents", "127.0.0.1"]
    if request.learn == "watch":
        options += ["--learning-watch", "on"]
    with Lab(fabric, out=request.folder, mbps_per_gbps=scale.mbps_per_gbps) as lab:
        draw = next(draw for draw in scenario.draws if draw.policy != scenario.baseline)
        with ExperimentController(lab, request, draw, options) as controller:
            controller.wait_ready()
            check_reachable(lab, scenario)
            outcome = _all_rounds(_Rounds(lab, scenario, scale, controller), say)
        problems = lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return outcome


def _all_rounds(rounds: _Rounds, say: Say) -> LearnedRun:
    controller, feeder = rounds.controller, rounds.scenario.request.learn
    specs = rounds.specs
    ports = _own_ports(rounds.scenario.fabric, specs)
    seconds: dict[str, dict[str, tuple[float, ...]]] = {}
    say(f"hashed, nothing pushed; feeder: {feeder}")
    for _ in range(MOST_ROUNDS):
        results = rounds.measure(ports, feeder)
        sent = sent_jobs(specs, ports, results)
        learned = _wait_learned(controller, sent)
        compared = tuple(compare(job, learned) for job in sent)
        if _is_whole(compared):
            break
        say("not all is learned: " + ", ".join(f"{row.job} recall {row.recall:.3f}" for row in compared))
    seconds["hashed"] = _seconds(results)
    names = [document["summary"]["name"] for document in learned]
    say(f"learned: {', '.join(names) or 'nothing'}")
    for name in names:
        controller.adopt(name)
    controller.wait_active()
    seconds["learned"] = _seconds(rounds.measure(ports, ""))
    for name in names:
        controller.delete(name)
    say("the same jobs pushed")
    for job, document in zip(rounds.scenario.jobs, rounds.scenario.documents, strict=True):
        controller.push(job.name, document)
    controller.wait_active()
    told = {host.name: controller.routes(host.name) for host in rounds.scenario.fabric.hosts}
    seconds["pushed"] = _seconds(rounds.measure(routes(rounds.scenario.fabric, specs, told), ""))
    return LearnedRun(feeder, compared, seconds)


@dataclass(frozen=True)
class _Rounds:
    lab: Lab
    scenario: EmulatedScenario
    scale: Scale
    controller: ExperimentController

    @property
    def specs(self) -> list[CollectiveSpec]:
        return collectives(self.scenario, self.scale.bytes)

    def measure(self, ports: dict[FlowKey, tuple[PortShare, ...]], feeder: str) -> list[CollectiveResult]:
        """Run all iterations of all jobs; ``feeder`` tells the controller of them meanwhile, unless it is empty."""
        lab, fabric = self.lab, self.scenario.fabric
        with ExitStack() as feeding:
            tallies = None
            if feeder == "host":
                tallies = feeding.enter_context(TallyFeeder(self.controller.see))
            elif feeder == "sflow":
                leaves = [lab.wiring.switch(leaf.name) for leaf in fabric.leaves]
                lab.ovs.sample(leaves, ("127.0.0.1", SFLOW_PORT), SAMPLING)
            return run_collectives(
                addresses(fabric),
                spawn_in(lab),
                self.specs,
                ports,
                options=sender_options(self.scenario.fabric, self.scale.mbps_per_gbps),
                timeout=_ROUND_SECONDS + 8 * self.scenario.request.seconds * max(self.scenario.iterations.values()),
                log_dir=self.scenario.request.folder / "logs",
                cycles=self._cycles(),
                tally_seconds=TALLY_SECONDS if tallies else 0.0,
                on_tally=tallies.take if tallies else lambda tally: None,
                ports_of=ports_of(fabric),
            )

    def _cycles(self) -> list[JobCycle]:
        given = cycles(self.scenario, None, self.scale.time)
        if any(seconds for cycle in given for _, seconds in cycle.compute):
            return given
        computing = COMPUTE * self.scenario.request.seconds
        return [
            replace(cycle, compute=tuple((phase, computing if i == 0 else 0.0) for i, phase in enumerate(cycle.phases)))
            for cycle in given
        ]


def _own_ports(fabric: Fabric, specs: Sequence[CollectiveSpec]) -> dict[FlowKey, tuple[PortShare, ...]]:
    """Return a UDP source port for each flow as hosts choose them: without a plan, and all different.

    Where NICs have several ports, a flow has a stripe for each, from a port to that with the same number.
    """
    several = ports_of(fabric)
    found: dict[FlowKey, tuple[PortShare, ...]] = {}
    port = _SEED
    for spec in specs:
        for a, b in spec.flows():
            pair = spec.ranks[a], spec.ranks[b]
            stripes = list(zip(*(several.get(nic, ("",)) for nic in pair), strict=True))
            shares = []
            for src, dst in stripes:
                port = port * 0x9E3779B1 % (1 << 32)
                number = FIRST_PORT + port % (LAST_PORT + 1 - FIRST_PORT)
                shares.append(PortShare(number, 1 / len(stripes), len(stripes) == 1, src, dst))
            found[spec.job, spec.name, *pair] = tuple(shares)
    return found


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
    found: dict[str, tuple[float, ...]] = {}
    for job in dict.fromkeys(result.job for result in results):
        spans = [result.seconds for result in results if result.job == job]
        found[job] = tuple(sum(each) for each in zip(*spans, strict=True))
    return found
