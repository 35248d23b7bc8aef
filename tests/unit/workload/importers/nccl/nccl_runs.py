"""Reading made-up logs, and what should come out of them."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from fractions import Fraction

from hypothesis import strategies as st

from controller.model.job import Job
from controller.workload.importers.base import Imported, ImportRequest
from controller.workload.importers.nccl import read
from controller.workload.importers.streams import text_source
from tests.unit.workload.importers.nccl.nccl_logs import (
    STYLES,
    Cluster,
    pointer,
    prefix,
)

SIZE_OF = {0: 1, 6: 2, 7: 4, 9: 2}

SMALL = Cluster(2, 2, 2, ((0, 1, 2, 3), (1, 0, 3, 2)), ((-1, 0, 0, 2), (1, -1, 1, 2)))
NEWEST = STYLES[3]

styles = st.sampled_from(STYLES)


def run(texts: list[str], **request: object) -> Imported:
    sources = [text_source(f"rank{i}.log", text) for i, text in enumerate(texts)]
    return read(sources, ImportRequest(**request))  # type: ignore[arg-type]


def sent(job: Job) -> Counter[tuple[str, str, str, int]]:
    """The flows of a job, in no order."""
    given = job.flows
    return Counter(zip(given.src, given.dst, given.collective, given.bytes.tolist(), strict=True))


def played(cluster: Cluster) -> dict[tuple[str, int, int, int], Fraction]:
    """(Operation, channel, sender, receiver) -> bytes, by playing each operation's steps around its rings."""
    total: Counter[tuple[str, int, int, int]] = Counter()
    n, channels = cluster.n, len(cluster.rings)
    for call in cluster.calls:
        part = call.name in ("AllGather", "ReduceScatter")
        whole = Fraction(call.count * SIZE_OF[call.datatype] * call.times * (n if part else 1), channels)
        op = {
            "AllReduce": "all_reduce",
            "AllGather": "all_gather",
            "ReduceScatter": "reduce_scatter",
            "Broadcast": "broadcast",
            "Reduce": "reduce",
        }[call.name]
        for c, ring in enumerate(cluster.rings):
            steps: list[tuple[int, int, Fraction]] = []
            if call.name in ("Broadcast", "Reduce"):
                start = ring.index(call.root)
                chain = [ring[(start + i) % n] for i in range(n)]
                if call.name == "Reduce":
                    chain = [*chain[1:], chain[0]]
                steps = [(src, dst, whole) for src, dst in itertools.pairwise(chain)]
            else:
                rounds = 2 * (n - 1) if call.name == "AllReduce" else n - 1
                steps = [(ring[i], ring[(i + 1) % n], whole / n) for _ in range(rounds) for i in range(n)]
            for src, dst, size in steps:
                if cluster.server(src) != cluster.server(dst):
                    total[op, c, src, dst] += size  # type: ignore[assignment]
    return total  # type: ignore[return-value]


def choice(rank: int, cluster: Cluster, text: str) -> str:
    return f"{prefix(cluster, rank)}{text}\n"


def pair(rank: int, other: int, *, style: str, number: int = 0) -> str:
    """Rank ``rank`` of SMALL makes a communicator of two with ``other``, and reduces 100 bytes on it."""
    place = int(rank > other)
    at = f"0x77{number:02d}{rank:02d}"
    color = min(rank, other)
    gpu = f"cudaDev {rank % 2} busId {rank % 2 + 10}000"
    if style == "split":
        who = f"ncclCommSplit comm {at} rank {place} nranks 2 {gpu} parent {pointer(rank)} "
        start = f"{who}splitCount {number + 1} color {color} key {rank} - Init START"
        end = f"ncclCommSplit comm {at} rank {place} nranks 2 {gpu} commId 0x0 - Init COMPLETE"
    elif style == "id":
        who = f"ncclCommInitRankConfig comm {at} rank {place} nranks 2 {gpu} commId 0xab{color}{number}"
        start, end = f"{who} - Init START", f"{who} - Init COMPLETE"
    else:
        start, end = "", f"comm {at} rank {place} nranks 2 {gpu} - Init COMPLETE"
    said = [
        start,
        f"Ring 00 : {1 - place} -> {place} -> {1 - place}",
        end,
        f"AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 100 datatype 0 op 0 root 0 comm {at} [nranks=2]",
    ]
    return "".join(f"{prefix(SMALL, rank)}{line}\n" for line in said if line)


def record(rank: int, number: int, size: int, *, key: str = "0x5a16c3838ce6f1f8", **more: object) -> str:
    return (
        json.dumps(
            {
                "header": {"id": key, "rank": rank, "n_ranks": 4, "nnodes": 2},
                "metadata": {
                    "inspector_output_format_version": "v4.0",
                    "hostname": SMALL.server(rank),
                    "pid": 1000 + rank,
                },
                "coll_perf": {"coll": "AllReduce", "coll_sn": number, "coll_msg_size_bytes": size} | more,
            }
        )
        + "\n"
    )
