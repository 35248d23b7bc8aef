"""Plans of hosts, the reports of their agents, and what is known of these."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from controller.core.ports.host_agents import Evidence
from controller.model.choices.enforcement import Mode
from controller.model.text_form import text_form
from controller.model.units import LARGEST_EXACT
from controller.rest.schemas.base import Count, Document, Epoch, Form, Gbps, Seconds, ThingId, UdpPort

MOST_PATHS = 100_000
"""Dead paths, or round trips, in one report."""
MOST_REPORTED_FLOWS = 100_000
"""Flows in one report."""


def _ipv6(text: str) -> str:
    IPv6Address(text)
    return text


def _prefix(text: str) -> str:
    IPv6Network(text)
    return text


def _ip(text: str) -> str:
    ip_address(text)
    return text


LONGEST_ADDRESS = 64
Carrier = Annotated[str, Field(max_length=LONGEST_ADDRESS), AfterValidator(_ipv6)]
Address = Annotated[str, Field(max_length=LONGEST_ADDRESS), AfterValidator(_ip)]
Prefix = Annotated[str, AfterValidator(_prefix)]
Total = Annotated[int, Field(ge=0, le=LARGEST_EXACT)]
Protocol = Literal["tcp", "udp"]
DIGEST_FORM = r"^[0-9a-f]{16}$"
Digest = Annotated[str, text_form(DIGEST_FORM, "16 hexadecimal digits")]


class HostSegment(Document):
    """Addresses of which the host takes packets in: they have an IP packet of this version inside."""

    segment: Prefix
    inner: Literal[4, 6]


class Destination(Document):
    """The carrier of packets to a host that belong to no flow of the plan."""

    dst: Address
    carrier: Carrier


class CarriedFlow(Document):
    """A flow that the host sends, by its 5-tuple, with the address of its path and those of other ones."""

    src: Address
    dst: Address
    protocol: Protocol
    src_port: UdpPort
    dst_port: UdpPort
    carrier: Carrier
    backups: list[Carrier] = Field(description="of other paths, those first that share the fewest cables")
    probe: Carrier | None = Field(description="an address over the path and back; null: it takes more ids than fit")
    rate_gbps: Gbps | None


class HostPlanDocument(Document):
    """The plan of a host, which its agent carries out."""

    epoch: Epoch
    digest: Digest = Field(description="hash of what the plan says to this host")
    host: str
    mode: Mode
    source: Carrier = Field(description="the address from which packets with a carrier come")
    decapsulate: list[HostSegment]
    destinations: list[Destination]
    flows: list[CarriedFlow]


class DeadPathForm(Form):
    """A path that the host does not use. ``at``: the router that has said so."""

    carrier: Carrier
    since: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    evidence: Evidence
    at: Annotated[str, Field(max_length=LONGEST_ADDRESS)] | None = None


class SentFlowForm(Form):
    """What the host has sent of a flow since its agent has set it."""

    src: Address
    dst: Address
    protocol: Protocol
    src_port: UdpPort
    dst_port: UdpPort
    packets: Total
    bytes: Total
    carrier: Carrier


class RoundTripForm(Form):
    """Probes of a path since the last report."""

    carrier: Carrier
    median_us: Total | None
    lost: Total


class HostReportForm(Form):
    """A report of the agent of a host.

    ``epoch`` and ``digest`` (both, or neither) are those of the plan that its kernel holds.
    """

    epoch: Epoch | None = Field(
        description="as read back from the kernel; null: it does not hold the newest plan whole"
    )
    digest: Digest | None = None
    dead: Annotated[list[DeadPathForm], Field(max_length=MOST_PATHS, default_factory=list)]
    flows: Annotated[list[SentFlowForm], Field(max_length=MOST_REPORTED_FLOWS, default_factory=list)]
    round_trips: Annotated[list[RoundTripForm], Field(max_length=MOST_PATHS, default_factory=list)]


class HostAgentRow(Document):
    """What is known of the agent of a host."""

    host: ThingId
    takes_part: bool = Field(description="whether the host sends or receives planned flows")
    heard_seconds: Seconds | None = Field(description="since the agent was heard; null: not since the controller began")
    epoch: Epoch | None = Field(description="of the plan that the host has confirmed; null: none")
    confirmed: bool = Field(description="whether that is the newest plan")
    dead_paths: Count | None = Field(description="in its last report; null: there is none")
    lost_probes: Count | None = Field(description="between its last two reports; null: there is none")
    slowest_us: Count | None = Field(description="median round trip of the slowest path; null: not measured")


class HostList(Document):
    """The agents of all hosts; empty where switches carry out plans."""

    hosts: list[HostAgentRow]
