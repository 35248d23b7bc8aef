"""Importer ``traffic-pairs``: the traffic files of dcn-simulators, one job a file.

A job of that simulator computes, then runs all of its rings at once; a ring makes 2 (n - 1) steps, in each of which
every member sends the given bytes to the next. That is a ring all-reduce of n times those bytes
(``collectives.ring``). A line is one edge of a ring:

    source  destination  source leaf  destination leaf  start (ns)  bytes a step  computing (ns)  ring

Nodes are numbered leaves first, then spines, then hosts leaf by leaf, as in ``topology.properties`` of the same
project, which is read if it is given with the traffic. Ranks are the file's hosts in order of their
numbers; rings keep the order in which they send.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_forms import MAX_HOSTS_PER_LEAF
from controller.model.job import CollectiveCall, Job
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.head import Head
from controller.workload.importers.streams import lines
from controller.workload.importers.times import computing

COLUMNS = 8

MAX_CABLES = 1 << 22

_SUFFIX = ".properties"

_PROPERTY = re.compile(r"\s*([A-Za-z0-9_]{1,64})\s*=\s*(.*\S)\s*")
_RANGE = re.compile(r"incl_range\(([0-9]{1,9}),([0-9]{1,9})\)")


@dataclass(frozen=True)
class _Shape:
    """A leaf-spine fabric in the simulator's numbers: leaves 0 .. L-1, then spines, then hosts leaf by leaf."""

    leaves: int
    spines: int
    hosts_per_leaf: int
    gbps: float

    @property
    def first_host(self) -> int:
        return self.leaves + self.spines

    def document(self) -> dict[str, object]:
        return {
            "clos": {
                "spines": self.spines,
                "leaves": self.leaves,
                "hosts_per_leaf": self.hosts_per_leaf,
                "host_gbps": self.gbps,
                "uplink_gbps": self.gbps,
            }
        }


@dataclass
class _Ring:
    """A ring as far as it was read: the next host of each."""

    place: SourceLine
    bytes: int
    next: dict[int, int] = field(default_factory=dict)


