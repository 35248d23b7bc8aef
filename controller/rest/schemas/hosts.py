"""Plans of hosts, the reports of their agents, and what is known of these."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from controller.core.ports.host_agents import Evidence, PathEvidence, PortState, SeenHash
from controller.model.choices.enforcement import Mode
from controller.model.texts.text_form import text_form
from controller.model.units import LARGEST_EXACT
from controller.rest.schemas.base import (
    PACE_TEXT,
    WIRE_TEXT,
    Count,
    Document,
    Epoch,
    Form,
    Gbps,
    PriorityDscp,
    QpNumber,
    Seconds,
    Share,
    ThingId,
    UdpPort,
)

MOST_PATHS = 100_000
"""Dead paths, or round trips, in one report."""
MOST_REPORTED_FLOWS = 100_000
"""Flows in one report."""
MOST_QP_PAGES = 16
"""Reports in which an agent tells of all open QPs."""
MOST_STRANGE = 1000
"""Answers that fit no path, in one report."""
MOST_HOPS = 255
LONGEST_NAME = 200


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


BACKUPS = "of other paths, those first that share the fewest cables"
PROBE = "an address over the path and back; null: it takes more ids than fit"


MARKED = (
    "DSCP by which the agent marks packets, on their own header and on the one with the carrier; missing for class 0"
)
PATHS = "those over which the host spreads packets, by weights; empty: all take carrier, the heaviest of these"


class WeightedCarrier(Document):
    """One of the paths over which packets of a flow are spread."""

    carrier: Carrier
    weight: Share = Field(description="part of the packets; those of a set add up to 1")
    probe: Carrier | None = Field(description=PROBE)


class Destination(Document):
    """The carrier of packets to a host that belong to no flow of the plan with a source port.

    With ``backups`` and ``probe``, it is that of a flow which is all that the two hosts send, whatever its ports.
    """

    dst: Address
    carrier: Carrier
    backups: list[Carrier] = Field(description=BACKUPS, default_factory=list)
    probe: Annotated[Carrier | None, Field(description=PROBE)] = None
    dscp: PriorityDscp | None = Field(None, description=MARKED)
    paths: list[WeightedCarrier] = Field(description=PATHS, default_factory=list)


class FlowAddress(Document):
    """The 5-tuple of a flow."""

    src: Address
    dst: Address
    protocol: Protocol
    src_port: UdpPort
    dst_port: UdpPort


class CarriedFlow(FlowAddress):
    """A flow that the host sends, by its 5-tuple, with the address of its path and those of other ones."""

    carrier: Carrier
    backups: list[Carrier] = Field(description=BACKUPS)
    probe: Carrier | None = Field(description=PROBE)
    dscp: PriorityDscp | None = Field(None, description=MARKED)
    paths: list[WeightedCarrier] = Field(description=PATHS, default_factory=list)
    rate_gbps: Gbps | None = Field(description="always null (deprecated): pace_gbps takes its place")
    pace_gbps: Gbps | None = Field(None, description=PACE_TEXT)
    wire_gbps: Gbps | None = Field(None, description=WIRE_TEXT)


SegmentId = Annotated[int, Field(ge=0, le=0xFFFF)]
HostNumber = Annotated[int, Field(ge=0)]


class PathsToLeaves(Document):
    """Leaves, and the paths to them: ids behind the own leaf, and last what is added to the leaf's own id.

    A host whose number is n gets path n modulo the number of paths.
    """

    leaves: list[HostNumber]
    paths: list[list[SegmentId]]


class HostTableDocument(Document):
    """The hosts that a host can reach: ``[ip, number, number of the leaf, id]``; ids of leaves: ``[number, id]``."""

    digest: Digest
    block: Prefix
    leaves: list[tuple[HostNumber, SegmentId]]
    hosts: list[tuple[Address, HostNumber, HostNumber, SegmentId]]


class HostPlanDocument(Document):
    """The plan of a host, which its agent carries out."""

    epoch: Epoch
    digest: Digest = Field(description="hash of what the plan says to this host")
    host: str
    mode: Mode
    source: Carrier = Field(description="the address from which packets with a carrier come")
    decapsulate: list[HostSegment]
    destinations: list[Destination] | None = Field(description="null: those that the agent has, as it has said")
    destinations_digest: Digest = Field(description="hash of the destinations")
    number: HostNumber | None = Field(None, description="with form=table: of this host, in the table")
    table_digest: Digest | None = Field(None, description="with form=table: that of the table")
    paths: list[PathsToLeaves] | None = Field(
        None,
        description="with form=table, and besides destinations: the paths to leaves; to other leaves, routers choose "
        "one. null: those that the agent has",
    )
    flows: list[CarriedFlow]
    changes_of: Digest | None = Field(
        None,
        description="with form=changes: flows are only those that are new or others than in the plan with this digest, "
        "which the agent has; null: all",
    )
    gone: list[FlowAddress] = Field(
        default_factory=list, description="flows of that plan which are not in this one any more"
    )
    probes: list[Carrier] = Field(description="addresses over single cables and back, besides those of flows")
    bypass_probes: list[Carrier] = Field(
        default_factory=list, description="addresses that come back only where the leaf passes over a switch"
    )
    report_seconds: Seconds = Field(0.0, description="between two reports in which nothing is new, at least")


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


class BypassForm(Form):
    """Whether a bypass probe comes back: then the leaf passes over the switch that the probe names."""

    probe: Carrier
    came_back: bool


CLASSES = 8
ByClass = Annotated[list[Total | None], Field(min_length=CLASSES, max_length=CLASSES)]


class NicCountersForm(Form):
    """Counters of the NIC since its driver began; null, or missing: it does not count that.

    ``pause_received``, ``pause_sent`` (PFC) and ``dropped`` have a number for each class.
    """

    pause_received: ByClass | None = None
    pause_sent: ByClass | None = None
    dropped: ByClass | None = None
    link_pause_received: Total | None = None
    link_pause_sent: Total | None = None
    received_dropped: Total | None = None
    sent_dropped: Total | None = None
    ecn_marked: Total | None = None
    cnp_sent: Total | None = None
    cnp_received: Total | None = None


class NicCountersDocument(Document):
    """Counters of the NIC of a host since its driver began; null: it does not count that."""

    pause_received: list[Count | None] | None = Field(description="PFC pause frames of each of the 8 classes")
    pause_sent: list[Count | None] | None = Field(description="PFC pause frames of each of the 8 classes")
    dropped: list[Count | None] | None = Field(description="received packets of each class that found no room")
    link_pause_received: Count | None = Field(description="pause frames that stop all classes")
    link_pause_sent: Count | None = Field(description="pause frames that stop all classes")
    received_dropped: Count | None = Field(description="packets of all classes")
    sent_dropped: Count | None = Field(description="packets of all classes")
    ecn_marked: Count | None = Field(description="received packets that a switch has marked")
    cnp_sent: Count | None = Field(description="congestion notification packets of RoCE v2")
    cnp_received: Count | None = Field(description="congestion notification packets of RoCE v2")


LONGEST_REASON = 500


class FlowPacingForm(Form):
    """The paces that the kernel of the host keeps; ``reason``: why it does not keep all."""

    planned: Total
    paced: Total
    dropped: Total
    reason: Annotated[
        str, text_form(rf"^[ -~]{{0,{LONGEST_REASON}}}$", f"{LONGEST_REASON} ASCII characters at most")
    ] = ""


class FlowPacingDocument(Document):
    """The paces that the kernel of a host keeps."""

    planned: Count = Field(description="flows for which the plan has a pace")
    paced: Count = Field(description="those that the kernel paces, as read back")
    dropped: Count = Field(description="packets of them that found no room in the queues of the host")
    reason: str = Field(description="why others are not paced; empty: there are none")


MapName = Annotated[str, Field(max_length=LONGEST_ADDRESS)]
PathNumber = Annotated[int, Field(ge=0, lt=2**31)]
RouterName = Annotated[str, Field(max_length=LONGEST_NAME)]
Age = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ProbedRouter(Document):
    """A router, and the addresses from which it answers probes."""

    name: str
    addresses: list[Address]


class ProbedPath(Document):
    """The routers that answer the probes of a path, by hop limit."""

    path: PathNumber
    routers: list[str]


class ProbedRoutes(Document):
    """By which hop limits the paths between two leaves are told apart."""

    hops: list[Annotated[int, Field(ge=1, le=255)]]
    paths: list[ProbedPath]


class WantedPorts(Document):
    """How many ports a path is to have."""

    path: PathNumber
    ports: Annotated[int, Field(ge=1)]


class KnownPath(Document):
    """The path that a port had when it was probed before."""

    port: UdpPort
    path: PathNumber


class ProbedPairDocument(Document):
    """A receiver, with the place of its routes in the list. ``map`` names the state of the cables."""

    dst: Address
    routes: HostNumber
    wanted: list[WantedPorts]
    map: str
    known: list[KnownPath]


class AnswerBudgetDocument(Document):
    """How many probes of this host each router answers at once, and then in a second."""

    burst: Annotated[int, Field(ge=1)]
    a_second: Annotated[float, Field(gt=0)]
    share: Annotated[float, Field(gt=0)] | None = Field(
        None, description="a second, at first, of what a router answers to all hosts together"
    )


WIRE_PACE = "pace on the links, with the headers of full packets; null: it need not be paced"


class NumberedFlowDocument(Document):
    """A flow that the host sends to another leaf, by its number among those of the two hosts."""

    dst: Address
    number: UdpPort
    path: PathNumber
    wire_gbps: Gbps | None = Field(None, description=WIRE_PACE)


class ConnectionsDocument(Document):
    """The TCP connections between the host and another one, whose ports are found when programs make them."""

    dst: Address
    path: PathNumber | None = Field(description="of what the host sends; null: any")
    comes_back: bool = Field(description="whether a path is planned for what the other host sends")
    wire_gbps: Gbps | None = Field(None, description=WIRE_PACE)


class SampledPacket(Document):
    """The newest packet of a source port that a router has sampled."""

    dst: Address
    port: UdpPort
    router: str
    seconds: Seconds = Field(description="since the controller was told of it")


class HostSamplesDocument(Document):
    """At which routers packets of a host were sampled (sFlow): where they answer no probes, that shows their paths."""

    number: Annotated[int, Field(ge=0)] = Field(description="of this answer: ask for what is newer with ?after=")
    one_in: Annotated[int, Field(ge=1)] | None = Field(
        description="packets of which a router samples one: the most that one of them says; null: not known"
    )
    samples: list[SampledPacket]


class SampledRateDocument(Document):
    """How many packets a second a host may send where routers answer no probes, so that they sample some."""

    a_second: Annotated[float, Field(gt=0)]


class HostPortPlan(Document):
    """For which paths a host is to find source ports, and for which flows."""

    epoch: Epoch
    digest: Digest = Field(description="hash of what the plan says to this host")
    host: str
    mode: Mode
    source: Address
    first_port: UdpPort
    last_port: UdpPort
    dst_port: UdpPort
    routers: list[ProbedRouter]
    budget: AnswerBudgetDocument
    routes: list[ProbedRoutes]
    pairs: list[ProbedPairDocument]
    flows: list[NumberedFlowDocument]
    connections: list[ConnectionsDocument]
    check_seconds: Seconds = Field(description="between two checks of a port in use")
    report_seconds: Seconds = Field(description="between two reports in which nothing is new, at least")
    samples: SampledRateDocument | None = Field(
        None, description="null: the controller gets no samples of routers (the option sflow_listen)"
    )
    given: bool = Field(
        False, description="the ports are those of flows (number), which the host is to check; it can choose no others"
    )


MOST_DEVICES = 64
DeviceName = Annotated[str, text_form(r"^[A-Za-z0-9._-]{1,64}$", "a name of a device")]


class FlowPortForm(Form):
    """The source port by which the host sends a flow; null: not known."""

    dst: Address
    number: UdpPort
    port: UdpPort | None
    path: PathNumber | None = Field(description="over which it leads, as the last answered probe has shown")
    seconds: Age | None = Field(description="since that answer")
    evidence: PathEvidence | None = Field(None, description="what has shown it: answers to probes, or sampled packets")
    astray: bool = Field(False, description="the plan gives the port, and it leads elsewhere than planned")


class ConnectedQpForm(Form):
    """A QP of a program of the host; ``number``: of the planned flow whose port it has, or null."""

    dst: Address
    qp: QpNumber
    remote_qp: QpNumber
    port: UdpPort
    number: UdpPort | None = None


class PortlessPathsForm(Form):
    """Paths that no port leads over, in the state of the cables that ``map`` names."""

    dst: Address
    map: MapName
    paths: Annotated[list[PathNumber], Field(max_length=MOST_PATHS)]


class StrangeAnswersForm(Form):
    """A port whose probes were answered by routers that fit no path; ``unreachable``: the last could not forward."""

    dst: Address
    port: UdpPort
    answers: Annotated[list[RouterName], Field(max_length=MOST_HOPS)]
    unreachable: bool


class PortReportForm(Form):
    """What the agent knows of the source ports of its flows."""

    state: PortState
    flows: Annotated[list[FlowPortForm], Field(max_length=MOST_REPORTED_FLOWS, default_factory=list)]
    unreachable: Annotated[list[PortlessPathsForm], Field(max_length=MOST_PATHS, default_factory=list)]
    silent: Annotated[list[Address], Field(max_length=MOST_PATHS, default_factory=list)]
    strange: Annotated[list[StrangeAnswersForm], Field(max_length=MOST_STRANGE, default_factory=list)]
    moved: Total = 0
    probes: Total = 0
    unanswered: Total = 0
    hash: SeenHash | None = None
    qps: Annotated[list[ConnectedQpForm], Field(max_length=MOST_REPORTED_FLOWS)] | None = Field(
        None, description="that programs have open; null: nothing tells the agent of them (libfairspine-verbs)"
    )
    qps_page: Annotated[int, Field(ge=0, lt=MOST_QP_PAGES)] = Field(
        0, description="which page of the open QPs these are: where there are more than a report has, several tell them"
    )
    qps_pages: Annotated[int, Field(ge=1, le=MOST_QP_PAGES)] = Field(1, description="how many pages there are")
    packets: Total = Field(0, description="that it has sent to be sampled, where routers answer no probes")
    devices: Annotated[list[DeviceName], Field(max_length=MOST_DEVICES)] | None = Field(
        None, description="RDMA devices of the host; null: the agent does not tell"
    )


class HostPortsDocument(Document):
    """What is known of the source ports of a host that routers' hashes send over the planned paths."""

    state: PortState = Field(
        description="active: all lead over their paths, as probes have shown lately; searching: some are not found "
        "yet; drifted: some lead elsewhere; unreachable: some paths have no port; unknown: routers, or the agent, are "
        "silent"
    )
    planned: Count = Field(description="flows to other leaves")
    known: Count = Field(description="those whose port is known")
    sampled: Count = Field(0, description="those whose path sampled packets have shown; of others, answers to probes")
    oldest_seconds: Seconds | None = Field(
        description="since the last answer for the port that was checked longest ago"
    )
    moved: Count = Field(description="ports that have led elsewhere while they were in use, since the agent began")
    unreachable: Count = Field(description="paths that no port leads over")
    probes: Count = Field(description="sent since the agent began")
    unanswered: Count = Field(description="those without an answer")
    hash: SeenHash | None = Field(
        None, description="of routers: linear, so that few probes tell all ports; null: not looked at"
    )
    qps: Count | None = Field(
        None,
        description="QPs that programs have open; null: nothing tells the agent of them (libfairspine-verbs), or some "
        "are not told yet",
    )
    planned_qps: Count | None = Field(None, description="those that have the ports of planned flows")
    packets: Count = Field(0, description="sent to be sampled, where routers answer no probes, since the agent began")
    devices: list[str] | None = Field(None, description="RDMA devices of the host; null: its agent does not tell")


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
    counters: NicCountersForm | None = None
    pacing: FlowPacingForm | None = None
    run: Digest | None = Field(None, description="of the agent, drawn at its start")
    number: Total = Field(
        0, description="grows with each report of this run: one that comes after a later one is ignored"
    )
    ports: PortReportForm | None = None
    bypasses: Annotated[list[BypassForm], Field(max_length=MOST_PATHS, default_factory=list)]


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
    counters: NicCountersDocument | None = Field(description="of its NIC; null: its agent has not reported them")
    pacing: FlowPacingDocument | None = Field(
        None, description="of the flows that it sends; null: its agent has not reported it"
    )
    ports: HostPortsDocument | None = Field(
        None, description="where the hash of routers selects paths; null: its agent has not reported them"
    )


class HostList(Document):
    """The agents of all hosts; empty where switches carry out plans."""

    hosts: list[HostAgentRow]
