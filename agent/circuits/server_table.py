"""What a server forwards by, as read from the controller's document."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, NamedTuple

from agent.errors import HostAgentError

PROTOCOL = 70
"""Marks the agent's routes in the kernel (rtm_protocol); no program that iproute2 knows has this number."""
_MOST_NICS = 64
_MAC_PARTS = 6


class HeldNeighbour(NamedTuple):
    """The Ethernet address at the other end of a circuit."""

    address: str
    mac: str
    nic: int


class HeldRoute(NamedTuple):
    """Where packets to an address or prefix leave."""

    to: str
    via: str | None
    nic: int


@dataclass(frozen=True)
class ForwardingTable:
    """A table by its name.

    Attributes:
        step: its name.
        address: the first of the server's addresses; its /24 is all its own.
        macs: of its NICs.
        neighbours, routes: what it forwards by.
    """

    step: str
    address: str
    macs: tuple[str, ...]
    neighbours: frozenset[HeldNeighbour]
    routes: frozenset[HeldRoute]


def read_table(document: Any, host: str) -> ForwardingTable:
    """Return the table of a document.

    Raises:
        HostAgentError: it is no table of this host.
    """
    try:
        if document["host"] != host:
            raise HostAgentError(f"the table is that of host {document['host']!r}")
        macs = tuple(_mac(each) for each in document["macs"])
        nics = len(macs)
        if not 0 < nics <= _MOST_NICS:
            raise ValueError(f"{nics} NICs")
        return ForwardingTable(
            str(document["step"]),
            str(IPv4Address(document["address"])),
            macs,
            frozenset(
                HeldNeighbour(str(IPv4Address(row["address"])), _mac(row["mac"]), _nic(row["nic"], nics))
                for row in document["neighbours"]
            ),
            frozenset(
                HeldRoute(
                    str(IPv4Network(row["to"])),
                    None if row["via"] is None else str(IPv4Address(row["via"])),
                    _nic(row["nic"], nics),
                )
                for row in document["routes"]
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise HostAgentError(f"the table cannot be used: {error}") from None


def _nic(value: Any, count: int) -> int:
    if not isinstance(value, int) or not 0 <= value < count:
        raise ValueError(f"NIC {value!r}")
    return value


def _mac(value: Any) -> str:
    parts = str(value).split(":")
    if len(parts) != _MAC_PARTS or any(len(part) != 2 for part in parts):
        raise ValueError(f"Ethernet address {value!r}")
    return bytes(int(part, 16) for part in parts).hex(":")
