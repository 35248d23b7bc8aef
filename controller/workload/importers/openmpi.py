"""Importer ``openmpi-monitoring``: what OpenMPI's monitoring component counted, a file a rank.

``mpirun --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 --mca pml_monitoring_filename prefix``
writes ``prefix.RANK.prof`` at the end of a run (Bosilca, Foyer, Jeannot, Mercier, Online dynamic monitoring of
MPI communications, Euro-Par 2017). Its lines name the rank, the other rank, bytes and messages:

- ``E`` and ``I``: messages of the program, and of OpenMPI's own collectives; with ``pml_monitoring_enable 1`` both are
  ``E``. So algorithms are known by what they have sent, and no formula is applied.
- ``S`` and ``R``: one-sided, put to the other rank and got from it.
- ``C``, ``D``, ``O2A``, ``A2O``, ``A2A``: collectives as they were called, which the messages above carried out.

Bytes are those of the program's buffers, without headers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np

from controller.model.errors import InputError
from controller.model.job import FlowList, Job
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.workload.importers import streams
from controller.workload.importers.base import Imported, ImportRequest, Source, provisional_hosts
from controller.workload.importers.fields import MAX_RANKS, SourceLine, job_name
from controller.workload.importers.head import Head

_SENT = re.compile(r"([EISR])\t(\d{1,20})\t(\d{1,20})\t(\d{1,20}) bytes\t\d{1,20} msgs sent(?:\t.*)?")
_CALLED = re.compile(r"(?:C|O2A|A2O|A2A)\t(\d{1,20})\t.*")
_GROUP = re.compile(r"D\t.*procs: (?:.*,)?(\d{1,20})")
_OTHER = re.compile(r"# [A-Z ]+|D\t.*")
_COLLECTIVE = {"E": "messages", "I": "collectives", "S": "one-sided", "R": "one-sided"}
_GOT = "R"

Edge = tuple[str, int, int]
"""Collective, sender, receiver."""


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.text.startswith("# POINT TO POINT\n"):
        return "what OpenMPI's monitoring counted, of one rank"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from the files of its ranks.

    Raises:
        InputError: a line cannot be, two files are of one rank, or no rank has sent anything.
    """
    sent: dict[Edge, int] = {}
    file_of: dict[int, str] = {}
    named: set[int] = set()
    for source in sources:
        own = _take(source, sent, named)
        for rank in own:
            if rank in file_of:
                raise InputError(f"has rank {rank}, as {file_of[rank]} has", source=source.name)
            file_of[rank] = source.name
    if not sources:
        raise InputError("no file is given")
    edges = {edge: size for edge, size in sorted(sent.items()) if size and edge[1] != edge[2]}
    if not edges:
        raise InputError(
            "no rank has sent another one anything (pml_monitoring_enable_output 3)", source=sources[0].name
        )
    n = 1 + max(*file_of, *named)
    return _imported(edges, n, file_of.keys(), request, sources[0])


def _take(source: Source, sent: dict[Edge, int], named: set[int]) -> set[int]:
    """Add what a file counts, and all ranks that it names; return the ranks of which it is."""
    own: set[int] = set()
    for number, line in streams.lines(source):
        place, text = SourceLine(source, number), line.rstrip()
        if row := _SENT.fullmatch(text):
            rank, peer = (place.whole(word, "the rank", 0, MAX_RANKS - 1) for word in row.group(2, 3))
            ends = (peer, rank) if row[1] == _GOT else (rank, peer)
            edge = (_COLLECTIVE[row[1]], *ends)
            sent[edge] = sent.get(edge, 0) + place.whole(row[4], "the bytes", 0, MAX_BYTES)
            own.add(rank)
            named |= {rank, peer}
        elif called := _CALLED.fullmatch(text):
            own.add(place.whole(called[1], "the rank", 0, MAX_RANKS - 1))
        elif group := _GROUP.fullmatch(text):
            named.add(place.whole(group[1], "the rank", 0, MAX_RANKS - 1))
        elif text and not _OTHER.fullmatch(text):
            raise place.error("is no line of OpenMPI's monitoring", text)
    return own


def _imported(
    edges: dict[Edge, int], n: int, known: Collection[int], request: ImportRequest, first: Source
) -> Imported:
    hosts = provisional_hosts(n)
    sizes = np.array(list(edges.values()), dtype=np.int64)
    # Rounded up, so that no flow is lost.
    of_iteration = -(-sizes // request.iterations)
    flows = FlowList(
        src=tuple(hosts[src] for _, src, _ in edges),
        dst=tuple(hosts[dst] for _, _, dst in edges),
        bytes=of_iteration,
        collective=tuple(kind for kind, _, _ in edges),
        udp_src=np.zeros(len(edges), dtype=np.int32),
    )
    missing = [rank for rank in range(n) if rank not in known]
    warnings = []
    if missing:
        listed = ", ".join(map(str, missing[:8])) + (" .." if len(missing) > 8 else "")
        warnings.append(f"there is no file of {len(missing)} of {n} ranks: {listed}")
    names = sorted({kind for kind, _, _ in edges})
    notes = ["the files count a whole run, from MPI_Init to MPI_Finalize"]
    if request.iterations == 1:
        notes.append("--iterations divides the bytes by the number of iterations of the program")
    job = Job(request.name or job_name(first, "openmpi"), hosts=hosts, flows=flows)
    return Imported(job, False, n, 0, len(names), tuple(notes), warnings=tuple(warnings))
