"""The fabric, its links, and drains."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from controller.core.ports.api import Under
from controller.model.fabric import SwitchKind
from controller.rest.schemas.base import Count, Document, Epoch, Form, Gbps, PlaneNumber, Seconds, ThingId
from controller.rest.schemas.plans import PlanLink

KNOWN = Field(
    True,
    description="false: it was up when it was seen last, and a switch at its end is not connected, so it may be down",
)


class FabricSwitch(Document):
    """A switch, and whether it is connected to this controller.

    ``kind``: what it speaks, ``dpid``: its datapath id. A router has none, and this controller does not change it. Left
    out of OpenFlow switches: ``kind``; of routers: ``dpid``.
    ``pod``: of a leaf or an aggregation switch, where there are aggregation switches. ``agg_plane`` (from 1): of an
    aggregation switch; those of one plane reach the same cores. ``plane`` (from 1): where NICs have several ports, each
    in a plane of its own; null: NICs have one port.
    """

    name: str
    role: Literal["leaf", "spine", "aggregation", "core"]
    kind: SwitchKind = "openflow"
    dpid: Annotated[int, Field(ge=0)] | None = None
    connected: bool
    pod: str | None
    agg_plane: PlaneNumber | None
    plane: PlaneNumber | None


class FabricHost(Document):
    """A host's NIC, or one of its ports if it has several. ``port``: the leaf's OpenFlow port; null: not known yet.

    ``nic``: the NIC, if it has several ports; null: this is its only one.
    """

    name: str
    leaf: str
    gbps: Gbps
    ip: str
    mac: str
    server: str
    rail: int
    port: int | None
    up: bool
    nic: str | None


class FabricCable(Document):
    """A cable between two layers: ``a`` is the leaf (or aggregation switch), ``b`` the switch above."""

    id: str
    a: str
    b: str
    gbps: Gbps
    up: bool
    known: bool = KNOWN
    drained: bool
    a_port: int | None
    b_port: int | None


class CablingFinding(Document):
    """One difference between the network and the fabric file."""

    kind: str
    subject: str
    text: str


class Cabling(Document):
    """The cabling check. ``matches`` is null if there is no fabric file."""

    matches: bool | None
    findings: list[CablingFinding]
    hosts_unplaced: list[str] = Field(description="hosts whose switch port is not known yet")


class FabricDocument(Document):
    """The present fabric."""

    source: Literal["file", "discovery"]
    version: str
    switches: list[FabricSwitch]
    hosts: list[FabricHost]
    links: list[FabricCable]
    cabling: Cabling


class LinkState(PlanLink):
    """A directed link. ``load_gbps`` is its load in the newest plan (or under ECMP), 0 without jobs.

    The other values are those of the sending port (for the link from a host to its leaf: of the leaf's port, on
    receipt). They are null while the switch is not connected or was read only once, and if the switch does not count
    them.
    """

    up: bool
    known: bool = KNOWN
    drained: bool
    rate_gbps: Gbps | None = Field(None, description="measured rate over the last period")
    utilisation: Annotated[float, Field(ge=0)] | None = Field(None, description="rate_gbps divided by gbps")
    dropped: Count | None = Field(None, description="packets dropped by the port since it started")
    errors: Count | None = Field(None, description="errors counted by the port since it started")
    background_gbps: Gbps | None = Field(
        None,
        description="mean rate, over 12 polls, of traffic that is in no plan; null: not known (mode is not planned, "
        "learning is off, the plan is new, or no rule counts a flow that crosses the link)",
    )


class LinkList(Document):
    """All directed links, those of hosts first. ``under``: the plan, or ECMP, to which ``load_gbps`` refers."""

    under: Under = "plan"
    version: str = Field(description="of the list, for ?since=")
    since: str | None = Field(
        None, description="version to which links are the changes: the others are the same; null: all links are listed"
    )
    measured: AwareDatetime | None = Field(None, description="time of the newest counters")
    period: Seconds = Field(0, description="time between two polls of a switch; 0: switches are not polled")
    links: list[LinkState]


class DrainForm(Form):
    """Request to drain a cable, a switch, a pod or a plane, or to use it again."""

    drained: bool


class DrainDocument(Document):
    """A cable, a switch, a pod or a plane, and whether it is drained.

    ``cables``: the cables that it contains. ``still_used``: those of them that still carry traffic, because no other
    path connects two leaves, or of a plane: because no other plane connects two NICs.
    """

    id: str
    kind: Literal["cable", "spine", "leaf", "aggregation", "core", "pod", "plane"]
    drained: bool
    outcome: Literal["drained", "partly", "not possible", "in use"] = Field(
        description="drained: none of its cables carries traffic by the newest plan; partly, not possible: some or all "
        "of those that are up still do; in use: it is not drained"
    )
    epoch: Epoch = Field(description="the first plan that includes the change")
    cables: list[str]
    still_used: list[str]


class DrainsForm(Form):
    """Request to drain several cables, switches, pods or planes by one plan, or to use them again."""

    ids: Annotated[list[ThingId], Field(min_length=1, max_length=1000)]
    drained: bool


class DrainList(Document):
    """Cables, switches, pods or planes that were drained, or taken back into use, by one plan."""

    epoch: Epoch = Field(description="the first plan that includes the change")
    changed: list[str] = Field(description="ids that were not so before")
    moved: Count = Field(description="flows that have another path because of it")
    links: list[DrainDocument]
