"""A job as execution traces of MLCommons Chakra, one for each rank, which ASTRA-sim simulates.

Collectives are collective nodes of their group, given flows and messages are pairs of send and receive. A phase's nodes
wait for all nodes of the phase before (``ctrl_deps``). The simulator chooses the algorithm of a collective, so
``algorithm`` and ``channels`` are lost.

With a plan, the flows of the collectives are sends and receives, because only those have a path: its links are the
attribute ``path`` (a list of strings) of the send, beside ``flow``, the flow's id. Chakra's feeder keeps attributes
that it does not know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.expand import JobTraffic
from controller.workload.exporters.messages import Routes, messages_of
from controller.workload.importers.chakra.protobuf import COLLECTIVE, OPS, RECEIVE, SEND, messages

VERSION = b"0.0.4"

_NUMBER = {op: number for number, op in reversed(OPS.items())}


def chakra_files(job: Job) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents: ``NAME.RANK.et`` for each rank, and ``NAME.groups.json`` with the groups' ranks.

    Raises:
        InputError: the job has a matrix, or a flow between hosts that are not ranks.
    """
    if job.matrix is not None:
        raise InputError("a matrix cannot be written to a trace of ranks", field="matrix")
    rank_of = {host: rank for rank, host in enumerate(job.hosts)}
    for i, end in enumerate((*job.flows.src, *job.flows.dst)):
        if end not in rank_of:
            raise InputError("this host is not a rank of the job", field=f"flows[{i % len(job.flows.src)}]", value=end)
    groups: dict[tuple[int, ...], str] = {}
    rows = list(_rows(job, rank_of, groups))
    yield from _traces(job.name, len(job.hosts), [rows])
    yield f"{job.name}.groups.json", json.dumps({name: list(ranks) for ranks, name in groups.items()}).encode()


def planned_files(name: str, n_hosts: int, jobs: Sequence[JobTraffic], routes: Routes) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents: ``NAME.RANK.et`` for each host of the fabric, rank n being the n-th.

    Args:
        name: the first part of the files' names.
        n_hosts: the number of hosts of the fabric.
        jobs: the flows of each job.
        routes: the paths of all flows.

    Raises:
        InputError: there is no flow.
    """
    if not any(job.n_flows for job in jobs):
        raise InputError("no flow crosses the network", field="job")
    rows: list[list[_Row]] = [[] for _ in jobs]
    for one in messages_of(jobs, routes):
        path: dict[str, str | list[str]] = {"flow": one.flow, "path": list(one.links)}
        rows[one.job].append(_message(one.phase, one.src, one.dst, one.bytes, one.name, one.tag, path))
    yield from _traces(name, n_hosts, [sorted(part, key=lambda row: row[0]) for part in rows])


_Row = tuple[Any, ...]
"""Phase, ranks, type by rank, name, attributes by rank."""


def _traces(name: str, n_ranks: int, jobs: Iterable[Sequence[_Row]]) -> Iterator[tuple[str, bytes]]:
    """Yield the traces of jobs, given as rows in order of phases; a job's nodes do not wait for another's."""
    make_node, make_head = messages()
    of_rank: list[list[list[_Row]]] = [[] for _ in range(n_ranks)]
    for rows in jobs:
        for own in of_rank:
            own.append([])
        for row in rows:
            for rank in row[1]:
                of_rank[rank][-1].append(row)
    for rank, parts in enumerate(of_rank):
        nodes: list[Any] = []
        for rows in parts:
            before: list[int] = []
            now: list[int] = []
            at: int | None = None
            for phase, _, kind, label, attributes in rows:
                if phase != at:
                    before, now, at = now, [], phase
                node = make_node(id=len(nodes) + 1, name=label, type=kind(rank), ctrl_deps=before)
                for key, value in attributes(rank).items():
                    _set(node.attr.add(name=key), value)
                nodes.append(node)
                now.append(node.id)
        yield f"{name}.{rank}.et", b"".join(_delimited(m) for m in (make_head(version=VERSION), *nodes))


def _rows(job: Job, rank_of: dict[str, int], groups: dict[tuple[int, ...], str]) -> Iterator[_Row]:
    """Yield the rows of a job in order of phases."""
    phase_of = job.phase_by_name
    rows: list[_Row] = []
    for call in job.collectives:
        if call.op == "send_recv":
            src, dst = call.ranks
            rows.append(_message(call.phase, src, dst, call.bytes, call.name, len(rows)))
            continue
        if len(call.ranks) < 2:
            continue
        # Groups keep the order of their ranks, which is that of the ring; the first is the root.
        group = groups.setdefault(call.ranks, str(len(groups) + 1))
        size = -(-call.bytes // len(call.ranks)) if call.op == "all_gather" else call.bytes
        has = {"is_cpu_op": False, "comm_type": _NUMBER[call.op], "comm_size": size, "pg_name": group, "root_rank": 0}
        rows.append((call.phase, set(call.ranks), lambda _: COLLECTIVE, call.name, lambda _, has=has: has))
    flows = job.flows
    for sender, receiver, size, name in zip(flows.src, flows.dst, flows.bytes.tolist(), flows.collective, strict=True):
        rows.append(_message(phase_of.get(name, 0), rank_of[sender], rank_of[receiver], size, name, len(rows)))
    yield from sorted(rows, key=lambda row: row[0])


def _message(
    phase: int, src: int, dst: int, size: int, name: str, tag: int, path: Mapping[str, str | list[str]] | None = None
) -> _Row:
    def attributes(rank: int) -> dict[str, Any]:
        has = {"is_cpu_op": False, "comm_size": size, "comm_tag": tag}
        return has | ({"comm_dst": dst, **(path or {})} if rank == src else {"comm_src": src})

    return phase, {src, dst}, lambda rank: SEND if rank == src else RECEIVE, name, attributes


def _set(attribute: Any, value: bool | int | str | list[str]) -> None:
    if isinstance(value, bool):
        attribute.bool_val = value
    elif isinstance(value, int):
        attribute.int64_val = value
    elif isinstance(value, str):
        attribute.string_val = value
    else:
        attribute.string_list.values.extend(value)


def _delimited(message: Any) -> bytes:
    """Return a message preceded by its length as a varint (Protocol Buffers, encoding)."""
    content: bytes = message.SerializeToString()
    length, head = len(content), b""
    while length > 0x7F:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + content
