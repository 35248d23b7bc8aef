"""The experiment of re-plans: learned jobs change their paths while they run, in an idle time or amid a burst.

No job is pushed. With ``learning = act`` the controller plans what one feeder has shown, and with ``observe`` it
takes that back, so the flows are hashed again. The experiment always asks for the former amid a burst; the controller
writes the rules in the idle time that it predicts, or at once (``learning_wait_seconds = 0``). The experiment asks for
the latter while the jobs compute. The endpoints count how many packets came out of sequence.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from emulation.errors import LabError
from emulation.experiments.control import ExperimentController
from emulation.experiments.hedera.packet_paths import uplinks
from emulation.experiments.learned.job_clock import JobClock
from emulation.experiments.learned.learned_lab import LearnedLab
from emulation.experiments.learned.learned_truth import Edge, sent_jobs
from emulation.experiments.learned.own_ports import own_ports
from emulation.experiments.networks.network import check_reachable
from emulation.experiments.request import EmulatedScenario
from emulation.experiments.run import Say, prepare
from emulation.lab import Lab
from emulation.processes import Popen

GAP, AT_ONCE = "in an idle time", "amid a burst"
_WAITS = {GAP: "20", AT_ONCE: "0"}
"""``learning_wait_seconds``."""

LEARNED_ITERATIONS = 5
"""Of a job whose pauses are predicted."""
AMID = (0.1, 0.35)
"""Part of a burst within which plans are asked for: early, as a busy machine takes a second to write the rules."""
LEAST_IDLE = 0.5
"""Seconds that all jobs must compute on, for the way back."""
_POLL_SECONDS = 0.02
_STEP_SECONDS = 90.0
"""Longest time of one step, such as waiting for an idle time."""


@dataclass(frozen=True)
class Replan:
    """One plan of the learned jobs.

    Attributes:
        moved: number of flows whose uplink changed.
        sending: whether some job sent while the rules were written.
        naks: out-of-sequence NAKs from the request until the rules are taken back.
        resent: packets that were sent again in this time.
    """

    moved: int
    sending: bool
    naks: int
    resent: int


@dataclass(frozen=True)
class ReplanRound:
    """All plans of one kind.

    Attributes:
        kind: ``GAP`` or ``AT_ONCE``.
        other_naks: out-of-sequence NAKs at all other times: while jobs are learned, and when plans are taken back.
        seconds: mean time of a burst in which rules were written, or of the first one after that.
        usual_seconds: mean time of the other ones.
    """

    kind: str
    replans: tuple[Replan, ...]
    other_naks: int
    seconds: float
    usual_seconds: float

    @property
    def naks(self) -> int:
        """NAKs of all plans."""
        return sum(one.naks for one in self.replans)

    @property
    def resent(self) -> int:
        """Packets that were sent again for all plans."""
        return sum(one.resent for one in self.replans)


@dataclass(frozen=True)
class ReplanOutcome:
    """Both rounds."""

    feeder: str
    flows: int
    rounds: tuple[ReplanRound, ...]

    def document(self) -> dict[str, Any]:
        """Return all numbers, for programs."""
        return {
            "feeder": self.feeder,
            "flows": self.flows,
            "rounds": [asdict(each) | {"naks": each.naks, "resent": each.resent} for each in self.rounds],
        }

    def failures(self) -> list[str]:
        """Return what is wrong: plans that moved nothing, NAKs in idle times, or none amid bursts."""
        failures = []
        for each in self.rounds:
            still = sum(not one.moved for one in each.replans)
            if still:
                failures.append(f"{each.kind}: {still} of {len(each.replans)} plans moved no flow")
            if each.kind == GAP and each.naks:
                failures.append(f"{each.kind}: {each.naks} out-of-sequence NAKs")
            if each.kind == AT_ONCE and not each.naks:
                failures.append(f"{each.kind}: no packet came out of sequence, so the comparison shows nothing")
        return failures


def run_replans(scenario: EmulatedScenario, say: Say, popen: Popen = subprocess.Popen) -> ReplanOutcome:
    """Run the experiment on one lab, which is always removed afterwards; ``popen`` starts the controllers.

    Raises:
        LabError: a part did not start, nothing was learned, or the logs contain errors.
        EmulationError: an agent failed.
    """
    request, scale = scenario.request, prepare(scenario)
    draw = next(draw for draw in scenario.draws if draw.policy != scenario.baseline)
    rounds = []
    with Lab(scenario.fabric, out=request.folder, mbps_per_gbps=scale.mbps_per_gbps) as lab:
        for kind, wait in _WAITS.items():
            options = [*LearnedLab.options(request.learn), "--learning-wait-seconds", wait]
            with ExperimentController(lab, request, draw, options, popen=popen) as controller:
                controller.wait_ready()
                check_reachable(lab, scenario)
                say(f"{request.replans} plans {kind}; feeder: {request.learn}")
                rounds.append(_Replanner(LearnedLab(lab, scenario, scale, controller), kind, say).run())
        problems = lab.problems()
    if problems:
        raise LabError("errors in the logs:\n" + "\n".join(problems))
    return ReplanOutcome(request.learn, scenario.traffic.n_flows, tuple(rounds))


class _EnoughError(Exception):
    """All plans were made: the jobs need not go on."""


class _Replanner:
    """Plans the jobs of one round again and again, in a thread beside the one that waits for their agents."""

    def __init__(self, learned: LearnedLab, kind: str, say: Say) -> None:
        self._learned, self._kind, self._say = learned, kind, say
        self._controller = learned.controller
        self._clock = JobClock(learned.cycles())
        self._resent: dict[str, tuple[int, int]] = {}
        self._replans: list[Replan] = []
        self._changes: list[float] = []
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._ports = own_ports(learned.scenario.fabric, learned.specs)
        self._edges: frozenset[Edge] = frozenset(
            edge for job in sent_jobs(learned.specs, self._ports, []) for edge in job.bytes
        )

    def run(self) -> ReplanRound:
        """Run the jobs until all plans are made."""
        thread = threading.Thread(target=self._work, name="plans", daemon=True)
        with ExitStack() as ending:
            ending.callback(thread.join)
            ending.callback(self._ended.set)
            thread.start()
            with suppress(_EnoughError):
                self._learned.measure(
                    self._ports,
                    self._learned.scenario.request.learn,
                    on_tally=self._on_tally,
                    on_ended=self._clock.on_ended,
                )
        if self._error is not None:
            raise self._error
        wanted = self._learned.scenario.request.replans
        if len(self._replans) < wanted:
            raise LabError(f"the jobs ended after {len(self._replans)} of {wanted} plans")
        concerned, usual = burst_means(self._clock, self._changes)
        other = self._naks()[0] - sum(one.naks for one in self._replans)
        return ReplanRound(self._kind, tuple(self._replans), other, concerned, usual)

    def _on_tally(self, tally: dict[str, Any]) -> None:
        self._resent[tally["host"]] = tally["naks"], tally["retransmissions"]
        if self._ended.is_set():
            raise _EnoughError

    def _naks(self) -> tuple[int, int]:
        """Return the NAKs and the packets sent again, so far."""
        rows = list(self._resent.values())
        return sum(naks for naks, _ in rows), sum(resent for _, resent in rows)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._until(self._all_learned, "all flows are learned")
            for number in range(self._learned.scenario.request.replans):
                one = self._replan()
                self._replans.append(one)
                self._say(
                    f"{self._kind}, {number + 1}: {one.moved} flows moved, "
                    f"{'while jobs sent' if one.sending else 'while none sent'}, {one.naks} NAKs"
                )
        except Exception as error:
            if not self._ended.is_set():
                self._error = error
        self._ended.set()

    def _replan(self) -> Replan:
        lab, controller = self._learned.lab, self._controller
        self._until(self._amid, "all jobs are amid a burst")
        naks, resent = self._naks()
        before = uplinks(lab, self._edges)
        controller.set_learning("act")
        self._until(controller.all_planned, "the learned jobs are planned")
        began, ended = self._monotonic(controller.written())
        after = uplinks(lab, self._edges)
        self._changes.append(ended)
        self._until(lambda: self._sent_since(ended), "each job has sent")
        self._until(lambda: self._clock.idle_for() > LEAST_IDLE, "all jobs compute")
        now = self._naks()
        controller.set_learning("observe")
        # The way back concerns the next burst, too.
        sending = any(burst.begin < ended and burst.end > began for burst in self._clock.bursts())
        moved = sum(after[edge] != link for edge, link in before.items())
        return Replan(moved, sending, now[0] - naks, now[1] - resent)

    def _all_learned(self) -> bool:
        documents = self._controller.learned()
        if not documents or any(row["summary"]["iterations"] < LEARNED_ITERATIONS for row in documents):
            return False
        edges = {(flow["src"], flow["dst"], flow["udp_src"]) for row in documents for flow in row["job"]["flows"]}
        return all(row["summary"]["period_seconds"] for row in documents) and edges >= self._edges

    def _amid(self) -> bool:
        sent, whole = self._clock.sending_for(), self._clock.shortest_burst()
        return AMID[0] * whole < sent < AMID[1] * whole

    def _sent_since(self, at: float) -> bool:
        """Return whether each job has sent a whole burst since then."""
        jobs = {burst.job for burst in self._clock.bursts() if burst.begin > at}
        return len(jobs) == len(self._learned.cycles())

    @staticmethod
    def _monotonic(times: tuple[float, float]) -> tuple[float, float]:
        ahead = time.time() - time.monotonic()
        return times[0] - ahead, times[1] - ahead

    def _until(self, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + _STEP_SECONDS
        while not reached():
            if self._ended.wait(_POLL_SECONDS):
                raise LabError("the jobs have ended")
            if time.monotonic() > deadline:
                raise LabError(f"waited {_STEP_SECONDS:.0f} s in vain: {what}")


def burst_means(clock: JobClock, changes: list[float]) -> tuple[float, float]:
    """Return the mean seconds of the bursts at changes of paths or right after them, and of all others."""
    bursts = clock.bursts()
    concerned = set()
    for at in changes:
        for job in {burst.job for burst in bursts}:
            after = [burst for burst in bursts if burst.job == job and burst.end > at]
            concerned |= {min(after, key=lambda burst: burst.end)} if after else set()
    own = [burst.seconds for burst in bursts if burst in concerned]
    others = [burst.seconds for burst in bursts if burst not in concerned]
    return fmean(own) if own else float("nan"), fmean(others) if others else float("nan")
