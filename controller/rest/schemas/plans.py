"""The newest plan."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.core.ports.api import Under
from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Bytes, Document, Epoch, Gbps, Seconds, Share, Speed, UdpPort


class PlanState(Document):
    """A plan's number, and since when it has been computed or active."""

    epoch: Annotated[int, Field(ge=0)]
    since: AwareDatetime


class PlanLevel(Document):
    """One step of the sorted levels, what is proved about the best possible one, and how many collectives share it."""

    level: float
    bound: float | None
    collectives: Annotated[int, Field(ge=1)]


class PlanCollective(Document):
    """How fast one collective is. A collective without flows on the network has no speed."""

    job: str
    name: str
    speed: Speed | None
    ideal_seconds: Seconds | None
    seconds: Seconds | None
    slowdown: Annotated[float, Field(ge=0)] | None = Field(description="against the healthy fabric")
    period_seconds: Seconds | None = Field(None, description="expected iteration of its job; null: no job states times")
    duty: Share | None = Field(None, description="the part of it in which the collectives of its phase are sent")


class PlanPath(Document):
    """The share of a flow that takes one path, and the path's links in order."""

    share: Share
    links: list[str]


class PlanFlow(Document):
    """One flow and its paths; none where it is unroutable."""

    id: str
    job: str
    collective: str
    src: str
    dst: str
    bytes: Bytes
    udp_src: UdpPort | None = Field(
        None, description="the flow's own port (/v1/routes has those to send from); null where it is unknown"
    )
    paths: list[PlanPath]


class PlanLink(Document):
    """The load of a directed link at the plan's speeds."""

    id: str
    gbps: Gbps
    load_gbps: Gbps


class ExpectedIteration(Document):
    """Expected iterations of a job; ``duty`` is the part of them in which it sends."""

    compute_seconds: Seconds
    alone_seconds: Seconds
    iteration_seconds: Seconds
    slowdown: Annotated[float, Field(ge=1)] = Field(description="against an iteration alone")
    duty: Share


class JobTimes(ExpectedIteration):
    """Expected iterations of the job of this name."""

    job: str


class ExpectedSlowdown(Document):
    """Expected iteration time over that alone; no plan and no schedule is below ``bound``."""

    slowdown: Annotated[float, Field(ge=1)] = Field(description="mean over jobs by weight")
    bound: Annotated[float, Field(ge=1)]
    gap: float


class PlanTimes(ExpectedSlowdown):
    """Expected iterations, if some job states its times."""

    jobs: list[JobTimes]


class JobShift(Document):
    """When the iterations of one job begin: at ``shift_seconds`` + k * ``period_seconds`` of a clock that jobs share.

    With ``hold``, each iteration waits for the grid time nearest to the end of the one before, if that is ahead.
    """

    job: str
    period_seconds: Annotated[float, Field(gt=0)]
    shift_seconds: Seconds
    hold: bool
    iteration_seconds: Seconds = Field(description="mean, if all jobs of the schedule follow it")
    compatibility: Share = Field(description="the part of the sending time in which the job sends as fast as alone")


class Schedule(Document):
    """When jobs' iterations begin, if this is advised (``shifts=advise``) and some job says how it computes."""

    slowdown: Annotated[float, Field(ge=1)] = Field(description="mean over jobs by weight")
    bound: Annotated[float, Field(ge=1)] = Field(description="of any paths, splits and shifts")
    gap: float
    jobs: list[JobShift]


class ScheduleDocument(Document):
    """The schedule of the newest plan."""

    epoch: Epoch
    schedule: Schedule | None


class JobShiftDocument(Document):
    """The part of one job in the schedule of the newest plan; ``shift`` is null if the job has none."""

    epoch: Epoch
    shift: JobShift | None


class Plan(Document):
    """What ``fairspine plan --format json`` prints, too."""

    policy: str
    seconds: Seconds = Field(description="the policy's own time")
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    levels: list[PlanLevel]
    times: PlanTimes | None = None
    schedule: Schedule | None = None
    unroutable: list[str] = Field(description="ids of flows that no live path joins")
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
    links: list[PlanLink]


class Alternative(Document):
    """Another enforcement of the same plan, and how many rules the switch would hold then."""

    enforcement: Enforcement
    rules: Annotated[int, Field(ge=0)]


class PlanRefusal(Document):
    """A switch that does not take the newest plan.

    Meanwhile switches hold the planned rules of the former plan and the newest base rules.
    """

    epoch: Annotated[int, Field(ge=0)]
    switch: str
    kind: Literal["table full", "groups full", "bad group", "overlap", "bad port", "refused"]
    table: int | None = Field(description="null where groups were refused")
    short: Annotated[int, Field(ge=0)] | None = Field(description="rules (or groups) for which there is no room")
    text: str
    next_try: AwareDatetime | None = Field(None, description="when it is tried again; null: it is being tried now")
    bare: list[str] = Field([], description="switches that hold base rules alone meanwhile")
    instead: list[Alternative] = Field(description="what would need fewer rules there, fewest first")


class PlanDocument(Document):
    """The newest plan, and which one the switches enforce: ``active``: every connected switch has confirmed it.

    In mode ``ecmp`` the plan is computed and not enforced; in mode ``frozen`` the switches keep an older one.
    """

    mode: Mode
    enforcement: Enforcement
    computed: PlanState
    active: PlanState | None
    waits_for: list[str] = Field([], description="connected switches that do not have the newest rules")
    refused: PlanRefusal | None = None
    under: Under = Field("plan", description="ecmp: plan is what hashing would make of the same traffic, asked for so")
    plan: Plan
