"""Routes for host agents."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.model.choices.enforcement import Mode
from controller.model.choices.qp_mode import MOST_QPS, QpMode
from controller.rest.schemas.base import (
    CLASS,
    PACE_TEXT,
    WIRE_TEXT,
    Bytes,
    Document,
    EnforcementName,
    Epoch,
    FlowProtocol,
    Gbps,
    Mtu,
    PriorityClass,
    PriorityDscp,
    Share,
    UdpPort,
)


class RoutePiece(Document):
    """One path of a flow."""

    path: str | None = Field(description="path class, such as spine2; null within one leaf and in mode ecmp")
    share: Share
    rate_gbps: Gbps = Field(description="planned rate of the payload of this piece, if packets had no headers")
    pace_gbps: Gbps | None = Field(None, description=PACE_TEXT)
    wire_gbps: Gbps | None = Field(None, description=WIRE_TEXT)
    window_bytes: Annotated[int, Field(ge=0)] | None = Field(
        None, description="payload in flight at most, in place of the pace; null: any, or no round_trip_us was given"
    )
    links: list[str]
    labels: list[Annotated[int, Field(ge=16, lt=2**20)]] = Field(
        description="MPLS labels, outermost first, that carry a packet along the path; empty without segment routing"
    )
    dst_ip: str | None = Field(
        None, description="address of the receiver that packets take this path to; null: the one of the flow"
    )
    udp_src: UdpPort | None = Field(
        description="source port of this piece; null if it is unknown or not RoCEv2's, or while no port is known "
        "that the hash of routers sends over its path: then the host keeps the port that it has"
    )


class RouteFlow(FlowProtocol):
    """A flow that the host sends, or one of its queue pairs (QPs). Without ``protocol`` packets go to UDP port 4791.

    An entry with several pieces is split: each piece is a queue pair with its share of the bytes. Pieces with the same
    source port are a set of paths, over which the host spreads packets by their shares (jobs with ``order: any``).
    """

    id: str = Field(description="such as gpt3-a/dp0/17; gpt3-a/dp0/17.2 for QP 2 of a flow with several")
    flow: str = Field(description="the flow without the number of the QP, such as gpt3-a/dp0/17")
    qp: Annotated[int, Field(ge=0, lt=MOST_QPS)] = Field(description="which of the QPs of the flow this is, from 0")
    qps: Annotated[int, Field(ge=1, le=MOST_QPS)] = Field(
        description="QPs of the flow; one that carries no bytes is not listed"
    )
    qp_mode: QpMode = Field(description="whether each message is split over all QPs, or messages take turns")
    dst: str
    dst_ip: str
    bytes: Bytes
    priority: PriorityClass | None = CLASS
    dscp: PriorityDscp | None = Field(None, description="DSCP by which packets get this class; missing for class 0")
    pieces: list[RoutePiece]


class Routes(Document):
    """All flows that a host sends, with their paths in the plan ``epoch``. In mode ``ecmp`` no flow has a path.

    With ``source_port`` enforcement the source port selects the path of a flow, and changes with the path.
    """

    host: str
    ip: str
    mode: Mode
    enforcement: EnforcementName
    epoch: Epoch
    mtu: Mtu | None = Field(None, description="for which wire_gbps holds; null: no flow is paced in this mode")
    flows: list[RouteFlow]
