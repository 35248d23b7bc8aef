"""The plan of one host: what it takes in, and over which paths its packets go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple, TypeVar

from agent.flow_keys import PROTOCOLS, Address, flow_key
from controller.model.errors import InputError

T = TypeVar("T")

MOST_PORT = 0xFFFF


class PathChoice(NamedTuple):
    """The paths of a flow, by their carriers: the planned one, its backups in order; and how it is probed.

    Attributes:
        carriers: addresses that make packets take a path.
        probe: an address over the planned path and back; ``None``: there is none.
    """

    carriers: tuple[IPv6Address, ...]
    probe: IPv6Address | None


class OwnSegment(NamedTuple):
    """A prefix of addresses; packets to it have an IP packet of the version ``inner`` for this host in them."""

    prefix: IPv6Network
    inner: int


@dataclass(frozen=True)
class HostPlan:
    """The plan of a host: what it decapsulates, and which carriers its packets have.

    Attributes:
        epoch: number of the plan.
        digest: hash of what it says to this host; empty: not known. Another number or hash is another plan.
        host: name of the host in the fabric file.
        mode: that of the controller.
        source: the address from which packets with a carrier come.
        decapsulate: what the host takes in.
        destinations: carriers of packets that belong to no planned flow, by packed address of the destination.
        flows: the paths of planned flows, by ``flow_keys.flow_key``.
    """

    epoch: int
    host: str
    mode: str
    source: IPv6Address
    decapsulate: tuple[OwnSegment, ...] = ()
    destinations: Mapping[bytes, IPv6Address] = field(default_factory=dict)
    flows: Mapping[bytes, PathChoice] = field(default_factory=dict)
    digest: str = ""

    @property
    def id(self) -> tuple[int, str]:
        """Return the epoch and the digest, which identify the plan."""
        return self.epoch, self.digest


def read_plan(document: Any) -> HostPlan:
    """Return the plan in a document of the controller.

    Raises:
        InputError: a field is missing or wrong.
    """
    if not isinstance(document, dict):
        raise InputError("is not an object", value=document)
    epoch = _member(document, "", "epoch", int)
    segments = [_segment(each, f"decapsulate[{n}]") for n, each in enumerate(_rows(document, "decapsulate"))]
    destinations = {}
    for number, row in enumerate(_rows(document, "destinations")):
        where = f"destinations[{number}]."
        destinations[_address(row, where, "dst").packed] = _carrier(row, where, "carrier")
    flows = {}
    for number, row in enumerate(_rows(document, "flows")):
        where = f"flows[{number}]."
        flows[_key(row, where)] = _choice(row, where)
    return HostPlan(
        epoch,
        _member(document, "", "host", str),
        _member(document, "", "mode", str),
        _carrier(document, "", "source"),
        tuple(segments),
        destinations,
        flows,
        _member(document, "", "digest", str) if "digest" in document else "",
    )


def _member(row: Any, where: str, name: str, kind: type[T]) -> T:
    if not isinstance(row, dict):
        raise InputError("is not an object", field=where.rstrip("."), value=row)
    if name not in row:
        raise InputError("is missing", field=where + name)
    value = row[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError("has the wrong type", field=where + name, value=value)
    return value


def _rows(document: dict[str, Any], name: str) -> list[Any]:
    return _member(document, "", name, list)


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> Address:
    return ip_address(text)


@lru_cache(maxsize=1 << 16)
def _parsed_carrier(text: str) -> IPv6Address:
    return IPv6Address(text)


def _convert(convert: Callable[[str], T], text: str, field: str, what: str) -> T:
    try:
        return convert(text)
    except ValueError:
        raise InputError(f"is not {what}", field=field, value=text) from None


def _address(row: Any, where: str, name: str) -> Address:
    return _convert(_parsed, _member(row, where, name, str), where + name, "an IP address")


def _carrier(row: Any, where: str, name: str) -> IPv6Address:
    return _convert(_parsed_carrier, _member(row, where, name, str), where + name, "an IPv6 address")


def _segment(row: Any, where: str) -> OwnSegment:
    text, inner = _member(row, f"{where}.", "segment", str), _member(row, f"{where}.", "inner", int)
    if inner not in (4, 6):
        raise InputError("is neither 4 nor 6", field=f"{where}.inner", value=inner)
    return OwnSegment(_convert(IPv6Network, text, f"{where}.segment", "an IPv6 prefix"), inner)


def _key(row: Any, where: str) -> bytes:
    src, dst = _address(row, where, "src"), _address(row, where, "dst")
    if src.version != dst.version:
        raise InputError(f"is of another version of IP than {src}", field=f"{where}dst", value=str(dst))
    protocol = _member(row, where, "protocol", str)
    if protocol not in PROTOCOLS:
        raise InputError(f"is none of {', '.join(PROTOCOLS)}", field=f"{where}protocol", value=protocol)
    ports = []
    for name in ("src_port", "dst_port"):
        port = _member(row, where, name, int)
        if not 0 < port <= MOST_PORT:
            raise InputError("is not a port", field=where + name, value=port)
        ports.append(port)
    return flow_key(src, dst, protocol, *ports)


def _choice(row: Any, where: str) -> PathChoice:
    carriers = [_carrier(row, where, "carrier")]
    for number, text in enumerate(_member(row, where, "backups", list)):
        field = f"{where}backups[{number}]"
        if not isinstance(text, str):
            raise InputError("has the wrong type", field=field, value=text)
        carriers.append(_convert(_parsed_carrier, text, field, "an IPv6 address"))
    probe = _carrier(row, where, "probe") if row.get("probe") is not None else None
    return PathChoice(tuple(dict.fromkeys(carriers)), probe)
