"""The plan of one host: what it takes in, and over which paths its packets go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network, ip_address
from typing import Any, NamedTuple, TypeVar

from agent.fields import converted, member, pace
from agent.plans.flow_keys import PROTOCOLS, Address, flow_key
from controller.model.errors import InputError

K = TypeVar("K")
V = TypeVar("V")

MOST_PORT = 0xFFFF
MOST_SECONDS = 3600.0
CODE_POINTS = (0, 16, 24, 32)
"""DSCP of the packets of each class of priority, as in ``controller/model/priority.py``."""

SLOTS = 128
"""Weights of paths are numbers of these; each packet takes one at random. NICs that spray have as many, or 256."""


class SpreadPath(NamedTuple):
    """One of the paths over which packets are spread: its carrier, how many of ``SLOTS`` it has, and its probe."""

    carrier: IPv6Address
    slots: int
    probe: IPv6Address | None


class PathChoice(NamedTuple):
    """The paths of a flow, by their carriers: the planned one, its backups in order; and how it is probed.

    Attributes:
        carriers: addresses that make packets take a path.
        probe: an address over the planned path and back; ``None``: there is none.
        spread: the paths over which packets are spread, whose carriers are the first ones; empty: all take one path.
        priority: class of its packets, by which they are marked; 0: their DSCP is left as it is.
    """

    carriers: tuple[IPv6Address, ...]
    probe: IPv6Address | None
    spread: tuple[SpreadPath, ...] = ()
    priority: int = 0

    @property
    def probes(self) -> Iterator[tuple[IPv6Address, IPv6Address]]:
        """Each probe, and the carrier of its path."""
        if self.spread:
            yield from ((each.probe, each.carrier) for each in self.spread if each.probe is not None)
        elif self.probe is not None:
            yield self.probe, self.carriers[0]


class OwnSegment(NamedTuple):
    """A prefix of addresses; packets to it have an IP packet of the version ``inner`` for this host in them."""

    prefix: IPv6Network
    inner: int


class FlowChanges(NamedTuple):
    """The flows of a plan that are others than in an earlier one, or only in one of the two.

    Attributes:
        earlier: epoch and digest of that plan.
        keys: of the flows.
    """

    earlier: tuple[int, str]
    keys: tuple[bytes, ...]


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
        destinations: the paths of packets that belong to none of ``flows``, by packed address of the destination.
        flows: the paths of planned flows, by ``flow_keys.flow_key``.
        probes: addresses over single cables and back, which tell the controller which of them work.
        bypass_probes: addresses that come back only where a switch passes over another one.
        report_seconds: between two reports in which nothing is new, at least: one controller hears thousands.
        paces: bit/s on the link, headers included, of the flows that the host is asked to pace.
        changes: its flows beside those of an earlier plan; ``None``: not known.
    """

    epoch: int
    host: str
    mode: str
    source: IPv6Address
    decapsulate: tuple[OwnSegment, ...] = ()
    destinations: Mapping[bytes, PathChoice] = field(default_factory=dict)
    flows: Mapping[bytes, PathChoice] = field(default_factory=dict)
    digest: str = ""
    probes: tuple[IPv6Address, ...] = ()
    paces: Mapping[bytes, int] = field(default_factory=dict)
    report_seconds: float = 0.0
    bypass_probes: tuple[IPv6Address, ...] = ()
    changes: FlowChanges | None = field(default=None, compare=False)

    @property
    def id(self) -> tuple[int, str]:
        """Return the epoch and the digest, which identify the plan."""
        return self.epoch, self.digest

    @property
    def choices(self) -> list[PathChoice]:
        """Return all choices of paths, each once."""
        return [*dict.fromkeys((*self.flows.values(), *self.destinations.values()))]


