"""The newest plan."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.model.enforcement import Enforcement
from controller.rest.backend import Mode, Under
from controller.rest.schemas.base import Bytes, Document, Gbps, Seconds, Share, Speed, UdpPort


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
    unroutable: list[str] = Field(description="ids of flows that no live path joins")
    collectives: list[PlanCollective]
    flows: list[PlanFlow]
    links: list[PlanLink]


class Alternative(Document):
    """Another enforcement of the same plan, and how many rules the switch would hold then."""

    enforcement: Enforcement
    rules: Annotated[int, Field(ge=0)]


class PlanRefusal(Document):
    """A switch that does not take the newest plan: all switches have gone back to the former one, if there is any."""

    epoch: Annotated[int, Field(ge=0)]
    switch: str
    kind: Literal["table full", "groups full", "bad group", "overlap", "bad port", "refused"]
    table: int | None = Field(description="null where groups were refused")
    short: Annotated[int, Field(ge=0)] | None = Field(description="rules (or groups) for which there is no room")
    text: str
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
