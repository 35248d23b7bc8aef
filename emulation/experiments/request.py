"""Requests for experiments: files and numbers, checked before anything is created."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controller.config import Settings
from controller.core.port_choice import check_free
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.choices.qp_mode import QpMode
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric, read_document
from controller.model.ip_versions import check_ipv4
from controller.model.job import Job
from controller.model.packets.flow_ports import flow_ports, is_roce
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Traffic
from controller.routing import POLICIES, advising, draws, enforceable, estimating
from controller.routing.times.phase_order import has_order
from controller.routing.times.stages import has_times
from controller.southbound.enforcement.registry import ENFORCEMENTS, host_enforcements
from controller.workload.expand import JobTraffic, combine
from controller.workload.load import load_jobs
from emulation.policy_names import HEDERA, PACED, SHIFTS, WINDOWS

MAX_DRAWS = 100

FEEDERS = ("host", "sflow", "watch")
"""Of learned jobs."""
REPLAN_ITERATIONS = 10
"""Of each job for each of its plans, at most."""
LEARNING_ITERATIONS = {"host": 4, "sflow": 4, "watch": 5}
"""Of each job whose communication is learned, by feeder."""

MAX_REPLANS = 100

ROUTERS_OWN = "ecmp"
"""The policy that Linux routers carry out themselves: their kernels hash all flows."""

PERIOD, LEAST_PERIOD = 0.2, 0.5
"""Of Hedera's loop: part of the longest iteration alone on the fabric, and seconds. Hedera's 5 s are a small part of
the flows that it was made for, so a burst must contain several periods here; a placement takes tenths of a second."""

MAX_ITERATIONS = 1000
ITERATIONS = 10
"""Of each job, if some job computes between its collectives."""


@dataclass(frozen=True)
class ExperimentRequest:
    """A request for an experiment.

    Attributes:
        enforcement: by which switches follow the plan.
        policies: in the order in which they run, also with ``SHIFTS``, ``PACED``, ``WINDOWS`` or ``HEDERA``; speed-ups
            are over the first one.
        seeds: seeds of the draws of each policy that draws, and of the loop; the others run once, with the first.
        seconds: approximate duration of the longest iteration of a job alone on the fabric, computing included; bytes
            and times are scaled to that.
        iterations: of each job, or one number for all; empty: ``ITERATIONS`` if some job states computing times, else
            one.
        qps: QPs of each connection of jobs that do not say.
        qp_mode: which bytes each of these QPs carries.
        link_mbps: rate of the fastest link; ``None``: as much as the machine carries (scale.py).
        name: name of the files that are written to ``out``, and of the folder with the logs.
        expect_faster: fail unless every job is faster under each further policy than under the first.
        replans: number of times that learned jobs are planned anew while they run, in idle times and amid bursts; 0:
            measure what was learned instead.
        period: seconds between two looks of Hedera's loop; ``None``: ``PERIOD`` of ``seconds``, but ``LEAST_PERIOD``.
        pace_window: round trips of its pace that a QP has in flight under ``WINDOWS``.
        learn: feeders, separated by commas, from which the controller learns the jobs, one after the other, instead of
            having them pushed; empty: none.
    """

    fabric: Path
    jobs: tuple[Path, ...]
    policies: tuple[str, ...] = ("ecmp", Settings.policy)
    enforcement: str = DEFAULT_ENFORCEMENT
    seeds: tuple[int, ...] = (1, 2, 3)
    seconds: float = 5.0
    iterations: tuple[int, ...] = ()
    qps: int = 1
    qp_mode: QpMode = "split"
    link_mbps: float | None = None
    out: Path = Path("out")
    name: str = "emulate"
    expect_faster: bool = False
    learn: str = ""
    replans: int = 0
    period: float | None = None
    pace_window: float = 1.0

    @property
    def loop_period(self) -> float:
        """Seconds between two looks of Hedera's loop."""
        return max(PERIOD * self.seconds, LEAST_PERIOD) if self.period is None else self.period

    @property
    def folder(self) -> Path:
        """Folder of the logs, separate for each experiment."""
        return self.out / self.name

    @property
    def feeders(self) -> tuple[str, ...]:
        """The feeders of ``learn``."""
        return tuple(part.strip() for part in self.learn.split(",")) if self.learn else ()

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps({**asdict(self), "fabric": str(self.fabric), "jobs": list(map(str, self.jobs))}, default=str)

    @staticmethod
    def from_json(text: str) -> ExperimentRequest:
        """Return the request that ``to_json`` encoded."""
        values = json.loads(text)
        paths = {"fabric": Path(values["fabric"]), "out": Path(values["out"]), "jobs": tuple(map(Path, values["jobs"]))}
        lists = {name: tuple(values[name]) for name in ("policies", "seeds", "iterations")}
        return ExperimentRequest(**{**values, **paths, **lists})