@dataclass
class _Traffic:
    rings: dict[int, _Ring] = field(default_factory=dict)
    leaf: dict[int, tuple[int, SourceLine]] = field(default_factory=dict)
    computing_ns: int = 0


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read one traffic file, and its topology if it is given.

    Raises:
        InputError: a line is invalid, a ring does not close, a host is on another leaf than in the topology,
            or there are several traffic files.
    """
    shapes = [source for source in sources if source.name.endswith(_SUFFIX)]
    files = [source for source in sources if not source.name.endswith(_SUFFIX)]
    if len(shapes) > 1:
        raise InputError(f"is a second topology in addition to {shapes[0].name}", source=shapes[1].name)
    if len(files) != 1:
        raise InputError(
            f"{len(files)} traffic files are {len(files)} jobs, each with its own rings: import each one separately"
            if files
            else "none of the files is a traffic file",
            source=files[1].name if files else "",
        )
    shape = _read_shape(shapes[0]) if shapes else None
    traffic = _read(files[0])
    nodes = sorted(traffic.leaf)
    notes = [f"{files[0].name}: start times are left out"]
    if shape is not None:
        _check_shape(shape, traffic)
    hosts, reason = _hosts(request.fabric, shape, traffic, nodes)
    if reason:
        notes.append(f"{files[0].name}: {reason}; ranks are not placed yet")
    rank = {node: i for i, node in enumerate(nodes)}
    calls = tuple(
        CollectiveCall(f"ring{number}", "all_reduce", tuple(rank[node] for node in order), size, "ring")
        for number, order, size in _closed(traffic)
    )
    job = Job(
        name=request.name or job_name(files[0], "traffic-pairs"),
        hosts=hosts or provisional_hosts(len(nodes)),
        collectives=calls,
        timing=computing({0: traffic.computing_ns / 1e9}, files[0].name),
    )
    return Imported(
        job=job,
        placed=bool(hosts),
        ranks=len(nodes),
        groups=len(calls),
        collectives=len(calls),
        notes=tuple(notes),
        fabric=None if shape is None else shape.document(),
    )


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.file.endswith(_SUFFIX) and "switches_which_are_tors" in head.text:
        return "a topology of dcn-simulators: give it together with a traffic file"
    rows = [line.partition("#")[0].split() for line in head.lines[:-1] or head.lines]
    rows = [row for row in rows if row]
    if rows and all(len(row) == COLUMNS and all(word.isdigit() for word in row) for row in rows):
        return "a traffic file of dcn-simulators: rings of one job"
    return ""


def _read(source: Source) -> _Traffic:
    traffic = _Traffic()
    for number, text in lines(source):
        words = text.partition("#")[0].split()
        if words:
            _add(traffic, SourceLine(source, number), words)
    if not traffic.rings:
        raise InputError("has no lines of traffic", source=source.name)
    return traffic


def _add(traffic: _Traffic, place: SourceLine, words: list[str]) -> None:
    if len(words) != COLUMNS:
        raise place.error(f"a line must have {COLUMNS} columns, not {len(words)}", " ".join(words))
    src, dst, src_leaf, dst_leaf = (
        place.whole(word, f"column {i}, a node,", 0, 2 * MAX_RANKS) for i, word in enumerate(words[:4], start=1)
    )
    place.whole(words[4], "column 5, the start,")
    size = place.whole(words[5], "column 6, the bytes,", 0, MAX_BYTES)
    traffic.computing_ns = max(traffic.computing_ns, place.whole(words[6], "column 7, the computing time,"))
    number = place.whole(words[7], "column 8, the ring,", 0, 2**31 - 1)
    if src == dst:
        raise place.error("a host cannot send to itself", src)
    for node, leaf in ((src, src_leaf), (dst, dst_leaf)):
        said, where = traffic.leaf.setdefault(node, (leaf, place))
        if said != leaf:
            raise place.error(f"host {node} is on leaf {said} in line {where.line}", leaf)
    if len(traffic.leaf) > MAX_RANKS:
        raise place.error(f"there are more than {MAX_RANKS} hosts")
    ring = traffic.rings.setdefault(number, _Ring(place, size))
    if ring.bytes != size:
        raise place.error(f"ring {number} sends {ring.bytes} bytes a step in line {ring.place.line}", size)
    if src in ring.next:
        raise place.error(f"host {src} sends twice in ring {number}")
    ring.next[src] = dst


def _closed(traffic: _Traffic) -> Iterator[tuple[int, list[int], int]]:
    """Yield number, hosts in order and bytes of the whole buffer, of each ring.

    Raises:
        InputError: a ring is not closed.
    """
    for number, ring in traffic.rings.items():
        first = next(iter(ring.next))
        order = [first]
        while (node := ring.next.get(order[-1], first)) != first and len(order) < len(ring.next):
            order.append(node)
        if len(order) != len(ring.next) or ring.next.get(order[-1]) != first:
            raise ring.place.error(f"the lines of ring {number} do not form one closed ring")
        size = len(order) * ring.bytes
        if size > MAX_BYTES:
            raise ring.place.error(f"ring {number} reduces more than {MAX_BYTES} bytes", size)
        yield number, order, size


def _hosts(
    fabric: Fabric | None, shape: _Shape | None, traffic: _Traffic, nodes: list[int]
) -> tuple[tuple[str, ...], str]:
    """Return the hosts of the nodes, or none and the reason."""
    if fabric is None and shape is None:
        return (), ""
    if fabric is None and shape is not None:
        return tuple(f"h{node - shape.first_host + 1}" for node in nodes), ""
    assert fabric is not None
    first = fabric.n_leaves + fabric.n_spines
    by_leaf = sorted(range(fabric.n_hosts), key=lambda host: int(fabric.host_leaf[host]))
    hosts = []
    for node in nodes:
        leaf = traffic.leaf[node][0]
        if not 0 <= node - first < fabric.n_hosts:
            return (), f"the fabric's hosts would be {first} .. {first + fabric.n_hosts - 1}, but there is a {node}"
        host = by_leaf[node - first]
        if int(fabric.host_leaf[host]) != leaf:
            return (), f"host {node} is on leaf {leaf}, but on {fabric.hosts[host].leaf} in the fabric"
        hosts.append(fabric.host_names[host])
    return tuple(hosts), ""


def _check_shape(shape: _Shape, traffic: _Traffic) -> None:
    for node, (leaf, place) in traffic.leaf.items():
        seat = node - shape.first_host
        if not 0 <= seat < shape.leaves * shape.hosts_per_leaf:
            raise place.error("the topology has no host of this number", node)
        if seat // shape.hosts_per_leaf != leaf:
            raise place.error(f"host {node} is on leaf {seat // shape.hosts_per_leaf} in the topology", leaf)


def _read_shape(source: Source) -> _Shape:
    """Read ``topology.properties``: leaves, spines and hosts as ranges of nodes.

    Every leaf has a cable to every spine and an equal share of the hosts, in order.
    """
    values: dict[str, tuple[SourceLine, str]] = {}
    for number, text in lines(source):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        place = SourceLine(source, number)
        match = _PROPERTY.fullmatch(text)
        if match is None:
            raise place.error("is not a property", text[:80])
        values[match[1]] = (place, match[2])
    leaves, spines, hosts = (_nodes(source, values, name) for name in ("switches_which_are_tors", "cores", "servers"))
    if (leaves.start, spines.start, hosts.start) != (0, leaves.stop, spines.stop):
        raise InputError("does not have its nodes in the order leaves, spines, hosts", source=source.name)
    per_leaf, rest = divmod(len(hosts), len(leaves))
    if rest:
        raise InputError(f"{len(hosts)} hosts are not a multiple of {len(leaves)} leaves", source=source.name)
    if per_leaf > MAX_HOSTS_PER_LEAF:
        raise InputError(f"has {per_leaf} hosts per leaf, more than {MAX_HOSTS_PER_LEAF}", source=source.name)
    if len(leaves) * len(spines) > MAX_CABLES:
        raise InputError(f"has more than {MAX_CABLES} cables", source=source.name)
    place, edges = _value(source, values, "undirected_edges")
    for i, edge in enumerate(_edges(leaves, spines, hosts, per_leaf)):
        given, _, edges = edges.partition(",")
        if given.removeprefix("incl_range(").removesuffix(")").strip() != edge:
            raise place.error(
                f"edge {i + 1} is not {edge}: every leaf must have all spines and its share of hosts", given
            )
    if edges:
        raise place.error("there are more edges than leaves, spines and hosts require", edges[:80])
    place, speed = _value(source, values, "link_data_rate_bit_per_ns")
    gbps = place.decimal(speed, "the data rate", 1_000_000)
    if not gbps:
        raise place.error("the data rate is 0", speed)
    return _Shape(len(leaves), len(spines), per_leaf, gbps)


def _edges(leaves: range, spines: range, hosts: range, per_leaf: int) -> Iterator[str]:
    """Yield ``undirected_edges`` of a leaf-spine fabric: all leaves to all spines, then each leaf's hosts."""
    yield f"{_span(leaves)}-{_span(spines)}"
    for leaf in leaves:
        first = hosts.start + leaf * per_leaf
        yield f"{_span(range(first, first + per_leaf))}-{leaf}"


def _span(nodes: range) -> str:
    return f"{nodes.start}:{nodes.stop - 1}"


def _nodes(source: Source, values: dict[str, tuple[SourceLine, str]], name: str) -> range:
    place, text = _value(source, values, name)
    match = _RANGE.fullmatch(text)
    if match is None:
        raise place.error(f"{name} is not incl_range(first,last)", text[:80])
    first, last = int(match[1]), int(match[2])
    if not first <= last < 2 * MAX_RANKS:
        raise place.error(f"{name} is not a range of nodes below {2 * MAX_RANKS}", text)
    return range(first, last + 1)


def _value(source: Source, values: dict[str, tuple[SourceLine, str]], name: str) -> tuple[SourceLine, str]:
    if name not in values:
        raise InputError("is missing", source=source.name, field=name)
    return values[name]