def read_plan(document: Any, earlier: HostPlan | None = None) -> HostPlan:
    """Return the plan in a document of the controller.

    Args:
        document: of a whole plan, or of the changes of an earlier one.
        earlier: that one.

    Raises:
        InputError: a field is missing or wrong; or there are changes of another plan than ``earlier``.
    """
    if not isinstance(document, dict):
        raise InputError("is not an object", value=document)
    epoch = member(document, "", "epoch", int)
    segments = [_segment(each, f"decapsulate[{n}]") for n, each in enumerate(_rows(document, "decapsulate"))]
    if document.get("changes_of") is None:
        earlier = None
    elif earlier is None or document["changes_of"] != earlier.digest:
        raise InputError("is that of another plan", field="changes_of", value=document["changes_of"])
    destinations: Mapping[bytes, PathChoice]
    if earlier is not None and document.get("destinations") is None:
        destinations = earlier.destinations
    else:
        destinations = _destinations(document)
    flows, paces, changes = _flows(document, earlier)
    return HostPlan(
        epoch,
        member(document, "", "host", str),
        member(document, "", "mode", str),
        _carrier(document, "", "source"),
        tuple(segments),
        destinations,
        flows,
        member(document, "", "digest", str) if "digest" in document else "",
        tuple(_addresses(document, "probes", "")) if "probes" in document else (),
        paces,
        _seconds(document, "report_seconds") if "report_seconds" in document else 0.0,
        tuple(_addresses(document, "bypass_probes", "")) if "bypass_probes" in document else (),
        changes,
    )


def _destinations(document: dict[str, Any]) -> dict[bytes, PathChoice]:
    destinations = {}
    for number, row in enumerate(_rows(document, "destinations")):
        where = f"destinations[{number}]."
        destinations[_address(row, where, "dst").packed] = _choice(row, where)
    return destinations


def _flows(
    document: dict[str, Any], earlier: HostPlan | None
) -> tuple[Mapping[bytes, PathChoice], Mapping[bytes, int], FlowChanges | None]:
    """Return the paths of flows, their paces, and what of them is new."""
    gone = [] if earlier is None else [_key(row, f"gone[{n}].") for n, row in enumerate(_rows(document, "gone"))]
    come, paced = {}, {}
    for number, row in enumerate(_rows(document, "flows")):
        where = f"flows[{number}]."
        key = _key(row, where)
        come[key] = _choice(row, where)
        if (rate := pace(row, where)) is not None:
            paced[key] = rate
    if earlier is None:
        return come, paced, None
    flows, paces = copied(earlier.flows), earlier.paces
    flows.update(come)
    for key in gone:
        flows.pop(key, None)
    if paced or any(key in paces for key in (*come, *gone)):
        changed = {*come, *gone}
        paces = {**{key: rate for key, rate in paces.items() if key not in changed}, **paced}
    return flows, paces, FlowChanges(earlier.id, (*come, *gone))