@dataclass(frozen=True)
class Draw:
    """One run: a policy with a seed. ``policy`` is the name that results have, ``routing`` that of the registry."""

    policy: str
    seed: int

    @property
    def routing(self) -> str:
        """Name of the policy without ``SHIFTS``, ``PACED``, ``WINDOWS`` and ``HEDERA``."""
        return self._began.removesuffix(SHIFTS).removeprefix(HEDERA)

    @property
    def advised(self) -> bool:
        """Whether iterations begin when the plan says."""
        return self._began.endswith(SHIFTS)

    @property
    def paced(self) -> bool:
        """Whether hosts keep the paces of the plan, by pacers or by windows."""
        return self.policy.endswith((PACED, WINDOWS))

    @property
    def windows(self) -> bool:
        """Whether hosts keep windows in place of paces."""
        return self.policy.endswith(WINDOWS)

    @property
    def _began(self) -> str:
        return self.policy.removesuffix(WINDOWS if self.windows else PACED)

    @property
    def loop(self) -> bool:
        """Whether Hedera's loop runs, and no job is pushed."""
        return self.policy.startswith(HEDERA)

    @property
    def options(self) -> tuple[str, ...]:
        """Options of the policy, ``name=value``."""
        if self.loop:
            return ("estimate_demand=true",)
        return ("shifts=advise",) if self.advised else ()


@dataclass(frozen=True, eq=False)
class EmulatedScenario:
    """A request with its files read and its values checked.

    Attributes:
        documents: the document of each job, to push to the controller.
        traffic: the flows of all jobs with the sizes of the files, not scaled.
        iterations: of each job, by name.
    """

    request: ExperimentRequest
    fabric: Fabric
    jobs: tuple[Job, ...]
    documents: tuple[Any, ...]
    traffic: Traffic
    draws: tuple[Draw, ...]
    iterations: Mapping[str, int]

    @property
    def baseline(self) -> str:
        """The policy with which the others are compared."""
        return self.request.policies[0]


