"""The file of BGP sessions to routers: which address and AS number each has, and who this controller is to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import read_document
from controller.model.packets.port_numbers import MAX_PORT
from controller.southbound.srv6.bgp_configuration import CONTROLLER_AS, MOST_ASN, as_numbers
from controller.southbound.srv6.segment_ids import SegmentIds, network

BGP_PORT = 179
DEFAULT_ROUTER_ID = IPv4Address("100.127.255.254")
"""Behind those that exported configurations give to routers."""


@dataclass(frozen=True)
class BgpSession:
    """How a router is reached.

    Attributes:
        router: its name in the fabric file.
        address: at which it waits for connections.
        asn: its AS number.
        port: the TCP port.
    """

    router: str
    address: IPv4Address | IPv6Address
    asn: int
    port: int = BGP_PORT


@dataclass(frozen=True)
class BgpSessions:
    """All sessions, and what this controller tells of itself."""

    sessions: tuple[BgpSession, ...]
    asn: int = CONTROLLER_AS
    router_id: IPv4Address = DEFAULT_ROUTER_ID

    def asns(self, fabric: Fabric) -> dict[str, int]:
        """Return the AS numbers of all switches; those without a session have numbers of exported configurations."""
        return as_numbers(fabric) | {session.router: session.asn for session in self.sessions}


def sessions_of(path: str, block: str, fabric: Fabric | None) -> BgpSessions | None:
    """Return the sessions of the file that the option ``bgp_sessions`` names; ``None``: it names none.

    Args:
        path: of the file.
        block: the option ``srv6_block``.
        fabric: of the fabric file; ``None``: there is none.

    Raises:
        InputError: the file cannot be used, or the fabric file has no routers, or more than there are segment ids for.
    """
    if not path:
        return None
    if fabric is None or not fabric.routers:
        raise InputError("needs a fabric file with routers", field="bgp_sessions", value=path)
    sessions = load_sessions(path, fabric)
    SegmentIds.of(fabric, network("srv6_block", block)).check()
    return sessions


def load_sessions(path: str | Path, fabric: Fabric) -> BgpSessions:
    """Read a file, YAML or JSON, of sessions to the routers of a fabric.

    Raises:
        InputError: it cannot be read, or has something that cannot be used; the error names file and field.
    """
    try:
        return read_sessions(read_document(path), fabric)
    except InputError as error:
        raise error.with_source(str(path)) from None


def read_sessions(document: Any, fabric: Fabric) -> BgpSessions:
    """Return the sessions that a document describes; AS numbers that it lacks are those of exported configurations.

    Raises:
        InputError: the document has something that cannot be used.
    """
    top = _members(document, "", {"as", "router_id", "routers"})
    routers = top.get("routers")
    if not isinstance(routers, Mapping) or not routers:
        raise InputError("needs the addresses of routers, by their names", field="routers")
    numbers, known = as_numbers(fabric), {switch.name for switch in fabric.routers}
    sessions: dict[IPv4Address | IPv6Address, BgpSession] = {}
    for name, entry in routers.items():
        field = f"routers.{name}"
        if name not in known:
            raise InputError("no router of the fabric file has this name", field=field, value=name)
        row = _members(entry if isinstance(entry, Mapping) else {"address": entry}, field, {"address", "as", "port"})
        address = _address(row.get("address"), f"{field}.address")
        asn = _number(row.get("as", numbers[name]), f"{field}.as", MOST_ASN)
        port = _number(row.get("port", BGP_PORT), f"{field}.port", MAX_PORT)
        if address in sessions:
            reason = f"{sessions[address].router} has the same address"
            raise InputError(reason, field=f"{field}.address", value=str(address))
        sessions[address] = BgpSession(name, address, asn, port)
    own = _number(top.get("as", CONTROLLER_AS), "as", MOST_ASN)
    router_id = _address(top.get("router_id", str(DEFAULT_ROUTER_ID)), "router_id")
    if not isinstance(router_id, IPv4Address) or not int(router_id):
        raise InputError("must be like an IPv4 address", field="router_id", value=str(router_id))
    for session in sessions.values():
        if session.asn == own:
            reason = "is the AS number of the controller, which must have one of its own"
            raise InputError(reason, field=f"routers.{session.router}.as", value=own)
    return BgpSessions(tuple(sessions.values()), own, router_id)


def _members(value: Any, field: str, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError("must be an object", field=field or "document", value=value)
    for name in value:
        if name not in known:
            where = f"{field}.{name}" if field else str(name)
            raise InputError(f"unknown; there are {', '.join(sorted(known))}", field=where)
    return value


def _address(value: Any, field: str) -> IPv4Address | IPv6Address:
    try:
        address = ip_address(value) if isinstance(value, str) else None
    except ValueError:
        address = None
    if address is None:
        raise InputError("is not an IP address", field=field, value=value)
    if address.is_link_local or address.is_multicast or address.is_unspecified:
        raise InputError("is no address by which a router is reached from other networks", field=field, value=value)
    return address


def _number(value: Any, field: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise InputError(f"must be a number from 1 to {most}", field=field, value=value)
    return value