def _seconds(document: dict[str, Any], name: str) -> float:
    value = document[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MOST_SECONDS:
        raise InputError("is no number of seconds up to an hour", field=name, value=value)
    return float(value)


def _rows(document: dict[str, Any], name: str) -> list[Any]:
    return member(document, "", name, list)


@lru_cache(maxsize=1 << 16)
def _parsed(text: str) -> Address:
    return ip_address(text)


@lru_cache(maxsize=1 << 16)
def _parsed_carrier(text: str) -> IPv6Address:
    return IPv6Address(text)


def _address(row: Any, where: str, name: str) -> Address:
    return converted(_parsed, member(row, where, name, str), where + name, "an IP address")


def _carrier(row: Any, where: str, name: str) -> IPv6Address:
    return converted(_parsed_carrier, member(row, where, name, str), where + name, "an IPv6 address")


def _addresses(row: Any, name: str, where: str) -> Iterator[IPv6Address]:
    for number, text in enumerate(member(row, where, name, list)):
        field = f"{where}{name}[{number}]"
        if not isinstance(text, str):
            raise InputError("has the wrong type", field=field, value=text)
        yield converted(_parsed_carrier, text, field, "an IPv6 address")


def _segment(row: Any, where: str) -> OwnSegment:
    text, inner = member(row, f"{where}.", "segment", str), member(row, f"{where}.", "inner", int)
    if inner not in (4, 6):
        raise InputError("is neither 4 nor 6", field=f"{where}.inner", value=inner)
    return OwnSegment(converted(IPv6Network, text, f"{where}.segment", "an IPv6 prefix"), inner)


def _key(row: Any, where: str) -> bytes:
    src, dst = _address(row, where, "src"), _address(row, where, "dst")
    if src.version != dst.version:
        raise InputError(f"is of another version of IP than {src}", field=f"{where}dst", value=str(dst))
    protocol = member(row, where, "protocol", str)
    if protocol not in PROTOCOLS:
        raise InputError(f"is none of {', '.join(PROTOCOLS)}", field=f"{where}protocol", value=protocol)
    ports = []
    for name in ("src_port", "dst_port"):
        port = member(row, where, name, int)
        if not 0 < port <= MOST_PORT:
            raise InputError("is not a port", field=where + name, value=port)
        ports.append(port)
    return flow_key(src, dst, protocol, *ports)


def _choice(row: Any, where: str) -> PathChoice:
    carriers = [_carrier(row, where, "carrier")]
    if "backups" in row:
        carriers += _addresses(row, "backups", where)
    probe = _carrier(row, where, "probe") if row.get("probe") is not None else None
    spread = _spread(row["paths"], where) if row.get("paths") else ()
    every = tuple(dict.fromkeys([*(each.carrier for each in spread), *carriers]))
    return PathChoice(every, probe, spread, _priority(row, where))


def _priority(row: Any, where: str) -> int:
    """Return the class that packets with the DSCP of a row have."""
    code_point = row.get("dscp")
    if code_point is None:
        return 0
    if isinstance(code_point, bool) or code_point not in CODE_POINTS:
        raise InputError(f"is none of {', '.join(map(str, CODE_POINTS))}", field=f"{where}dscp", value=code_point)
    return CODE_POINTS.index(code_point)


def _spread(rows: Any, where: str) -> tuple[SpreadPath, ...]:
    """Return the paths over which packets are spread, the heaviest first."""
    if not isinstance(rows, list):
        raise InputError("has the wrong type", field=f"{where}paths", value=rows)
    paths = []
    for number, row in enumerate(rows):
        at = f"{where}paths[{number}]."
        carrier, weight = _carrier(row, at, "carrier"), row.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= 1:
            raise InputError("is no weight above 0 and up to 1", field=f"{at}weight", value=weight)
        probe = _carrier(row, at, "probe") if row.get("probe") is not None else None
        paths.append((carrier, float(weight), probe))
    if len({carrier for carrier, _, _ in paths}) < len(paths):
        raise InputError("has a carrier twice", field=f"{where}paths", value=rows)
    paths.sort(key=lambda path: (-path[1], path[0]))
    slots = divided(SLOTS, [weight for _, weight, _ in paths])
    return tuple(SpreadPath(carrier, own, probe) for (carrier, _, probe), own in zip(paths, slots, strict=True) if own)


def copied(table: Mapping[K, V]) -> dict[K, V]:
    """Return a copy of a table that may be large: of all ways, the method of ``dict`` takes the least time."""
    return table.copy() if isinstance(table, dict) else dict(table)


def divided(slots: int, weights: Sequence[float]) -> list[int]:
    """Return how many slots each weight gets: all slots, by largest remainders."""
    parts = [slots * weight / sum(weights) for weight in weights]
    whole = [int(part) for part in parts]
    by_rest = sorted(range(len(parts)), key=lambda i: (whole[i] - parts[i], i))
    for i in by_rest[: slots - sum(whole)]:
        whole[i] += 1
    return whole
