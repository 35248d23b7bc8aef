"""The port of the side that hands plans to the agents of hosts and takes their reports.

``controller.host_enforcer.HostEnforcer`` implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Literal, NamedTuple, Protocol

Evidence = Literal["icmp", "probe"]
"""Why a path counts as dead: a router could not forward a packet, or probes are missing."""


class PlanId(NamedTuple):
    """Which plan of a host this is: the number of the plan, and a hash of what it says to the host.

    A number alone does not identify a plan: a controller whose store has lost changes uses some of them again.
    """

    epoch: int
    digest: str


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
class HostReport:
    """A report of an agent.

    Attributes:
        plan: that the kernel of the host holds, as read back; ``None``: it does not hold the newest one whole.
        dead: paths that are dead.
        flows: flows that have sent since the last report.
        round_trips: of probes.
    """

    plan: PlanId | None
    dead: tuple[DeadPath, ...] = ()
    flows: tuple[SentFlow, ...] = ()
    round_trips: tuple[RoundTrips, ...] = ()


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
    """

    host: str
    takes_part: bool
    heard_seconds: float | None
    epoch: int | None
    confirmed: bool
    report: HostReport | None


class HostAgents(Protocol):
    """Hands out plans, and hears reports."""

    def plan(self, host: str, known: PlanId | None, seconds: float, gone: Callable[[], bool]) -> bytes | None:
        """Return the plan of a host as a document, as soon as it is another one than ``known``; blocks until then.

        Args:
            host: name of a host of the fabric.
            known: the plan that its agent has; ``None``: it has none.
            seconds: how long to wait; then, the result is ``None``.
            gone: tells whether the agent has disconnected, which ends the wait.

        Raises:
            ConflictError: hosts are given no plans.
        """

    def report(self, host: str, report: HostReport) -> None:
        """Take a report of the agent of a host of the fabric.

        Raises:
            ConflictError: hosts are given no plans.
        """

    def states(self) -> Sequence[AgentState]:
        """Return what is known of the agents of all hosts, in the order of the fabric; empty: no host needs one."""