def load(request: ExperimentRequest) -> EmulatedScenario:
    """Read the files and check everything that can be checked without a network.

    Raises:
        InputError: the first thing that is wrong, with the file or the option it is in.
    """
    chooses_ports = ENFORCEMENTS.named(request.enforcement, field="--enforcement").chooses_ports
    _check_policies(request.policies)
    _check_loop(request, chooses_ports=chooses_ports)
    check_name(request.name)
    if not 1 <= len(request.seeds) <= MAX_DRAWS:
        raise InputError(f"1 to {MAX_DRAWS}", field="--draws", value=len(request.seeds))
    if not 0.1 <= request.seconds <= 600:
        raise InputError("0.1 to 600", field="--seconds", value=request.seconds)
    _check_feeders(request)
    if request.learn and chooses_ports:
        raise InputError("ports that hosts choose cannot be learned and steered", field="--enforcement")
    for policy in request.policies:
        if request.learn and Draw(policy, 0).paced:
            raise InputError("flows of learned jobs have no paces", field="--policies", value=policy)
    if request.learn and len(request.policies) != 2:
        raise InputError("two are needed: of the hashed traffic, and of the plan", field="--policies")
    if not request.jobs:
        raise InputError("at least one job is needed", field="--job")
    fabric = load_fabric(request.fabric)
    check_ipv4(fabric, "the emulation", str(request.fabric))
    check_switches(request, fabric)
    if fabric.planes.bonds and not {*request.feeders} <= {"host"}:
        reason = "only hosts tell which port of a bond sends a flow"
        raise InputError(reason, field="--learn", value=request.learn)
    jobs, expanded = load_jobs(fabric, request.jobs, QueuePairs(request.qps, request.qp_mode))
    if chooses_ports:
        for path, job in zip(request.jobs, jobs, strict=True):
            check_leaves_ports(path, job, request.enforcement)
    _check_protocols(request.jobs, expanded)
    traffic = combine(expanded, fabric.tenants)
    if not traffic.n_flows:
        raise InputError("no job sends data over the network", field="--job")
    for path, own in zip(request.jobs, expanded, strict=True):
        if any(row.waits.until is not None for row in own.collectives):
            reason = "hosts of an experiment end each phase with its own collectives"
            raise InputError(reason, field="until", source=str(path))
        if request.learn and has_order(own.collectives):
            reason = "what learning is compared with are jobs that send when they have computed"
            raise InputError(reason, field="overlap", source=str(path))
    documents = tuple(read_document(path) for path in request.jobs)
    iterations = _iterations(request, jobs, timed=has_times(traffic))
    return EmulatedScenario(request, fabric, tuple(jobs), documents, traffic, _draws(request), iterations)


def _iterations(request: ExperimentRequest, jobs: Sequence[Job], *, timed: bool) -> dict[str, int]:
    usual = max(map(LEARNING_ITERATIONS.__getitem__, request.feeders)) if request.learn else ITERATIONS if timed else 1
    if request.replans:
        # The jobs are ended when all plans are made.
        usual = min(MAX_ITERATIONS, REPLAN_ITERATIONS * (request.replans + 4))
    given = request.iterations or (usual,)
    for number in given:
        if not 1 <= number <= MAX_ITERATIONS:
            raise InputError(f"1 to {MAX_ITERATIONS}", field="--iterations", value=number)
    each = given * len(jobs) if len(given) == 1 else given
    return {job.name: number for job, number in zip(jobs, each, strict=True)}


def _check_feeders(request: ExperimentRequest) -> None:
    for i, feeder in enumerate(request.feeders):
        if feeder not in FEEDERS:
            raise InputError(f"must be one of {', '.join(FEEDERS)}", field="--learn", value=feeder)
        if feeder in request.feeders[:i]:
            raise InputError("this feeder is listed twice", field="--learn", value=feeder)
    if not 0 <= request.replans <= MAX_REPLANS:
        raise InputError(f"0 to {MAX_REPLANS}", field="--replans", value=request.replans)
    if request.replans and len(request.feeders) != 1:
        raise InputError("one feeder is needed: learned jobs are planned anew", field="--learn", value=request.learn)


def check_switches(request: ExperimentRequest, fabric: Fabric) -> None:
    """Check that the enforcement is one for the switches of the fabric, and that routers can do what is asked for.

    Raises:
        InputError: the option that does not fit.
    """
    chosen = ENFORCEMENTS.named(request.enforcement)
    by_hosts = chosen.by_hosts
    if not fabric.routers:
        if by_hosts or chosen.needs_routers:
            reason = (
                "needs a fabric of routers, such as examples/routers-4x4x4.yaml, whose links count flows in carriers"
            )
            raise InputError(reason, field="--enforcement", value=request.enforcement)
        return
    if len(fabric.routers) < len(fabric.switches):
        raise InputError("has both routers and OpenFlow switches", field="--fabric", value=str(request.fabric))
    if not by_hosts:
        reason = f"the switches are routers; needs one of {', '.join(host_enforcements())}"
        raise InputError(reason, field="--enforcement", value=request.enforcement)
    if request.learn:
        raise InputError("routers do not count flows for the controller", field="--learn", value=request.learn)
    looping = [policy for policy in request.policies if Draw(policy, 0).loop]
    if looping:
        raise InputError("routers do not count flows for the loop", field="--policies", value=looping[0])


