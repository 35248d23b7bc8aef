"""Requests to train on an emulated fabric: files and numbers, checked before anything is created."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from controller.config import Settings
from controller.model.choices.enforcement import DEFAULT_ENFORCEMENT
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import load_fabric, read_document
from controller.model.job import Job
from controller.model.packets.flow_ports import is_roce
from controller.model.traffic import Traffic
from controller.planning.make_plan import make_plan
from controller.routing import enforceable
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.workload.expand import combine
from controller.workload.load import load_jobs
from emulation.experiments.request import (
    Draw,
    EmulatedScenario,
    ExperimentRequest,
    check_leaves_ports,
    check_name,
    check_switches,
)
from emulation.experiments.scale import SLOWEST_MBPS, Scale, phase_sums
from emulation.rates import MAX_MBPS
from emulation.training.memory import too_little
from emulation.training.ranks import TrainingJob
from emulation.training.scripts import script_of
from emulation.training.tcp_library import LIBRARY

HASHED = "ecmp"
"""The policy under which no job is pushed: switches hash each connection by its 5-tuple."""

LEARNED = "learned"
"""The name of launches in which no job is pushed, and the controller learns and plans them while they train."""

FEEDERS = ("", "host")

MAX_LAUNCHES, MAX_STEPS = 20, 10_000
LEAST_STEPS = 3
"""The first one compiles, and the last one may end after those of other jobs."""

LINK_MBPS = 20.0
"""As much as two cores carry beside sixteen ranks."""


@dataclass(frozen=True)
class TrainingRequest:
    """A request to train.

    Attributes:
        jobs: files of jobs; each rank of a job is started on its host.
        scripts: a training script with its arguments, as in a shell, for all jobs, or one for each.
        policies: in the order in which they run; speed-ups are over the first one. ``HASHED``: nothing is pushed.
        launches: of ``HASHED``, whose paths depend on the ports that connections get. Plans are launched once.
        steps: that each job takes; with ``learn``, from then on when the network follows the plan.
        link_mbps: rate of the fastest link.
        learn: ``host``: launch once more, with no job pushed and plans by the first policy but ``HASHED`` for what
            hosts say of their connections; empty: do not.
        out, name, expect_faster: as for ``ExperimentRequest``.
    """

    fabric: Path
    jobs: tuple[Path, ...]
    scripts: tuple[str, ...]
    policies: tuple[str, ...] = (HASHED, Settings.policy)
    enforcement: str = DEFAULT_ENFORCEMENT
    launches: int = 3
    steps: int = 12
    link_mbps: float = LINK_MBPS
    learn: str = ""
    out: Path = Path("out")
    name: str = "training"
    expect_faster: bool = False

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps({**asdict(self), "fabric": str(self.fabric), "jobs": list(map(str, self.jobs))}, default=str)

    @staticmethod
    def from_json(text: str) -> TrainingRequest:
        """Return the request that ``to_json`` encoded."""
        values = json.loads(text)
        paths = {"fabric": Path(values["fabric"]), "out": Path(values["out"]), "jobs": tuple(map(Path, values["jobs"]))}
        lists = {name: tuple(values[name]) for name in ("scripts", "policies")}
        return TrainingRequest(**{**values, **paths, **lists})


@dataclass(frozen=True, eq=False)
class TrainingScenario:
    """A request with its files read and its values checked.

    Attributes:
        emulated: the same for the network of an experiment.
        jobs: to start.
        ideal: by job, the seconds of its communication in one step if it was alone on the emulated fabric, without
            headers.
    """

    request: TrainingRequest
    emulated: EmulatedScenario
    jobs: tuple[TrainingJob, ...]
    ideal: Mapping[str, float] = field(default_factory=dict)

    @property
    def arms(self) -> tuple[str, ...]:
        """What is compared: the policies, and ``LEARNED`` if it is asked for."""
        return (*self.request.policies, *([LEARNED] if self.request.learn else ()))

    @property
    def hosts_choose_ports(self) -> bool:
        """Whether agents choose the source ports of connections, so that ranks load a library that asks them."""
        return ENFORCEMENTS.named(self.request.enforcement).tcp_by_hosts

    @property
    def scale(self) -> Scale:
        """Rates of links; jobs send as many bytes as they state."""
        return Scale(self.request.link_mbps / float(self.emulated.fabric.link_gbps.max()), 1.0)


def load(request: TrainingRequest) -> TrainingScenario:
    """Read the files and check everything that can be checked without a network.

    Raises:
        InputError: the first thing that is wrong, with the file or the option it is in; also if scripts cannot run
            here, or the machine has too little memory for all ranks.
    """
    _check_numbers(request)
    fabric = load_fabric(request.fabric)
    experiment = ExperimentRequest(
        fabric=request.fabric,
        jobs=request.jobs,
        policies=request.policies,
        enforcement=request.enforcement,
        seeds=(1,),
        link_mbps=request.link_mbps,
        out=request.out,
        name=request.name,
    )
    enforcement = ENFORCEMENTS.named(request.enforcement, field="--enforcement")
    chooses_ports = enforcement.chooses_ports
    if chooses_ports and request.learn:
        raise InputError(f"learned jobs are not planned under {request.enforcement}", field="--learn")
    if enforcement.tcp_by_hosts and not LIBRARY.exists():
        raise InputError(f"{LIBRARY} is missing: make tcp", field="--enforcement", value=request.enforcement)
    check_switches(experiment, fabric)
    if fabric.planes.ports.shape[1] > 1:
        raise InputError("frameworks use one port of a NIC, and NICs of this fabric have several", field="--fabric")
    jobs, expanded = load_jobs(fabric, request.jobs)
    for path, job, flows in zip(request.jobs, jobs, expanded, strict=True):
        if chooses_ports:
            check_leaves_ports(path, job, request.enforcement)
        roce = np.flatnonzero(is_roce(flows.udp_src))
        if len(roce):
            reason = f"frameworks send TCP here, and {flows.flow_id(int(roce[0]))} is RoCEv2: state protocol tcp"
            raise InputError(reason, field="protocol", value="roce").with_source(str(path))
    traffic = combine(expanded, fabric.tenants)
    if not traffic.n_flows:
        raise InputError("no job sends data over the network", field="--job")
    started = _jobs(request, jobs)
    lacking = too_little(sum(len(job.hosts) for job in started))
    if lacking:
        raise InputError(lacking, field="--job", value=", ".join(map(str, request.jobs)))
    draws = tuple(Draw(policy, 1) for policy in request.policies)
    documents = tuple(read_document(path) for path in request.jobs)
    steps = {job.name: request.steps for job in jobs}
    emulated = EmulatedScenario(experiment, fabric, tuple(jobs), documents, traffic, draws, steps)
    scenario = TrainingScenario(request, emulated, started)
    return TrainingScenario(request, emulated, started, _ideal(fabric, traffic, scenario.scale))


def _check_numbers(request: TrainingRequest) -> None:
    check_name(request.name)
    for number, policy in enumerate(request.policies):
        if policy not in enforceable():
            raise InputError(f"must be one of {', '.join(enforceable())}", field="--policies", value=policy)
        if policy in request.policies[:number]:
            raise InputError("this policy is listed twice", field="--policies", value=policy)
    if not request.jobs:
        raise InputError("at least one job is needed", field="--job")
    if len(request.scripts) not in (1, len(request.jobs)):
        raise InputError(f"1 or {len(request.jobs)} are needed", field="--script", value=len(request.scripts))
    if not 1 <= request.launches <= MAX_LAUNCHES:
        raise InputError(f"1 to {MAX_LAUNCHES}", field="--launches", value=request.launches)
    if not LEAST_STEPS <= request.steps <= MAX_STEPS:
        raise InputError(f"{LEAST_STEPS} to {MAX_STEPS}", field="--steps", value=request.steps)
    if request.learn not in FEEDERS:
        raise InputError("must be host", field="--learn", value=request.learn)
    if request.learn and set(request.policies) <= {HASHED}:
        raise InputError("needs a policy for what is learned", field="--policies", value=", ".join(request.policies))
    if not SLOWEST_MBPS <= request.link_mbps <= MAX_MBPS:
        raise InputError(f"{SLOWEST_MBPS:g} to {MAX_MBPS:g}", field="--link-mbps", value=request.link_mbps)


def _jobs(request: TrainingRequest, jobs: Sequence[Job]) -> tuple[TrainingJob, ...]:
    scripts = [script_of(script) for script in request.scripts]
    each = scripts * len(jobs) if len(scripts) == 1 else scripts
    return tuple(TrainingJob(job.name, job.hosts, script) for job, script in zip(jobs, each, strict=True))


def _ideal(fabric: Fabric, traffic: Traffic, scale: Scale) -> dict[str, float]:
    """Return the ideal seconds of each job: the sum over its phases."""
    plan = make_plan(fabric, traffic, policy="greedy", clock=time.perf_counter)
    if len(plan.unroutable):
        raise InputError(f"{traffic.flow_id(int(plan.unroutable[0]))} has no live path", field="--fabric")
    return {job: seconds / scale.rate for job, seconds in phase_sums(traffic, plan.objective.ideal_seconds).items()}
