"""NCCL's own logs (``NCCL_DEBUG=INFO``) to a job: the rings, trees, NICs and sizes that a training job really used.

Files are logs of single ranks or of many, in any mixture, and records of NCCL Inspector (``inspector``). Of the
subsystems (``NCCL_DEBUG_SUBSYS``), INIT names communicators, ranks and trees, GRAPH the rings, NET (also in INIT) the
NICs, COLL the sizes, TUNING the algorithm of each size, ENV the settings. Missing information is replaced by a
formula, with a note; information in the log takes precedence.

* *Ranks*: those of the largest communicator; GPUs outside it follow.
* *Rings* from ``Ring cc : prev -> rank -> next`` of each rank, where missing from ``Channel cc/CC : ...`` of rank 0
  (cut at 128 characters), else from the first connection of each channel; *trees* from
  ``Trees [c] a/b/c->rank->parent`` and ``Tree c : parent -> rank -> a/b/c``.
* *NICs* from ``Channel cc/k : a[..] -> b[..] [send] via NET/<name>/<device>(<proxy>)/...``. By server and device they
  are hosts of the fabric: as the inventory says (server -> NIC's name or number -> host), or else as ``server`` and
  ``rail`` of the fabric's hosts do. With neither, the job is on made-up hosts, by rank where each rank has a NIC of its
  own, else by NIC.
* *Bytes*: all operations of a kind on one communicator that the log holds are one collective, with their sizes added up
  and divided by the iterations that the log covers. Send and receive on one communicator are one collective. Between
  ranks of one server there is no flow.
* *Phases*: NCCL runs the operations of one communicator one after the other. So where only one has any, each of its
  collectives has its own phase; where several have, all are in phase 0, because it is unknown which overlap.
* *Period*: the mean time between the beginnings of iterations by the records of NCCL Inspector, where the user gives
  the number of iterations; a log has no times.

Based on the format strings of NCCL 2.4 to 2.28 (src/init.cc, enqueue.cc, graph/connect.cc, transport/net.cc,
transport/net_ib.cc, and the plug-in inspector) and logs that people published in its issues. They differ in:
``Trees [c] parent->rank->a/b/c`` until 2.5;
``Ring`` instead of ``Channel`` before connections until 2.7; ``a[busId]`` until 2.17 and ``a[device]`` since; START
lines and ``commId`` from 2.16 on; ``ncclCommSplit`` lines from 2.18 on, without an identity of their own from 2.23 on;
connections made at the first use from 2.22 on, by another thread; algorithms by number until 2.26 and by name since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from controller.model.choices.qp_mode import MOST_QPS
from controller.model.errors import InputError
from controller.model.job import FlowList, Job
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.workload.importers import streams
from controller.workload.importers.base import Imported, ImportRequest, Measured, Source
from controller.workload.importers.head import Head
from controller.workload.importers.nccl.account import account
from controller.workload.importers.nccl.communicators import Communicator, join, number_ranks
from controller.workload.importers.nccl.containers import LINE
from controller.workload.importers.nccl.ends import ConnectionEnd, Ends
from controller.workload.importers.nccl.flow_operations import FlowOperations, operations_of
from controller.workload.importers.nccl.flows import Flow, flows_of
from controller.workload.importers.nccl.inspector import Inspector
from controller.workload.importers.nccl.log import Log, Member
from controller.workload.importers.nccl.servers import tell_apart
from controller.workload.importers.nccl.table import Tables
from controller.workload.importers.nccl.topology import topology
from controller.workload.importers.nccl.work import work_of
from controller.workload.importers.notes import Notes
from controller.workload.importers.times import period


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job from logs.

    Raises:
        InputError: as ``read_connections``.
    """
    return read_connections(sources, request)[0]


def read_connections(sources: Sequence[Source], request: ImportRequest) -> tuple[Imported, Iterator[FlowOperations]]:
    """Read a job from logs; return also, for each flow of the job, the operations that send it.

    Raises:
        InputError: there is no communicator or no size, lines contradict each other, or a NIC is unknown.
    """
    if not sources:
        raise InputError("no file is given")
    log, inspector, tables = Log(Notes()), Inspector(), Tables()
    for source in sources:
        _read(source, log, inspector, tables)
    if not log.n_lines and not inspector:
        raise InputError("has no lines of NCCL; set NCCL_DEBUG=INFO", source=sources[0].name)
    log.finish()
    communicators = join(log)
    inspector.join(communicators, log.notes)
    if not communicators:
        raise InputError(
            "no 'Init COMPLETE' line names a communicator: NCCL_DEBUG_SUBSYS needs INIT", source=sources[0].name
        )
    tell_apart(log, communicators)
    people = number_ranks(communicators, log.notes)
    ends = Ends(log, communicators, people, request)
    flows: dict[Flow, Fraction] = {}
    names: list[list[str]] = []
    works = work_of(log, communicators, request.bytes, request.iterations, tables.tables)
    for one, work in zip(communicators, works, strict=True):
        if work.collectives or work.pairs:
            with_trees = any(kind.algorithm == "tree" for kind in work.collectives)
            ways = topology(one, log.notes, with_trees=with_trees)
            its, collectives = flows_of(one, work, ways, ends, log.notes)
            account(one, work, ways, its, log.notes)
            flows |= its
            names.append(collectives)
    if not flows and len({member.host for one in communicators for member in one.members.values()}) == 1:
        log.notes.once(f"all ranks are on one server ({communicators[0].first.host}): no traffic crosses the network")
    measured = tuple(row for table in tables.tables for row in table.measured())
    timing = period(inspector.period_seconds(request.iterations), sources[0].name)
    imported, order = _imported(request, log, communicators, people, ends, flows, names, measured, timing)
    return imported, operations_of(communicators, works, flows, order)


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if "NCCL INFO" in head.text:
        return "a log of NCCL or RCCL (NCCL_DEBUG=INFO)" + (", with output of nccl-tests" * ("nThread" in head.text))
    return "records of NCCL Inspector" if "coll_perf" in head.keys or "p2p_perf" in head.keys else ""


