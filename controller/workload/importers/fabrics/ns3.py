"""Importer ``ns3``: topologies and flows of HPCC's ns-3 simulation, which SimAI and ASTRA-sim use as well.

Topology (``scratch/third.cc`` of alibaba-edu/High-Precision-Congestion-Control)::

    nodes switches links
    the switches' numbers
    node node 100Gbps 1000ns 0.000000      one a link: rate, delay, error rate

SimAI's first line (``gen_Topo_Template.py``) has six words: nodes, GPUs a server, NVSwitches, switches, links, and the
GPU's type, and in some versions a seventh; the second line has the NVSwitches, then the switches. GPUs are servers in
their order, and their links to NVSwitches are no part of the network. In simulations built on HPCC's, a first line of
four words has the number of leaves before that of the links, and one of six numbers two capacities behind it.

Flows are ``source destination priority port bytes seconds``, one a line, behind their number; those of ConWeave have
no port. The simulations read as many links and flows as the first lines say: what follows is left out. Rates are
written as ns-3's ``DataRate`` reads them; a number without a unit is bit/s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from controller.model.errors import InputError
from controller.model.files.fabric_forms import MAX_GBPS
from controller.model.job import FlowList, Job
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fabrics.graph import Graph, ReadCable, document_of
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.head import Head
from controller.workload.importers.streams import lines

HEADS = (3, 4, 6, 7)
"""Words that a topology's first line can have."""

_FEWEST = HEADS[0]
SIMAI_WORDS = 6
FLOW_COLUMNS = (5, 6)
LINK_COLUMNS = 5

_RATE = re.compile(r"([0-9.eE+-]+)(?:([kKmMgGtT])(i?))?(bps|b/s|Bps|B/s)?")
_FACTORS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
"""Powers of 1000, or of 1024 in units with an i."""


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    rows = [line.split() for line in head.lines[:8]]
    if len(rows) >= 3 and len(rows[0]) in HEADS and rows[0][0].isdigit():
        links = (row for row in rows[1:] if len(row) == LINK_COLUMNS)
        if any(_is_number(row[0]) and _is_number(row[1]) and _RATE.fullmatch(row[2]) for row in links):
            return "an ns-3 topology (HPCC, SimAI, ASTRA-sim): a fabric"
    if len(rows) >= 2 and len(rows[0]) == 1 and rows[0][0].isdigit() and len(rows[1]) in FLOW_COLUMNS:
        return "flows of HPCC's ns-3 simulation" if all(_is_number(word) for word in rows[1]) else ""
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a topology, a file of flows, or one of each.

    Raises:
        InputError: a line is invalid, the number of lines differs from the stated one, or the network has not two or
            three layers.
    """
    shapes = [source for source in sources if _is_topology(source)]
    files = [source for source in sources if source not in shapes]
    for rows, what in ((shapes, "topology"), (files, "file of flows")):
        if len(rows) > 1:
            raise InputError(f"is a second {what} in addition to {rows[0].name}", source=rows[1].name)
    shape = _topology(shapes[0]) if shapes else None
    document = None if shape is None else document_of(shape.graph, request.gbps)
    if not files:
        if shape is None:
            raise InputError("no file is given")
        name = request.name or job_name(shapes[0], "ns3")
        return Imported(
            Job(name), True, 0, 0, 0, tuple(shape.graph.notes), document, warnings=tuple(shape.graph.warnings)
        )
    return _job(files[0], request, shape, document)


@dataclass
class _Topology:
    """A topology; ``hosts`` has the name in the fabric by the node's number."""

    graph: Graph
    hosts: dict[int, str] = field(default_factory=dict)


def _is_topology(source: Source) -> bool:
    for _, words in _filled(source):
        return len(words) in HEADS
    raise InputError("is empty", source=source.name)


def _filled(source: Source) -> Iterator[tuple[SourceLine, list[str]]]:
    for number, text in lines(source, limit=1 << 24):
        words = text.split()
        if words and not words[0].startswith("#"):
            yield SourceLine(source, number), words


def _topology(source: Source) -> _Topology:
    rows = _filled(source)
    place, words = next(rows)
    # The GPU's type is no number.
    simai = len(words) >= SIMAI_WORDS and not _is_number(words[SIMAI_WORDS - 1])
    at = (0, 2, 3, 4) if simai else (0, None, 1, 2 if len(words) == _FEWEST else 3)
    nodes = place.whole(words[0], "the number of nodes", 1, 2 * MAX_RANKS)
    per_server = place.whole(words[1], "the GPUs of a server", 1, MAX_RANKS) if simai else 1
    nv = place.whole(words[2], "the number of NVSwitches", 0, nodes) if simai else 0
    n_switches = place.whole(words[at[2] or 0], "the number of switches", 0, nodes)
    n_links = place.whole(words[at[3] or 0], "the number of links", 0, 1 << 23)
    place, words = next(rows, (place, []))
    # SimAI lists the NVSwitches first.
    numbers = [place.whole(word, "a switch", 0, nodes - 1) for word in words]
    if len(numbers) != n_switches + nv:
        raise place.error(f"{n_switches + nv} switches are announced, but there are {len(numbers)}")
    nvswitches, switches = set(numbers[:nv]), set(numbers[nv:])
    graph = Graph("ns3", source.name, switches={f"n{i}": None for i in numbers[nv:]})
    graph.servers = {f"n{i}": None for i in range(nodes) if i not in switches and i not in nvswitches}
    if simai:
        graph.server_of = {f"n{i}": (f"server{i // per_server}", i % per_server) for i in range(nodes - len(numbers))}
    left_out = count = further = 0
    for place, words in rows:
        if count == n_links:
            further += len(words) == LINK_COLUMNS and all(_is_number(word) for word in words[:2])
            continue
        count += 1
        cable, nvlink = _link(place, words, nodes, nvswitches)
        left_out += nvlink
        graph.cables += [] if nvlink else [cable]
    if count != n_links:
        raise place.error(f"{n_links} links are announced, but there are {count}")
    if left_out:
        graph.notes.append(f"{left_out} links to NVSwitches are within servers and left out")
    if further:
        graph.warnings.append(
            f"{source.name}: {n_links} links are announced, but {further} further lines look like links; they are left "
            "out, as in the simulation"
        )
    return _Topology(graph, {int(name[1:]): name for name in graph.servers})


