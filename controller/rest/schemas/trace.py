"""Traces of the real paths of flows."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.model.choices.enforcement import Mode
from controller.model.texts.text_form import text_form
from controller.rest.schemas.base import (
    AnyDscp,
    Bytes,
    Count,
    Document,
    EnforcementName,
    Epoch,
    FlowProtocol,
    Gbps,
    PlaneNumber,
    Seconds,
    Share,
    UdpPort,
)

Layer = Literal[
    "uplinks", "downlinks", "leaf uplinks", "aggregation uplinks", "aggregation downlinks", "leaf downlinks"
]


class TraceSegment(Document):
    """An id in the address that packets carry, and the switch or host that consumes it."""

    id: Annotated[str, text_form(r"^[0-9a-f]{4}$", "4 hexadecimal digits")]
    node: str


class TraceSegments(Document):
    """The address that hosts write into packets of a path, and its ids in the order in which nodes consume them."""

    carrier: str
    ids: list[TraceSegment]


class TraceFlow(FlowProtocol):
    """One flow, or one piece of a split flow."""

    id: str
    piece: Count = Field(description="number of the piece; 0 if the flow is not split")
    job: str
    collective: str
    src: str
    dst: str
    src_rank: Count | None = Field(description="null if the job has no ranks")
    dst_rank: Count | None
    plane: PlaneNumber | None = Field(None, description="the plane of its ports; null where NICs have one port")
    udp_src: UdpPort | None
    share: Share
    planned: list[str] | None = Field(description="links; null if no live path connects the leaves")
    real: list[str] | None = Field(description="links; null if they are not known, or the flow does not arrive")
    how: Literal["rules", "counters", "capture", "probes", "samples", "plan", "given", "none"] = Field(
        description="source of the real path: the rules of the switches; for hashed flows, port counters or captured "
        "packets; probes of hosts with its source port, or samples of routers; the plan; a file; or none"
    )
    sure: Annotated[float, Field(ge=0, le=1)] = Field(
        description="confidence: the fraction of all placements of the leaf's flows that explain its counters and "
        "have the flow on this path"
    )
    differs: bool = Field(
        description="true if the flow is not on its planned path, or (mode planned) has no rule for it"
    )
    arrives: bool | None = Field(
        None, description="whether its packets arrive by the rules of the switches; null: not known, or hashing decides"
    )
    why: str = Field(description="the reason why the flow is not known to be on its planned path; else empty")
    segments: TraceSegments | None = Field(
        None, description="of packets on the planned path; null where these carry no segment ids"
    )
    dscp: AnyDscp | None = Field(
        None, description="DSCP that the rules of switches write into its packets; missing where they write none"
    )
    bytes: Bytes | None = Field(description="bytes in one run of its collective; null if unknown")
    rate_gbps: Gbps | None = Field(
        description="counted by the rule of the flow, between two traces or two polls; null without such a rule"
    )


class TraceMeasures(Document):
    """The imbalance of a layer; 0, 1 and 0 if all links carry the same load."""

    fim: Annotated[float, Field(ge=0)] = Field(description="flow imbalance metric: mean of |n - mean| / mean")
    max_over_mean: Annotated[float, Field(ge=1)]
    cv: Annotated[float, Field(ge=0)] = Field(description="coefficient of variation")


class TraceLayer(Document):
    """The imbalance over the live links of a layer, by number of flows and by bytes."""

    layer: Layer
    links: Count
    flows: TraceMeasures | None = Field(description="null where the path of some flow is not known")
    bytes: TraceMeasures | None = Field(description="null where the path or the bytes of some flow are not known")


class TracePlaneLayer(TraceLayer):
    """The imbalance over the live links of a layer within one plane."""

    plane: PlaneNumber


class TraceLink(Document):
    """A live link between two switches, with its flows. ``plane``: null where NICs have one port."""

    id: str
    layer: Layer
    plane: PlaneNumber | None = None
    gbps: Gbps | None
    utilisation: Annotated[float, Field(ge=0)] | None = Field(description="measured; null if unknown")
    flows: Count
    bytes: Bytes | None


class TraceHot(Document):
    """A link that several flows share and that is busy for longer than the mean of its layer."""

    link: str
    gbps: Gbps | None
    utilisation: Annotated[float, Field(ge=0)] | None
    flows: list[str] = Field(description="ids of the colliding flows")
    bytes: Bytes | None


class Spread(Document):
    """Statistics over several draws."""

    mean: float
    min: float
    max: float


class TraceSpreads(Document):
    """The measures of a layer over several draws."""

    fim: Spread
    max_over_mean: Spread
    cv: Spread


class TraceComparedLayer(Document):
    """A layer over several draws."""

    layer: Layer
    links: Count
    flows: TraceSpreads
    bytes: TraceSpreads


class TraceComparedPlaneLayer(TraceComparedLayer):
    """A layer of one plane over several draws."""

    plane: PlaneNumber


class TraceComparison(Document):
    """The same flows under another policy; ``hot``: the hot links of the worst seed."""

    policy: Literal["ecmp"]
    seeds: Annotated[int, Field(ge=1)]
    worst_seed: Count
    layers: list[TraceComparedLayer]
    planes: list[TraceComparedPlaneLayer] = Field([], description="by plane and layer, where NICs have several ports")
    hot: list[TraceHot]
    min_speed: Spread
    plan_min_speed: float | None = Field(description="lowest speed in the newest plan, even if it is not enforced")


class TraceBody(Document):
    """The fields of every trace, with or without a controller."""

    flows: list[TraceFlow]
    layers: list[TraceLayer]
    planes: list[TracePlaneLayer] = Field([], description="by plane and layer, where NICs have several ports")
    links: list[TraceLink]
    hot: list[TraceHot]
    compare: TraceComparison | None = None


class TraceDocument(TraceBody):
    """The real path of every flow beside the planned one."""

    at: AwareDatetime = Field(description="time at which the switches were read")
    epoch: Epoch
    mode: Mode
    enforcement: EnforcementName
    seconds: Seconds = Field(description="time to make the trace, including reading the switches")
    window: Seconds | None = Field(
        description="seconds between the two readings of counters; null: there is only one reading"
    )
    silent: list[str] = Field(description="switches that are not connected or did not answer")
