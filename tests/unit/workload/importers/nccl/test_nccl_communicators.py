"""Communicators of a log, their operations, and the records of NCCL Inspector."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from controller.model.errors import InputError
from tests.unit.workload.importers.nccl.nccl_logs import (
    STYLES,
    Call,
    Style,
    logs,
    pointer,
)
from tests.unit.workload.importers.nccl.nccl_runs import NEWEST, SMALL, choice, pair, record, run, sent


@pytest.mark.parametrize(("style", "form"), [("split", NEWEST), ("id", NEWEST), ("none", STYLES[0])])
def test_communicators_within_the_largest_are_distinguished(style: str, form: Style) -> None:
    quiet = dataclasses.replace(SMALL, calls=())
    texts = logs(quiet, form)
    for rank, other in ((0, 2), (2, 0), (1, 3), (3, 1)):
        texts[rank] += pair(rank, other, style=style) + pair(rank, other, style=style, number=1)
    imported = run(texts)
    assert (imported.ranks, imported.groups, imported.collectives) == (4, 5, 4)
    ways = Counter((src, dst, size) for src, dst, _, size in sent(imported.job).elements())
    assert ways == Counter({(f"rank{a}", f"rank{b}", 100): 2 for a, b in ((0, 2), (2, 0), (1, 3), (3, 1))})
    assert len(set(imported.job.flows.collective)) == 4
    assert any("ranks and cannot be distinguished" in note for note in imported.notes) == (style == "none")


def test_gpus_outside_the_largest_communicator_are_ranks_behind_it() -> None:
    line = (
        "node{s}:{p}:{p} [0] NCCL INFO comm 0x{p} rank {r} nranks 2 cudaDev 0 busId 1000 commId 0xff - Init {state}\n"
    )
    op = (
        "node{s}:{p}:{p} [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x1 count 100 datatype 0 op 0 "
        "root 0 comm 0x{p} [nranks=2] stream 0x0\n"
    )
    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST)
    for r, (s, p) in enumerate(((10, 5000), (9, 5001))):
        texts.append(line.format(s=s, p=p, r=r, state="START") + line.format(s=s, p=p, r=r, state="COMPLETE"))
        texts[-1] += op.format(s=s, p=p)
    imported = run(texts)
    assert imported.ranks == 6
    assert sent(imported.job) == Counter(
        {("rank5", "rank4", "c1-all_reduce", 100): 1, ("rank4", "rank5", "c1-all_reduce", 100): 1}
    )
    assert any("2 GPUs are not in the largest communicator" in note for note in imported.notes)


def test_sends_and_receives_are_flows_of_one_collective_over_the_channels_that_they_have() -> None:
    def op(rank: int, name: str, peer: int, count: int) -> str:
        return choice(
            rank,
            SMALL,
            f"{name}: opCount 0 sendbuff 0x1 recvbuff 0x1 count {count} datatype 0 op 0 root {peer} "
            f"comm {pointer(rank)} [nranks=4] stream 0x0",
        )

    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST)
    texts[0] += "".join(
        choice(0, SMALL, f"Channel {c:02d}/1 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA/Shared") for c in (0, 1)
    )
    texts[0] += op(0, "Send", 2, 1000) + op(0, "Send", 2, 501) + op(0, "Send", 1, 7) + op(0, "Recv", 3, 30)
    texts[3] += op(3, "Send", 0, 30)
    texts[2] += op(2, "Recv", 0, 1501)
    imported = run(texts)
    assert sent(imported.job) == Counter(
        {("rank0", "rank2", "c0-send_recv", 751): 2, ("rank3", "rank0", "c0-send_recv", 30): 1}
    )
    # Who receives tells as well, where the sender's log is lost.
    lost = run([texts[0], texts[1], texts[2]])
    assert ("rank3", "rank0", "c0-send_recv", 30) in sent(lost.job)


def test_an_all_to_all_sends_each_its_part() -> None:
    cluster = dataclasses.replace(SMALL, calls=(Call("AlltoAll", 10, datatype=0),))
    ways = Counter((src, dst) for src, dst, _, size in sent(run(logs(cluster, NEWEST)).job).elements() if size == 10)
    assert ways == Counter((f"rank{a}", f"rank{b}") for a in (0, 1) for b in (2, 3)) + Counter(
        (f"rank{b}", f"rank{a}") for a in (0, 1) for b in (2, 3)
    )


def test_operations_of_one_communicator_come_one_after_the_other_and_those_of_several_may_overlap() -> None:
    calls = (Call("AllReduce", 1024), Call("AllGather", 10), Call("AllReduce", 5))
    texts = logs(dataclasses.replace(SMALL, calls=calls), NEWEST)
    assert run(texts).job.phases == {"c0-all_reduce": 0, "c0-all_gather": 1}
    for rank, other in ((0, 2), (2, 0)):
        texts[rank] += pair(rank, other, style="id")
    assert run(texts).job.phases == {}


# -- NCCL Inspector ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["0x5a16c3838ce6f1f8", "0x1234"])
def test_the_inspector_gives_sizes_that_the_log_lacks(key: str) -> None:
    texts = logs(dataclasses.replace(SMALL, calls=()), NEWEST if key.endswith("f8") else STYLES[0])
    seen = "".join(record(rank, number, 4096, key=key) for rank in range(4) for number in (5, 6, 8))
    imported = run([*texts, seen])
    once = run(logs(SMALL, NEWEST))
    assert sent(imported.job) == Counter(
        {(src, dst, name, 4 * size): times for (src, dst, name, size), times in sent(once.job).items()}
    )
    assert any("saw 3 of 4 AllReduce" in note for note in imported.notes)


def test_the_inspector_alone_makes_a_job_by_formula() -> None:
    imported = run(["".join(record(rank, 1, 4096, coll_algo="RING") for rank in range(4))])
    assert (imported.ranks, imported.groups, imported.collectives) == (4, 1, 1)
    assert sent(imported.job) == Counter(
        {("rank1", "rank2", "c0-all_reduce", 6144): 1, ("rank3", "rank0", "c0-all_reduce", 6144): 1}
    )


@pytest.mark.parametrize("cut", [20, 100, 200])
def test_a_record_that_is_cut_is_refused(cut: int) -> None:
    with pytest.raises(InputError, match=r"^rank0.log:1: this record is truncated or not JSON$"):
        run([record(0, 1, 1)[:cut]])