def _check_protocols(paths: Sequence[Path], jobs: Sequence[JobTraffic]) -> None:
    """Refuse flows of other protocols than RoCEv2, which hosts of experiments do not send."""
    for path, each in zip(paths, jobs, strict=True):
        other = np.flatnonzero(~is_roce(each.udp_src))
        if len(other):
            reason = f"hosts of experiments send RoCEv2, and {each.flow_id(int(other[0]))} is of another protocol"
            protocol = flow_ports(int(each.udp_src[other[0]])).protocol
            raise InputError(reason, field="protocol", value=protocol).with_source(str(path))


def check_name(name: str) -> None:
    """Check a name of files that are written.

    Raises:
        InputError: it has other characters than letters, digits, '.', '_' and '-', or begins with a dot.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name):
        raise InputError("a name must consist of letters, digits, '.', '_' and '-'", field="--name", value=name)


def check_leaves_ports(path: Path, job: Job, enforcement: str) -> None:
    """Check that a job of a file leaves its ports to the controller.

    Raises:
        InputError: it does not; with the file.
    """
    try:
        check_free(job, enforcement)
    except InputError as error:
        raise error.with_source(str(path)) from None


def _check_policies(names: Sequence[str]) -> None:
    supported = ", ".join((*enforceable(), *(f"{HEDERA}{placement}" for placement in estimating())))
    for i, name in enumerate(names):
        draw = Draw(name, 0)
        if draw.routing not in POLICIES:
            unknown = f"no policy has this name; the supported policies are {supported}"
            raise InputError(POLICIES.failures().get(draw.routing, unknown), field="--policies", value=name)
        if draw.advised and (draw.loop or draw.routing not in advising()):
            raise InputError(f"only {', '.join(advising())} advises shifts", field="--policies", value=name)
        if draw.paced and draw.loop:
            raise InputError("no plan of Hedera's loop has paces", field="--policies", value=name)
        if draw.routing not in (estimating() if draw.loop else enforceable()):
            reason = f"switches cannot follow it; the supported policies are {supported}"
            raise InputError(reason, field="--policies", value=name)
        if name in names[:i]:
            raise InputError("this policy is listed twice", field="--policies", value=name)
    if not names:
        raise InputError("at least one policy is needed", field="--policies")


def _draws(request: ExperimentRequest) -> tuple[Draw, ...]:
    return tuple(
        Draw(policy, seed)
        for policy in request.policies
        for seed in (request.seeds if _draws_lots(Draw(policy, 0)) else request.seeds[:1])
    )


def _draws_lots(draw: Draw) -> bool:
    """Return whether every seed is another draw: flows of Hedera's loop are hashed at first."""
    return draw.loop or draws(draw.routing)


def _check_loop(request: ExperimentRequest, *, chooses_ports: bool) -> None:
    """Check what Hedera's loop needs."""
    if request.period is not None and not 0.1 <= request.period <= 60:
        raise InputError("0.1 to 60", field="--period", value=request.period)
    looping = [policy for policy in request.policies if Draw(policy, 0).loop]
    if not looping:
        return
    if chooses_ports:
        raise InputError(f"{looping[0]}: ports that hosts choose cannot be steered", field="--enforcement")
    if request.learn:
        raise InputError("no flow is learned under it", field="--policies", value=looping[0])