def _link(place: SourceLine, words: list[str], nodes: int, nvswitches: set[int]) -> tuple[ReadCable, bool]:
    if len(words) != LINK_COLUMNS:
        raise place.error(f"a link must have {LINK_COLUMNS} columns, not {len(words)}", " ".join(words))
    a, b = (place.whole(word, "the node", 0, nodes - 1) for word in words[:2])
    gbps = _gbps(place, words[2])
    return ReadCable(f"n{a}", f"n{b}", gbps), a in nvswitches or b in nvswitches


def _gbps(place: SourceLine, text: str) -> float:
    match = _RATE.fullmatch(text)
    # 'bps' in small letters is bits, as the simulations' own files have it beside units in any letters.
    if match is None or (match[2] and not match[4]):
        raise place.error("is not a rate (100Gbps)", text)
    power = _FACTORS[(match[2] or "").lower()]
    bits = (8 if (match[4] or "")[:1] == "B" else 1) * float(1024 if match[3] else 1000) ** power
    gbps = place.decimal(match[1], "the rate", 1e20) * bits * 1e-9
    if not 0 < gbps <= MAX_GBPS:
        raise place.error(f"the rate is not above 0 and at most {MAX_GBPS:g} Gbit/s", text)
    return gbps


def _job(
    source: Source, request: ImportRequest, shape: _Topology | None, document: dict[str, object] | None
) -> Imported:
    rows = _filled(source)
    place, words = next(rows)
    if len(words) != 1:
        raise place.error("does not begin with the number of flows", " ".join(words))
    promised = place.whole(words[0], "the number of flows", 0, 10_000_000)
    flows: list[tuple[int, int, int, float]] = []
    more = 0
    for place, words in rows:
        if len(flows) < promised:
            flows.append(_flow(place, words))
        else:
            more += len(words) in FLOW_COLUMNS and all(_is_number(word) for word in words)
    if len(flows) != promised:
        raise place.error(f"{promised} flows are announced, but there are {len(flows)}")
    hosts = provisional_hosts(1 + max((max(row[:2]) for row in flows), default=0))
    if shape is not None:
        ends = Counter(end for cable in shape.graph.cables for end in (cable.a, cable.b))
        several = {name for name in shape.hosts.values() if ends[name] > 1}
        for src, dst, _, _ in flows:
            for node in (src, dst):
                if node not in shape.hosts:
                    raise InputError("the topology has no host of this number", source=source.name, value=node)
                if shape.hosts[node] in several:
                    raise InputError(
                        "this node has several cables, and the flow does not specify one",
                        source=source.name,
                        value=node,
                    )
    placed = shape is not None and request.fabric is None
    name = dict(enumerate(hosts)) if not placed or shape is None else shape.hosts
    starts = sorted({row[3] for row in flows})
    job = Job(
        name=request.name or job_name(source, "ns3"),
        hosts=hosts if not placed or shape is None else tuple(shape.hosts.values()),
        flows=FlowList(
            src=tuple(name[row[0]] for row in flows),
            dst=tuple(name[row[1]] for row in flows),
            bytes=np.array([row[2] for row in flows], dtype=np.int64),
            collective=tuple(f"start-{row[3]:.9g}".replace("+", "") for row in flows),
            udp_src=np.zeros(len(flows), dtype=np.int32),
        ),
    )
    warnings = [] if shape is None else list(shape.graph.warnings)
    warnings += [
        f"{source.name}: {promised} flows are announced, but {more} further lines look like flows; they are left "
        "out, as in the simulation"
    ][: 1 if more else 0]
    notes = [] if shape is None else list(shape.graph.notes)
    return Imported(job, placed, len(job.hosts), 0, len(starts), tuple(notes), document, warnings=tuple(warnings))


def _flow(place: SourceLine, words: list[str]) -> tuple[int, int, int, float]:
    if len(words) not in FLOW_COLUMNS:
        raise place.error(f"a flow must have {FLOW_COLUMNS[-1]} columns, not {len(words)}", " ".join(words))
    src, dst = (place.whole(word, "the node", 0, MAX_RANKS - 1) for word in words[:2])
    if src == dst:
        raise place.error("a node cannot send to itself", src)
    for word, what in zip(words[2:-2], ("the priority", "the port"), strict=False):
        place.whole(word, what, 0, MAX_PORT)
    return src, dst, place.whole(words[-2], "the bytes", 0, MAX_BYTES), place.decimal(words[-1], "the start", 1e9)


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()
