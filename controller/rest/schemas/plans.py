"""The newest plan."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.core.ports.api import Under
from controller.model.choices.enforcement import Mode
from controller.rest.schemas.base import (
    CLASS,
    PACE_TEXT,
    WIRE_TEXT,
    AnyClass,
    Bytes,
    Count,
    Document,
    EnforcementName,
    Epoch,
    FlowProtocol,
    Gbps,
    Mtu,
    PlaneNumber,
    PriorityClass,
    Seconds,
    Share,
    Speed,
    UdpPort,
)


class PlanState(Document):
    """The number of a plan, and the time since when it has been computed or active."""

    epoch: Annotated[int, Field(ge=0)]
    since: AwareDatetime


class PlanLevel(Document):
    """One step of the sorted levels, its proved bound, and the number of collectives (or rounds) at this level."""

    level: float
    bound: float | None
    collectives: Annotated[int, Field(ge=1)]


class TenantRow(Document):
    """What the jobs of a tenant get. ``jobs``: those that send something; ``bytes``: of one run of all collectives."""

    name: str
    weight: Annotated[float, Field(gt=0)]
    jobs: Count
    flows: Count
    bytes: Bytes
    min_speed: Speed | None = Field(description="of its slowest collective; null where none is on the network")
    slowdown: Annotated[float, Field(ge=1)] | None = Field(
        description="expected iteration time over that alone, mean over its jobs by weight; null if no job states times"
    )


TENANTS = Field(None, description="on fabrics with tenants; missing on others")


class PlanCollective(Document):
    """The speed of one collective. A collective without flows on the network has no speed."""

    job: str
    name: str
    speed: Speed | None
    ideal_seconds: Seconds | None
    seconds: Seconds | None
    slowdown: Annotated[float, Field(ge=0)] | None = Field(
        description="seconds divided by the ideal time on the healthy fabric"
    )
    period_seconds: Seconds | None = Field(
        None, description="expected iteration time of its job; null if no job states its times"
    )
    duty: Share | None = Field(
        None, description="fraction of the iteration in which the collectives of its phase are sent"
    )
    binds: Share | None = Field(
        None,
        description="fraction of iterations in which a longer time of it makes its phase longer; only of jobs that "
        "state what collectives wait for, of which 'duty' is that of the collective itself",
    )
    slack_seconds: Seconds | None = Field(
        None, description="by how much it could end later without a longer phase, on average; of the same jobs only"
    )
    priority: PriorityClass | None = CLASS


class PlanPath(Document):
    """The share of a flow that takes one path, and the path's links in order."""

    share: Share
    links: list[str]
    pace_gbps: Gbps | None = Field(None, description=PACE_TEXT)
    wire_gbps: Gbps | None = Field(None, description=WIRE_TEXT)


class PlanFlow(FlowProtocol):
    """One flow and its paths; an unroutable flow has none."""

    id: str
    job: str
    collective: str
    src: str
    dst: str
    bytes: Bytes
    udp_src: UdpPort | None = Field(
        None, description="source port of the flow (/v1/routes has the ports of its pieces); null if it is unknown"
    )
    paths: list[PlanPath]


class PlanLink(Document):
    """The load of a directed link at the speeds of the plan. ``plane``: null where NICs have one port."""

    id: str
    plane: PlaneNumber | None = None
    gbps: Gbps
    load_gbps: Gbps


class ExpectedIteration(Document):
    """Expected iterations of a job; ``duty`` is the fraction of the time in which it sends."""

    compute_seconds: Seconds
    alone_seconds: Seconds
    iteration_seconds: Seconds
    slowdown: Annotated[float, Field(ge=1)] = Field(description="iteration time divided by that of the job alone")
    duty: Share


class JobTimes(ExpectedIteration):
    """Expected iterations of the job of this name."""

    job: str


class ExpectedSlowdown(Document):
    """Expected iteration time divided by that alone; ``bound`` is a lower bound for any plan and schedule."""

    slowdown: Annotated[float, Field(ge=1)] = Field(description="weighted mean over jobs")
    bound: Annotated[float, Field(ge=1)]
    gap: float


class PlanTimes(ExpectedSlowdown):
    """Expected iterations, if at least one job states its computing times."""

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

    slowdown: Annotated[float, Field(ge=1)] = Field(description="weighted mean over jobs")
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


class ChosenClass(Document):
    """The class of priority that the policy chose for the packets of a job."""

    job: str
    priority: AnyClass = Field(alias="class")


class StarvedClass(Document):
    """A class of priority that has only its floor on a link; ``work``: the part of the time that higher ones need."""

    link: str
    priority: AnyClass = Field(alias="class")
    work: Annotated[float, Field(ge=0)]


class Plan(Document):
    """A plan, in the form of ``fairspine plan --format json``."""

    policy: str
    seconds: Seconds = Field(description="computing time of the policy")
    min_speed: float = Field(description="of the slowest collective; 0 if some flow has no path")
    min_level: float = Field(description="of the collectives whose flows all have a path, as the bounds and the gap")
    ideal_within: float | None = Field(
        0.0, description="by what part an ideal time may be longer, at most; 0: all are exact, null: unknown"
    )
    bound_split: float | None
    bound_split_exact: bool = Field(True, description="whether some way to split flows reaches bound_split")
    bound_single: float | None
    gap: float | None
    levels: list[PlanLevel]
    times: PlanTimes | None = None
    schedule: Schedule | None = None
    classes: list[ChosenClass] | None = Field(
        None, description="of all jobs that the policy gave one (classes=Q); missing if it chose none"
    )
    starved: list[StarvedClass] | None = Field(
        None, description="classes that starve on links, most work first; missing if none does"
    )
    mtu: Mtu | None = Field(None, description="for which wire_gbps holds; null: no flow is paced in this mode")
    tenants: list[TenantRow] | None = TENANTS
    unroutable: list[str] = Field(description="ids of flows without a live path")
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
    links: list[PlanLink]


class Alternative(Document):
    """Another enforcement of the same plan, and the number of rules that the switch would need."""

    enforcement: EnforcementName
    rules: Annotated[int, Field(ge=0)]


class PlanRefusal(Document):
    """A switch that refuses the newest plan.

    Until it accepts the plan, switches hold the planned rules of the previous plan and the newest base rules.
    """

    epoch: Annotated[int, Field(ge=0)]
    switch: str
    kind: Literal["table full", "groups full", "bad group", "overlap", "bad port", "refused"]
    table: int | None = Field(description="null if groups were refused")
    short: Annotated[int, Field(ge=0)] | None = Field(
        description="number of rules (or groups) for which there is no room"
    )
    text: str
    next_try: AwareDatetime | None = Field(
        None, description="time of the next attempt; null: an attempt is in progress"
    )
    bare: list[str] = Field([], description="switches that have only base rules until then")
    instead: list[Alternative] = Field(description="enforcements that need fewer rules on this switch, fewest first")


class PlanDocument(Document):
    """The newest plan, and the active one, which every connected switch has confirmed.

    In mode ``ecmp`` the plan is computed but not enforced; in mode ``frozen`` the switches enforce an older one.
    """

    mode: Mode
    enforcement: EnforcementName
    computed: PlanState
    active: PlanState | None
    waits_for: list[str] = Field([], description="connected switches without the newest rules")
    refused: PlanRefusal | None = None
    under: Under = Field("plan", description="ecmp: the plan has the paths of ECMP hashing for the same traffic")
    plan: Plan