def _read(source: Source, log: Log, inspector: Inspector, tables: Tables) -> None:
    any_line = False
    log.begin(source)
    inspector.begin()
    for number, line in streams.lines(source, limit=LINE, cut=True):
        where = streams.at_line(source, number)
        any_line |= log.add(where, line) or inspector.add(where, line)
        tables.add(where, line)
    if not any_line:
        log.notes.add("files without lines of NCCL", f"{source.name}: it has no lines of NCCL")


def _imported(
    request: ImportRequest,
    log: Log,
    communicators: list[Communicator],
    people: list[Member | None],
    ends: Ends,
    flows: dict[Flow, Fraction],
    names_of: list[list[str]],
    measured: tuple[Measured, ...],
    timing: JobTiming | None,
) -> tuple[Imported, list[Flow]]:
    """Return the job, and its flows in order."""
    placed = ends.is_placed()
    used = list(dict.fromkeys(end for flow in flows for end in (flow.sender, flow.receiver)))
    hosts: tuple[str, ...]
    names: dict[ConnectionEnd, str]
    if placed:
        names, hosts = _on_fabric(ends, used, people)
        known = {flow: size for flow, size in flows.items() if flow.sender in names and flow.receiver in names}
        if len(known) < len(flows):
            lost = len(flows) - len(known)
            log.notes.warn(f"{lost} of {len(flows)} flows are left out, because the server of an end is unknown")
        flows = {flow: size for flow, size in known.items() if names[flow.sender] != names[flow.receiver]}
    else:
        names, hosts = ends.made_up(used)
    order = sorted(flows, key=lambda flow: (flow.collective, flow.channel))
    job = Job(
        name=request.name or "nccl",
        hosts=hosts,
        flows=FlowList(
            src=tuple(names[flow.sender] for flow in order),
            dst=tuple(names[flow.receiver] for flow in order),
            bytes=np.array([-(-flows[flow].numerator // flows[flow].denominator) for flow in order], dtype=np.int64),
            collective=tuple(flow.collective for flow in order),
            udp_src=np.zeros(len(order), dtype=np.int32),
        ),
        phases=_phases(names_of, {flow.collective for flow in flows}),
        qps=queue_pairs_of(log),
        timing=timing if flows else None,
    )
    imported = Imported(
        job=job,
        placed=placed,
        ranks=len(people),
        groups=sum(1 for one in communicators if one.n_ranks > 1),
        collectives=sum(len(names) for names in names_of),
        notes=log.notes.sentences(),
        warnings=log.notes.warnings(),
        measured=measured,
    )
    return imported, order


def _phases(names_of: list[list[str]], used: set[str]) -> dict[str, int]:
    """Return the phases of collectives with flows, by communicator."""
    busy = [names for names in ([name for name in names if name in used] for names in names_of) if names]
    return {name: phase for phase, name in enumerate(busy[0])} if len(busy) == 1 else {}


def _on_fabric(
    ends: Ends, used: list[ConnectionEnd], people: list[Member | None]
) -> tuple[dict[ConnectionEnd, str], tuple[str, ...]]:
    """Return a host for each known end, and each rank's host where no two ranks share one."""
    names = {end: host for end in used if (host := ends.host(end)) is not None}
    homes = []
    for rank, person in enumerate(people):
        nic = ends.home[rank]
        own = None if person is None else ConnectionEnd(person.host, nic, rank if nic is None else -1)
        if own is None or own not in names:
            return names, ()
        homes.append(names[own])
    return names, tuple(homes) if len(set(homes)) == len(homes) else ()


def queue_pairs_of(log: Log) -> QueuePairs | None:
    """Return the QPs of each connection; ``None``: ``NCCL_IB_QPS_PER_CONNECTION`` was not set, or is 1.

    Where ranks have different values the smallest one counts, with a warning. Without ``NCCL_IB_SPLIT_DATA_ON_QPS``
    messages take turns, as in NCCL 2.20 and later.
    """
    counts = log.qp_settings.get("QPS_PER_CONNECTION", {1})
    if len(counts) > 1:
        log.notes.warn(f"ranks have different values of NCCL_IB_QPS_PER_CONNECTION: {sorted(counts)}")
    # NCCL itself uses at least one and at most this many.
    count = min(max(min(counts), 1), MOST_QPS)
    if count not in counts:
        log.notes.warn(f"NCCL_IB_QPS_PER_CONNECTION is {min(counts)}, NCCL uses {count} (1 to {MOST_QPS})")
    if count == 1:
        return None
    split = log.qp_settings.get("SPLIT_DATA_ON_QPS")
    if split is None:
        log.notes.once("NCCL_IB_SPLIT_DATA_ON_QPS is not in the log: whole messages take turns (NCCL 2.20 and later)")
    return QueuePairs(count, "split" if split is not None and min(split) else "round_robin")
