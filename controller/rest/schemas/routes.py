"""What hosts' agents are told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller.model.enforcement import Enforcement, Mode
from controller.rest.schemas.base import Bytes, Document, Epoch, Gbps, Share, UdpPort


class RoutePiece(Document):
    """One path of a flow."""

    path: str | None = Field(description="the path's class, such as spine2; null within one leaf and in mode ecmp")
    share: Share
    rate_gbps: Gbps = Field(description="this piece's part of the rate that the plan gives the flow")
    links: list[str]
    labels: list[Annotated[int, Field(ge=16, lt=2**20)]] = Field(
        description="MPLS labels, outermost first, that carry a packet along the path; empty without segment routing"
    )
    udp_src: UdpPort | None = Field(
        description="source port of this piece's packets; null where the job keeps its ports unknown"
    )


class RouteFlow(Document):
    """A flow that the host sends. Its destination port is RoCE's, 4791.

    One with several pieces is split: a queue pair a piece, each with its share of the bytes.
    """

    id: str
    dst: str
    dst_ip: str
    bytes: Bytes
    pieces: list[RoutePiece]


class Routes(Document):
    """All flows that a host sends, under the plan of that epoch. In mode ``ecmp`` no flow has a path.

    With ``source_port`` enforcement the source port is what leads a flow over its path, and changes with it.
    """

    host: str
    ip: str
    mode: Mode
    enforcement: Enforcement
    epoch: Epoch
    flows: list[RouteFlow]
