"""Importer ``htsim``: a connection matrix (``.cm``), a topology (``.topo``), or one of each.

A job from a connection matrix alone is on the provisional hosts rank0 .. rankN-1, one for each node, in the
order in which htsim numbers the hosts of a topology: leaf by leaf. With a topology it is on that fabric's hosts. A
topology alone is a fabric, and a job without ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import job_name
from controller.workload.importers.head import Head
from controller.workload.importers.htsim.connections import read_connections
from controller.workload.importers.htsim.matrix import job_of
from controller.workload.importers.htsim.topology import Topology, read_topology
from controller.workload.importers.streams import lines


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read one connection matrix, one topology, or both, in either order.

    Raises:
        InputError: a file is neither, there are two of a kind, a line is invalid, a connection never starts, or the
            topology has another size than the matrix.
    """
    matrix: Source | None = None
    shape: Source | None = None
    for source in sources:
        topology = _is_topology(source)
        other = shape if topology else matrix
        if other is not None:
            kind = "topology" if topology else "connection matrix"
            raise InputError(
                f"is a second {kind} in addition to {other.name}; an import is one job", source=source.name
            )
        if topology:
            shape = source
        else:
            matrix = source
    fabric = None if shape is None else read_topology(shape)
    notes = [] if fabric is None else list(fabric.notes)
    if matrix is None:
        if fabric is None or shape is None:
            raise InputError("no file is given")
        job = Job(request.name or job_name(shape, "htsim"))
        return Imported(job, True, 0, 0, 0, tuple(notes), fabric.document)
    connections = read_connections(matrix)
    if fabric is not None and fabric.nodes != connections.nodes:
        raise InputError(
            f"has {connections.nodes} nodes, the topology has {fabric.nodes}", source=matrix.name, field="Nodes"
        )
    on_topology = fabric is not None and request.fabric is None
    hosts = _hosts(fabric) if fabric is not None and on_topology else provisional_hosts(connections.nodes)
    job, collectives, more = job_of(connections, hosts, request)
    return Imported(
        job=job,
        placed=on_topology,
        ranks=connections.nodes,
        groups=0,
        collectives=collectives,
        notes=(*notes, *more),
        fabric=None if fabric is None else fabric.document,
    )


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    words = [line.split() for line in head.lines if not line.lstrip().startswith("#")][:200]
    firsts = {row[0].lower() for row in words}
    if "tiers" in firsts and "tier" in firsts:
        return "an htsim topology (.topo)"
    if "nodes" in firsts and any("->" in row[0] for row in words):
        return "an htsim connection matrix (.cm)"
    return ""


def _hosts(topology: Topology) -> tuple[str, ...]:
    """Return the host names of a fabric's short form."""
    return tuple(f"h{i}" for i in range(1, topology.nodes + 1))


def _is_topology(source: Source) -> bool:
    """Return whether the file is a topology, by the first word that only one of the two formats has.

    Raises:
        InputError: no line has such a word.
    """
    for _, text in lines(source):
        words = text.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].lower() in ("tiers", "podsize", "tier"):
            return True
        if words[0] in ("Connections", "Triggers", "trigger") or "->" in words[0]:
            return False
    raise InputError("is neither a connection matrix nor a topology of htsim", source=source.name)
