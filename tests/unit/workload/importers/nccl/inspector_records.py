"""Writes files of NCCL Inspector for runs that never were, in the formats that its documentation describes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

FORMATS = ("v4.0", "v4.2", "v4.3")
COMMUNICATOR = 0x5A16C3838CE6F1F8


class Done(NamedTuple):
    """An operation that all ranks have done; ``begin`` and ``seconds`` are those of its kernels."""

    name: str
    bytes: int
    begin: float
    seconds: float
    algorithm: str = "RING"


def file_name(rank: int) -> str:
    """Name of the file of a process: its server's name and its id."""
    return f"node{rank}-pid{1000 + rank}.log"


def lines_of(
    rank: int,
    n_ranks: int,
    done: Done,
    number: int,
    *,
    form: str = "v4.3",
    verbose: bool = True,
    communicator: int = COMMUNICATOR,
) -> list[str]:
    """The lines that the process of a rank writes after an operation."""
    begin, took = round(done.begin * 1e6), round(done.seconds * 1e6)
    context: dict[str, Any] = {
        "header": {
            "id": hex(communicator),
            "comm_name": "unknown",
            "rank": rank,
            "n_ranks": n_ranks,
            "nnodes": n_ranks,
        },
        "metadata": {
            "inspector_output_format_version": form,
            "rec_mechanism": "nccl_profiler_interface",
            "dump_timestamp_us": begin + took,
            "hostname": f"node{rank}",
            "pid": 1000 + rank,
        },
    }
    row: dict[str, Any] = {"coll": done.name}
    if form != "v4.0":
        row |= {"coll_algo": done.algorithm, "coll_proto": "SIMPLE"}
    row |= {"coll_sn": number, "coll_msg_size_bytes": done.bytes, "coll_exec_time_us": took}
    row |= {"coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.75}
    if verbose:
        kernel = {"channel_id": 0, "kernel_start_ts": begin, "kernel_stop_ts": begin + took}
        row["event_trace_ts"] = {"coll_start_ts": begin - 90, "coll_stop_ts": begin - 80, "kernel_events": [kernel]}
    stats = {"dump_stats": {"coll_records": 1, "coll_dropped_total": 0, "p2p_records": 0, "p2p_dropped_total": 0}}
    if form == "v4.3":
        return [json.dumps(context | stats), json.dumps({"coll_perf": row})]
    return [json.dumps(context | {"coll_perf": row})]


def files_of(n_ranks: int, operations: Sequence[Done], **options: Any) -> Mapping[str, str]:
    """The files of all ranks after some operations, by name."""
    found = {}
    for rank in range(n_ranks):
        rows = [
            line for number, done in enumerate(operations) for line in lines_of(rank, n_ranks, done, number, **options)
        ]
        found[file_name(rank)] = "".join(f"{line}\n" for line in rows)
    return found


def iterations(size: int, count: int, period: float, seconds: float, begin: float = 1.7e9) -> list[Done]:
    """One all-reduce in each iteration."""
    return [Done("AllReduce", size, begin + period * i, seconds) for i in range(count)]
