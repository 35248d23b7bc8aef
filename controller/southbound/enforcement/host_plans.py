"""What hosts are to do where they carry out a plan: the counterpart of the rules of switches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from typing import Any, Literal, Protocol

from controller.model.choices.enforcement import Mode
from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey


def _nothing(host: int, known: str = "") -> Mapping[str, Any]:
    return {}


HostForm = Literal["carriers", "ports"]
"""What plans say to hosts: the addresses by which packets take paths, or the paths for which ports are to be found."""


class HostContent(Protocol):
    """Makes what a plan says to each host."""

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        """Return it as plain data, without the number of the plan.

        Args:
            host: the host.
            known: hash of destinations (``destinations_digest``) that need not be made: then they are ``None``.
            by_table: whether there are paths to leaves in place of destinations that follow from ``table``.
        """

    def table(self, host: int) -> bytes:
        """Return the hosts that a host can reach, as a document: the same for all plans on a fabric."""

    def unchanged(self, before: HostContent) -> Callable[[int], bool]:
        """Return what tells of a host, at little cost, that a plan before says the same to it.

        ``False``: it may say something else; what both say is to be compared.
        """


def not_compared(_host: int) -> bool:
    """Return that a plan before may say something else to a host."""
    return False


class _NoContent:
    """A ``HostContent`` of plans that say nothing."""

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        """Return nothing."""
        return {}

    def table(self, host: int) -> bytes:
        """Return nothing."""
        return b""

    def unchanged(self, before: HostContent) -> Callable[[int], bool]:
        """Return that nothing is compared."""
        return not_compared


_NO_CONTENT = _NoContent()


class PathCables(Protocol):
    """Says which cables a path goes over: then reports of dead paths say which cables are down."""

    def suspects(self, host: int, carrier: IPv6Address, at: str | None, *, probed: bool) -> frozenset[int]:
        """Return the cables of which one at least is down if a path of a host is dead.

        Args:
            host: the host whose packets are lost.
            carrier: of the path, or the address of a probe.
            at: address of the router that could not forward a packet; ``None``: none has said so.
            probed: whether probes were lost; else, a router has said that it could not forward.
        """

    def confirmed(self, host: int, carrier: IPv6Address) -> frozenset[int]:
        """Return the cables that work if the probes of a path of a host come back, unless switches pass over them."""

    def shown(self, host: int, carrier: IPv6Address, entered: Collection[int]) -> frozenset[int]:
        """Return the cables that surely work if the probes of a path of a host come back.

        Args:
            host: the host.
            carrier: of the path, or the address of a probe.
            entered: cables that its leaf does not pass over.
        """

    def bypassed(self, host: int, probe: IPv6Address) -> int | None:
        """Return the cable that is down if a bypass probe of a host comes back; ``None``: it is no such probe."""


class _NoCables:
    """A ``PathCables`` of paths of which nothing is known."""

    def suspects(self, host: int, carrier: IPv6Address, at: str | None, *, probed: bool) -> frozenset[int]:
        """Return no cables."""
        return frozenset()

    def confirmed(self, host: int, carrier: IPv6Address) -> frozenset[int]:
        """Return no cables."""
        return frozenset()

    def shown(self, host: int, carrier: IPv6Address, entered: Collection[int]) -> frozenset[int]:
        """Return no cables."""
        return frozenset()

    def bypassed(self, host: int, probe: IPv6Address) -> int | None:
        """Return no cable."""
        return None


_NO_CABLES = _NoCables()


@dataclass(frozen=True, eq=False)
class HostPlans:
    """The plan of each host of a fabric.

    Attributes:
        fabric: of the hosts; ``None``: hosts are given no plans.
        taking_part: the hosts (indices) that send or receive flows of jobs: the plan needs the agents of these.
        content: returns the plan of a host. Pure, and made when it is asked for, since all plans together may be large.
        mode: ``ecmp``: there is no plan, and routers choose paths.
        cables: those of the paths of this plan, and of others on the same fabric.
        form: of what it says; a document of one form is of no use to an agent for another.
        checks: routers carry out the plan by a configuration that is not seen, and hosts only check its paths.
        idle: switches carry out the plan, and agents that ask are told to send as if there were none.
    """

    fabric: Fabric | None = None
    taking_part: frozenset[int] = frozenset()
    content: HostContent = _NO_CONTENT
    mode: Mode = "planned"
    cables: PathCables = _NO_CABLES
    form: HostForm = "carriers"
    checks: bool = False
    idle: bool = False

    def size(self, _switch: SwitchKey) -> int:
        """Return the number of entries that a switch must hold for the plan: none."""
        return 0


NO_HOST_PLANS = HostPlans()
"""Hosts are given no plans: the enforcement is one that switches carry out, or the fabric is not known."""
