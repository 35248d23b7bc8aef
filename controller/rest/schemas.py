"""The documents that the HTTP interface answers with.

Units: bytes, Gbit/s, seconds, as everywhere; times of day are UTC (RFC 3339). ``None`` means not known or not
applicable, never zero. An *epoch* is the number of a plan, counted up by the controller.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Bytes = Annotated[int, Field(ge=0)]
Gbps = Annotated[float, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Speed = Annotated[float, Field(ge=0, description="ideal time alone over time under the plan")]
UdpPort = Annotated[int, Field(ge=1, le=65535)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(BaseModel):
    """Problem details (RFC 9457). Further members depend on the type."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    detail: str
    instance: str | None = None
    field: str | None = Field(None, description="the field, parameter or path variable that cannot be used")
    value: Any = Field(None, description="its value as sent, shortened")


# -- plans -------------------------------------------------------------------------------------------------------


class PlanState(_Document):
    """A plan's number, and since when it has been computed or active."""

    epoch: Annotated[int, Field(ge=0)]
    since: AwareDatetime


class PlanLevel(_Document):
    """One step of the sorted levels, what is proved about the best possible one, and how many collectives share it."""

    level: float
    bound: float | None
    collectives: Annotated[int, Field(ge=1)]


class PlanCollective(_Document):
    """How fast one collective is. A collective without flows on the network has no speed."""

    job: str
    name: str
    speed: Speed | None
    ideal_seconds: Seconds | None
    seconds: Seconds | None
    slowdown: Annotated[float, Field(ge=0)] | None = Field(description="against the healthy fabric")


class PlanPath(_Document):
    """The share of a flow that takes one path, and the path's links in order."""

    share: Share
    links: list[str]


class PlanFlow(_Document):
    """One flow and its paths; none where it is unroutable."""

    id: str
    job: str
    collective: str
    src: str
    dst: str
    bytes: Bytes
    udp_src: UdpPort | None = Field(None, description="null where the job keeps its ports unknown")
    paths: list[PlanPath]


class PlanLink(_Document):
    """The load of a directed link at the plan's speeds."""

    id: str
    gbps: Gbps
    load_gbps: Gbps


class Plan(_Document):
    """What ``fairspine plan --format json`` prints, too."""

    policy: str
    seconds: Seconds = Field(description="the policy's own time")
    min_speed: float
    min_level: float
    bound_split: float | None
    bound_single: float | None
    gap: float | None
    levels: list[PlanLevel]
    unroutable: list[str] = Field(description="ids of flows that no live path joins")
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
    links: list[PlanLink]


class PlanDocument(_Document):
    """The newest plan, and which one the switches enforce: ``active``: every connected switch has confirmed it."""

    computed: PlanState
    active: PlanState | None
    plan: Plan


# -- jobs --------------------------------------------------------------------------------------------------------


class JobSummary(_Document):
    """A job without its flows."""

    name: str
    weight: Annotated[float, Field(gt=0)]
    collectives: Annotated[int, Field(ge=0)]
    flows: Annotated[int, Field(ge=0)]
    bytes: Bytes
    min_speed: Speed | None = Field(description="its slowest collective; null where none is on the network")
    active: bool = Field(description="whether the switches enforce its present plan")


class JobList(_Document):
    """All jobs, by name."""

    jobs: list[JobSummary]


class JobDocument(_Document):
    """A job with its part of the plan of that epoch. ``active``: the switches enforce it."""

    name: str
    weight: Annotated[float, Field(gt=0)]
    bytes: Bytes
    min_speed: Speed | None
    epoch: Annotated[int, Field(ge=0)]
    active: bool
    unroutable: list[str]
    collectives: list[PlanCollective]
    flows: list[PlanFlow]


# -- the fabric --------------------------------------------------------------------------------------------------


class FabricSwitch(_Document):
    """A switch, and whether it is connected to this controller."""

    name: str
    role: Literal["leaf", "spine"]
    dpid: Annotated[int, Field(ge=0)]
    connected: bool


class FabricHost(_Document):
    """A host's NIC. ``port``: the leaf's OpenFlow port, null while nobody knows it."""

    name: str
    leaf: str
    gbps: Gbps
    ip: str
    mac: str
    server: str
    rail: int
    port: int | None
    up: bool


class FabricCable(_Document):
    """A leaf-spine cable: ``a`` is the leaf, ``b`` the spine."""

    id: str
    a: str
    b: str
    gbps: Gbps
    up: bool
    a_port: int | None
    b_port: int | None


class CablingFinding(_Document):
    """One difference between the network and what it is meant to be."""

    kind: str
    subject: str
    text: str


class Cabling(_Document):
    """The cabling check. ``matches`` is null where no fabric file says what is meant."""

    matches: bool | None
    findings: list[CablingFinding]
    hosts_unplaced: list[str] = Field(description="hosts whose switch port is not known yet")


class FabricDocument(_Document):
    """The fabric as it is now."""

    source: Literal["file", "discovery"]
    version: str
    switches: list[FabricSwitch]
    hosts: list[FabricHost]
    links: list[FabricCable]
    cabling: Cabling


class LinkState(PlanLink):
    """A directed link. ``load_gbps`` is that of the newest plan, 0 without jobs."""

    up: bool


class LinkList(_Document):
    """Every directed link, hosts' first."""

    links: list[LinkState]


# -- hosts' agents -----------------------------------------------------------------------------------------------


class RoutePiece(_Document):
    """One path of a flow."""

    path: str | None = Field(description="the path's class, such as spine2; null within one leaf")
    share: Share
    rate_gbps: Gbps = Field(description="this piece's part of the rate that the plan gives the flow")
    links: list[str]
    labels: list[Annotated[int, Field(ge=16, lt=2**20)]] = Field(
        description="MPLS labels, outermost first, that carry a packet along the path; empty without segment routing"
    )
    udp_src: UdpPort | None = Field(description="source port to send from; null where the job keeps its ports unknown")


class RouteFlow(_Document):
    """A flow that the host sends. Its destination port is RoCE's, 4791."""

    id: str
    dst: str
    dst_ip: str
    bytes: Bytes
    pieces: list[RoutePiece]


class Routes(_Document):
    """All flows that a host sends, under the plan of that epoch."""

    host: str
    ip: str
    epoch: Annotated[int, Field(ge=0)]
    flows: list[RouteFlow]


# -- the controller ----------------------------------------------------------------------------------------------


class SwitchCount(_Document):
    """``expected`` is null where no fabric file says how many there should be."""

    connected: Annotated[int, Field(ge=0)]
    expected: Annotated[int, Field(ge=0)] | None


class Health(_Document):
    """Whether the controller does its work; ``reasons`` says in words why not.

    The answer's status is 200 in all three states, because the controller itself is alive: a watchdog that restarts
    it would not bring a switch back.
    """

    status: Literal["ok", "starting", "degraded"]
    reasons: list[str]
    version: str
    switches: SwitchCount
    jobs: Annotated[int, Field(ge=0)]
    flows: Annotated[int, Field(ge=0)]
