"""The port of the side that hands plans to the agents of hosts and takes their reports.

``controller.host_enforcer.HostEnforcer`` implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, Literal, NamedTuple, Protocol

from controller.learning.sampling.seen_flows import SeenFlows
from controller.model.network_state import PortlessPath
from controller.southbound.enforcement.host_plans import HostForm
from controller.southbound.enforcement.learned_ports import LearnedPorts

Evidence = Literal["icmp", "probe"]
"""Why a path counts as dead: a router could not forward a packet, or probes are missing."""


class PlanId(NamedTuple):
    """Which plan of a host this is: the number of the plan, and a hash of what it says to the host.

    A number alone does not identify a plan: a controller whose store has lost changes uses some of them again.
    """

    epoch: int
    digest: str


@dataclass(frozen=True)
class AgentHas:
    """What an agent has already, when it asks for a plan.

    Attributes:
        plan: the plan that it has; ``None``: none.
        destinations: hash of the destinations that it has; the document has them only if they are others.
        form: of the plans that it can read.
        by_table: whether it makes the carriers of destinations of ``HostAgents.table`` and of paths to leaves.
        changes: whether it can take the changes of the plan that it has in place of another plan. One of another
            number that says the same is none to it.
    """

    plan: PlanId | None = None
    destinations: str = ""
    by_table: bool = False
    form: HostForm = "carriers"
    changes: bool = False


@dataclass(frozen=True)
class DeadPath:
    """A path that a host does not use.

    Attributes:
        carrier: the address by which packets take it.
        seconds: how long it has been dead.
        evidence: how the host knows.
        at: the router that said so; ``None``: none did.
    """

    carrier: IPv6Address
    seconds: float
    evidence: Evidence
    at: str | None


@dataclass(frozen=True)
class SentFlow:
    """Packets and bytes that a host has sent of a planned flow since its agent has set it.

    Attributes:
        dst: IP address of the receiver.
        protocol, src_port, dst_port: of its packets.
        carrier: of the path in use.
    """

    dst: str
    protocol: str
    src_port: int
    dst_port: int
    packets: int
    bytes: int
    carrier: IPv6Address


@dataclass(frozen=True)
class RoundTrips:
    """Round trips of the probes of a path since the last report; ``median_us`` is ``None`` where none came back."""

    carrier: IPv6Address
    median_us: int | None
    lost: int


@dataclass(frozen=True)
class Bypass:
    """Whether a bypass probe of a host comes back: then its leaf passes over the switch that the probe names."""

    probe: IPv6Address
    came_back: bool


@dataclass(frozen=True)
class NicCounters:
    """Counters of a host's NIC since its driver began; ``None``: it does not count that.

    Attributes:
        pause_received, pause_sent: PFC pause frames (IEEE 802.1Qbb) of each of the 8 classes.
        dropped: received packets of each class for which the NIC had no room.
        link_pause_received, link_pause_sent: pause frames that stop all classes (IEEE 802.3x).
        received_dropped, sent_dropped: packets of all classes that the port has dropped.
        ecn_marked: received packets that a switch has marked (RFC 3168, "congestion experienced").
        cnp_sent, cnp_received: congestion notification packets of RoCE v2.
    """

    pause_received: tuple[int | None, ...] | None = None
    pause_sent: tuple[int | None, ...] | None = None
    dropped: tuple[int | None, ...] | None = None
    link_pause_received: int | None = None
    link_pause_sent: int | None = None
    received_dropped: int | None = None
    sent_dropped: int | None = None
    ecn_marked: int | None = None
    cnp_sent: int | None = None
    cnp_received: int | None = None


@dataclass(frozen=True)
class FlowPacing:
    """The paces that the kernel of a host keeps.

    Attributes:
        planned: flows for which the plan has a pace.
        paced: those that the kernel paces, as read back.
        dropped: packets of them that found no room in the host.
        reason: why others are not paced; empty: there are none.
    """

    planned: int
    paced: int
    dropped: int
    reason: str = ""


PathEvidence = Literal["icmp", "samples"]
"""What shows the path of a port: messages of routers about probes, or packets that routers have sampled."""

SeenHash = Literal["linear", "other"]

PortState = Literal["active", "searching", "drifted", "unreachable", "unknown"]
"""Of the source ports of a host: all have been shown to lead over their paths lately; some are not found yet; some that
were found lead elsewhere, and no others have taken their places; some paths have no port; or routers do not answer."""


@dataclass(frozen=True)
class FlowPort:
    """The source port by which a host sends a planned flow to another leaf.

    Attributes:
        dst: IP address of the receiver.
        number: of the flow, in the plan.
        port: ``None``: none is known.
        path: over which it leads, as the last answered probe has shown; ``None``: none was answered.
        seconds: since that answer.
        evidence: what has shown it; ``None``: nothing, or its agent does not tell.
        astray: the port is given, and leads elsewhere than planned.
    """

    dst: str
    number: int
    port: int | None
    path: int | None
    seconds: float | None
    evidence: PathEvidence | None = None
    astray: bool = False


@dataclass(frozen=True)
class ConnectedQp:
    """A QP of a program of the host, as libfairspine-verbs has told its agent.

    Attributes:
        dst: IP address of the receiver.
        qp, remote_qp: QP numbers.
        port: UDP source port.
        number: of the planned flow whose port it has; ``None``: it has another one.
    """

    dst: str
    qp: int
    remote_qp: int
    port: int
    number: int | None = None


@dataclass(frozen=True)
class PortlessPaths:
    """Paths to a receiver that no port leads over, in the state of the cables that ``map`` names."""

    dst: str
    map: str
    paths: tuple[int, ...]


@dataclass(frozen=True)
class StrangeAnswers:
    """A port whose probes were answered by routers that fit no path; ``unreachable``: the last could not forward."""

    dst: str
    port: int
    answers: tuple[str, ...]
    unreachable: bool


@dataclass(frozen=True)
class PortReport:
    """What an agent knows of the source ports of its flows.

    Attributes:
        state: of all of them.
        flows: the ports of planned flows.
        unreachable: paths without a port.
        silent: receivers on the way to which routers do not answer.
        strange: answers that fit no path.
        moved: ports that have led elsewhere while they were in use, since the start of the agent.
        probes: that it has sent since then; ``unanswered``: those without an answer.
        packets: that it has sent since then to be sampled.
        hash: whether that of the routers was seen to be linear; ``None``: it was not looked at.
        qps: that programs have open, on one of several pages; ``None``: nothing tells the agent of them.
        qps_page: which page these are.
        qps_pages: how many there are.
        devices: names of the RDMA devices of the host; ``None``: its agent does not tell.
    """

    state: PortState
    flows: tuple[FlowPort, ...] = ()
    unreachable: tuple[PortlessPaths, ...] = ()
    silent: tuple[str, ...] = ()
    strange: tuple[StrangeAnswers, ...] = ()
    moved: int = 0
    probes: int = 0
    unanswered: int = 0
    hash: SeenHash | None = None
    qps: tuple[ConnectedQp, ...] | None = None
    qps_page: int = 0
    qps_pages: int = 1
    packets: int = 0
    devices: tuple[str, ...] | None = None


@dataclass(frozen=True)
class HostReport:
    """A report of an agent.

    Attributes:
        plan: that the kernel of the host holds, as read back; ``None``: it does not hold the newest one whole.
        dead: paths that are dead.
        flows: flows that have sent since the last report.
        round_trips: of probes.
        counters: of the NIC; ``None``: its agent has not read them.
        pacing: of its flows; ``None``: its agent does not tell.
        run: which run of its agent made it; ``None``: its agent does not tell.
        number: grows with each report of this run. They may come in another order, over two connections.
        ports: of its flows; ``None``: its agent finds none.
        bypasses: those that are known.
    """

    plan: PlanId | None
    dead: tuple[DeadPath, ...] = ()
    flows: tuple[SentFlow, ...] = ()
    round_trips: tuple[RoundTrips, ...] = ()
    counters: NicCounters | None = None
    pacing: FlowPacing | None = None
    run: str | None = None
    number: int = 0
    ports: PortReport | None = None
    bypasses: tuple[Bypass, ...] = ()

    def is_before(self, other: HostReport) -> bool:
        """Return whether the agent made this one before the other one."""
        return self.run is not None and self.run == other.run and self.number < other.number


@dataclass(frozen=True)
class AgentState:
    """The state of the agent of a host.

    Attributes:
        host: its name.
        takes_part: whether the host sends or receives planned flows.
        heard_seconds: since it was heard; ``None``: it has not been heard since the start of the controller.
        epoch: of the plan that the host holds; ``None``: none is confirmed.
        confirmed: whether that is the newest plan.
        report: the last one.
        silent: whether it was not heard for so long that nothing is known of what the host holds now.
    """

    host: str
    takes_part: bool
    heard_seconds: float | None
    epoch: int | None
    confirmed: bool
    report: HostReport | None
    silent: bool = False


@dataclass(frozen=True)
class HostRequest:
    """What an agent asks by way of another replica: whether there is another plan than it has.

    Attributes:
        host: name of its host.
        has: what it has already.
        report: that it sends with the question, as it came; ``None``: it sends none.
        asks: whether it wants another plan; else it only reports.
    """

    host: str
    has: AgentHas
    report: bytes | None = None
    asks: bool = True


HostAnswer = bytes | None | Exception
"""Another plan than an agent has, as a document; ``None``: there is none; or why it is refused an answer."""


@dataclass(frozen=True)
class HostAnswers:
    """The answers to requests of several agents, in the order of these.

    Attributes:
        version: of all plans: while it is the same, the same requests have the same answers.
        answers: one for each request.
    """

    version: str
    answers: Sequence[HostAnswer]


class HostAgents(Protocol):
    """Hands out plans, and hears reports."""

    def plan(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> bytes | None:
        """Return the plan of a host as a document, as soon as its agent has another one; blocks until then.

        Args:
            host: name of a host of the fabric.
            has: what its agent has.
            seconds: how long to wait; then, the result is ``None``.
            gone: tells whether the agent has disconnected, which ends the wait.

        Raises:
            ConflictError: hosts are given no plans, or none of the form that its agent can read.
        """

    def plans(self, asked: Sequence[tuple[str, AgentHas]]) -> HostAnswers:
        """Return the plans of many hosts whose agents have other ones, without waiting for new plans.

        Args:
            asked: names of hosts of the fabric, each with what its agent has.
        """

    def version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        """Return the version of all plans (``HostAnswers.version``) when it is another one, after so long at most."""

    def table(self, host: str) -> bytes:
        """Return the hosts that a host can reach, as a document: the same for all plans on a fabric.

        Raises:
            ConflictError: hosts are given no plans, or none with a table.
            UnavailableError: there is no plan yet.
        """

    def report(self, host: str, report: HostReport) -> None:
        """Take a report of the agent of a host of the fabric.

        Raises:
            ConflictError: hosts are given no plans.
        """

    def see(self, seen: SeenFlows) -> None:
        """Take at which routers packets of hosts were sampled."""

    def samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> dict[str, Any] | None:
        """Return what routers have sampled of the packets of a host, as a document; blocks until there is something.

        Args:
            host: name of a host of the fabric.
            after: number of the document that its agent has; 0: none.
            seconds: how long to wait; then, the result is ``None``.
            gone: tells whether the agent has disconnected, which ends the wait.

        Raises:
            ConflictError: source ports do not select paths by the hash of routers.
        """

    def states(self) -> Sequence[AgentState]:
        """Return what is known of the agents of all hosts, in the order of the fabric; empty: no host needs one."""

    def portless(self) -> frozenset[PortlessPath]:
        """Return what reports show of paths that no source port leads over."""

    def learned_ports(self) -> LearnedPorts:
        """Return what reports show of the source ports of flows."""
