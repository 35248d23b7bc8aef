"""The paths that flows really take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Bytes, Count, Document, Epoch, Gbps, Seconds, Share, UdpPort

Layer = Literal["uplinks", "downlinks"]


class TraceFlow(Document):
    """One flow, or one piece of a split flow."""

    id: str
    piece: Count = Field(description="number of the piece; 0 where the flow is not split")
    job: str
    collective: str
    src: str
    dst: str
    src_rank: Count | None = Field(description="null where the job names no ranks")
    dst_rank: Count | None
    udp_src: UdpPort | None
    share: Share
    planned: list[str] | None = Field(description="links; null where no live path joins the leaves")
    real: list[str] | None = Field(description="links; null where they are not known, or the flow does not arrive")
    how: Literal["rules", "counters", "capture", "plan", "given", "none"] = Field(
        description="how the real path is known: by the switches' rules alone; a hash's choice by port counters or by "
        "captured packets; taken from the plan; given by a file; or not at all"
    )
    sure: Annotated[float, Field(ge=0, le=1)] = Field(
        description="of a hash's choice: the part of all placings of the leaf's flows that explain its counters which "
        "has the flow there; 1 only where no other is left"
    )
    differs: bool = Field(description="whether it is not on its planned path, or (mode planned) nothing keeps it there")
    why: str = Field(description="why it is not on its planned path, or is not known to be; empty where it is")
    bytes: Bytes | None = Field(description="that it carries in one run of its collective; null where that is unknown")
    rate_gbps: Gbps | None = Field(
        description="counted by its own rule, between two traces or two polls; null where it has none"
    )


class TraceMeasures(Document):
    """How unevenly the links of a layer are used: 0, 1 and 0 where all carry the same."""

    fim: Annotated[float, Field(ge=0)] = Field(description="flow imbalance metric: mean of |n - mean| / mean")
    max_over_mean: Annotated[float, Field(ge=1)]
    cv: Annotated[float, Field(ge=0)] = Field(description="coefficient of variation")


class TraceLayer(Document):
    """Imbalance over the live links of a layer, by the flows on each and by their bytes."""

    layer: Layer
    links: Count
    flows: TraceMeasures | None = Field(description="null where the path of some flow is not known")
    bytes: TraceMeasures | None = Field(description="null where the path or the bytes of some flow are not known")


class TraceLink(Document):
    """A live link between a leaf and a spine, and what is on it."""

    id: str
    layer: Layer
    gbps: Gbps | None
    utilisation: Annotated[float, Field(ge=0)] | None = Field(description="measured; null where it is not known")
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
    """Over several draws."""

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


class TraceComparison(Document):
    """What another policy would do with the same flows; ``hot``: under the seed that is worst."""

    policy: Literal["ecmp"]
    seeds: Annotated[int, Field(ge=1)]
    worst_seed: Count
    layers: list[TraceComparedLayer]
    hot: list[TraceHot]
    min_speed: Spread
    plan_min_speed: float | None = Field(description="of the newest plan, enforced or not")


class TraceBody(Document):
    """What every trace has, also one that no controller has made."""

    flows: list[TraceFlow]
    layers: list[TraceLayer]
    links: list[TraceLink]
    hot: list[TraceHot]
    compare: TraceComparison | None = None


class TraceDocument(TraceBody):
    """Where every flow really goes, beside where it should."""

    at: AwareDatetime = Field(description="when the switches were read")
    epoch: Epoch
    mode: Mode
    enforcement: Enforcement
    seconds: Seconds = Field(description="how long it took, reading the switches included")
    window: Seconds | None = Field(description="seconds over which was counted; null: there is one reading only yet")
    silent: list[str] = Field(description="switches that are not connected or did not answer")
