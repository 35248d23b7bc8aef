"""SimAI's and AICB's workload texts."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.workload.importers.aicb import read
from controller.workload.importers.base import ImportRequest
from tests.unit.laws import examples
from tests.unit.workload.importers.texts import mutated, only_our_error, read_text, renumbered, source

HEAD = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 4 ga: 3 all_gpus: 16 "
    "checkpoints: 1 4 checkpoint_initiates: 0 pp_comm: 1000"
)
LAYER = "attn -1 5 ALLREDUCE 100 6 ALLGATHER 200 7 REDUCESCATTER 300 8"
EXPERTS = "moe -1 5 ALLTOALL_EP 10 6 ALLTOALL_EP 20 7 ALLREDUCE_DP_EP 30 8"


def _text(*rows: str, head: str = HEAD) -> str:
    return "\n".join([head, str(len(rows)), *rows]) + "\n"


def _table(text: str, **request: Any) -> dict[str, Counter[tuple[str, int, tuple[int, ...]]]]:
    """(operation, bytes, ranks) of the collectives by pass and kind of group."""
    rows: dict[str, Counter[tuple[str, int, tuple[int, ...]]]] = {}
    for call in read_text(read, text, **request).job.collectives:
        kind = call.name.rpartition(".")[0].rstrip("0123456789") if call.op != "send_recv" else "pp"
        rows.setdefault(kind, Counter())[call.op, call.bytes, call.ranks] += 1
    return rows


def test_columns_and_suffixes_say_pass_and_group_and_bytes_add_up_over_layers() -> None:
    rows = _table(_text(LAYER, EXPERTS, LAYER))
    assert {kind: sorted({key[:2] for key in counter}) for kind, counter in rows.items()} == {
        "fwd.tp": [("all_reduce", 200)],
        "bwd.tp": [("all_gather", 400)],
        "grad.dp": [("reduce_scatter", 600)],
        "fwd.ep": [("all_to_all", 10)],
        "bwd.ep": [("all_to_all", 20)],
        "grad.dp_ep": [("all_reduce", 30)],
        "pp": [("send_recv", 3000)],
    }


def test_groups_are_tp_then_dp_within_a_stage_and_experts_within_dp() -> None:
    """tp 2, pp 2, 16 ranks: dp 4, in which ep 2 is the faster; the second stage holds ranks 8 .. 15."""
    rows = _table(_text(LAYER, EXPERTS))
    ranks = {kind: {key[2] for key in counter} for kind, counter in rows.items()}
    assert ranks["fwd.tp"] == {(i, i + 1) for i in range(0, 16, 2)}
    assert ranks["grad.dp"] == {(0, 2, 4, 6), (1, 3, 5, 7), (8, 10, 12, 14), (9, 11, 13, 15)}
    assert ranks["fwd.ep"] == {(0, 2), (1, 3), (4, 6), (5, 7), (8, 10), (9, 11), (12, 14), (13, 15)}
    assert ranks["grad.dp_ep"] == {(0, 4), (1, 5), (2, 6), (3, 7), (8, 12), (9, 13), (10, 14), (11, 15)}
    assert ranks["pp"] == {(i, i + 8) for i in range(8)} | {(i + 8, i) for i in range(8)}


def _simai_groups(ranks: int, tp: int, ep: int) -> dict[str, set[tuple[int, ...]]]:
    """Groups of one stage, counted as SimAI's MockNcclGroup does: tensor groups first, the others over these."""
    tensor = [tuple(range(i, i + tp)) for i in range(0, ranks, tp)]
    dp = ranks // tp
    experts = [tensor[i : i + ep] for i in range(0, dp, ep)]
    copies = [tensor[i::ep] for i in range(ep)]
    return {
        "fwd.tp": set(tensor),
        "grad.dp": {tuple(rank for rank in range(ranks) if rank % tp == k) for k in range(tp)},
        "fwd.ep": {tuple(group[k] for group in block) for block in experts for k in range(tp)},
        "grad.dp_ep": {tuple(group[k] for group in block) for block in copies for k in range(tp)},
    }


@given(tp=st.integers(1, 4), ep=st.integers(1, 4), edp=st.integers(1, 3), pp=st.integers(1, 3))
def test_the_groups_of_each_stage_are_simais(tp: int, ep: int, edp: int, pp: int) -> None:
    stage = tp * ep * edp
    head = f"HYBRID_TRANSFORMER model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} all_gpus: {stage * pp}"
    rows = _table(_text(LAYER, EXPERTS, head=head))
    for kind, groups in _simai_groups(stage, tp, ep).items():
        wanted = {tuple(rank + s * stage for rank in group) for group in groups for s in range(pp) if len(group) > 1}
        assert {key[2] for key in rows.get(kind, Counter())} == wanted


def test_collectives_of_different_kinds_are_never_at_once_without_measured_times() -> None:
    rows = [re.sub(r" [5-8]\b", " 1", row) for row in (LAYER, EXPERTS)]
    calls = read_text(read, _text(*rows)).job.collectives
    kinds = {(call.phase, call.op, len(call.ranks), call.bytes) for call in calls}
    assert len(kinds) == len({call.phase for call in calls}) == 7


def row(forward: int, backward: int, gradient: str, size: int) -> str:
    return f"layer -1 {forward} NONE 0 {backward} ALLREDUCE 20 1 {gradient} {size} 8"


@given(st.lists(st.tuples(st.sampled_from((1, 7)), st.integers(0, 5)), min_size=1, max_size=6))
def test_gradients_overlap_with_the_computing_of_rows_before_theirs(layers: list[tuple[int, int]]) -> None:
    """Rows are computed backward, the last one first; 1 ns is no measured time."""
    job = read_text(read, _text(*(row(5, backward, "ALLREDUCE", size) for backward, size in layers))).job
    beside = sum(size for i, (_, size) in enumerate(layers) if any(backward > 1 for backward, _ in layers[:i]))
    overlaps = 2 * beside > sum(size for _, size in layers)
    calls = [call for call in job.collectives if call.name.startswith("grad.dp")]
    assert {call.waits.computing for call in calls} <= {not overlaps}
    backward = {call.phase for call in job.collectives if call.name.startswith("bwd.tp")}
    assert all(({call.phase} == backward) == overlaps for call in calls)
    if overlaps:
        # The forward pass sends nothing, so all is computed in the phase with which the gradients overlap.
        assert job.timing is not None
        nanoseconds = sum(5 + layer + 1 + 8 for layer, _ in layers) * (1 + 1 / 3)
        assert dict(job.timing.compute) == {backward.pop(): pytest.approx(nanoseconds * 1e-9)}


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(": ", ":\t"),
        HEAD.replace("ep:", "expert_parallel_npu_group:"),
        HEAD.replace("pp_comm:", "pp_comm"),
        HEAD.replace("pp_comm: 1000", "pp_comm: 999.5"),
        HEAD.replace("checkpoints: 1 4 ", "checkpoints: 3 1 2 3 "),
        HEAD.replace("checkpoint_initiates: 0 ", ""),
    ],
)
def test_heads_in_their_variants_are_read_alike(head: str) -> None:
    assert _table(_text(LAYER, EXPERTS, head=head)) == _table(_text(LAYER, EXPERTS))


def test_a_benchmark_and_an_old_head_take_the_number_of_ranks_from_the_fabric() -> None:
    micro = _text("micro_test -1 1 NONE 0 1 NONE 0 1 ALLTOALL 4096 1", head="MICRO")
    fabric = clos(2, 2, 3)
    assert _table(micro, fabric=fabric) == {"grad.dp": Counter({("all_to_all", 4096, tuple(range(6))): 1})}
    old = _text(LAYER, head="HYBRID_TRANSFORMER model_parallel_NPU_group: 3")
    assert _table(old, fabric=fabric)["grad.dp"].keys() == {
        ("reduce_scatter", 300, (0, 3)),
        ("reduce_scatter", 300, (1, 4)),
        ("reduce_scatter", 300, (2, 5)),
    }
    for text in (micro, old):
        with pytest.raises(InputError, match="give a fabric"):
            read_text(read, text)
    with pytest.raises(InputError, match="tp 4 x pp 1 = 4 does not divide the number of ranks"):
        read_text(read, old.replace("group: 3", "group: 4"), fabric=fabric)


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (_text(LAYER, LAYER).replace("\n2\n", "\n3\n"), "line 2", "3 rows are announced, but there are 2"),
        (_text(LAYER, LAYER).replace("\n2\n", "\n1\n"), "line 2", "1 rows are announced, but there are 2"),
        (_text(LAYER + " 9"), "line 3", "12 columns, not 13"),
        (_text(LAYER.replace("ALLGATHER", "ALLGATHERING")), "line 3", "column 7 has an unknown operation"),
        (_text(LAYER.replace("ALLREDUCE", "ALLREDUCE_TP")), "line 3", "column 4 has an unknown operation"),
        (_text(LAYER.replace("200", "-200")), "line 3", "column 8, bytes, is not a number"),
        (_text(LAYER, head=HEAD.replace("all_gpus: 16", "all_gpus: 18")), "line 1", "does not divide"),
        (_text(LAYER, head=HEAD.replace("ep: 2", "ep: 3")), "line 1", "ep does not divide dp"),
        (_text(LAYER, head=HEAD.replace("pp: 2", "pp: 0", 1)), "line 1", "pp is not in 1"),
        (_text(LAYER, head=HEAD.replace("model_parallel_NPU_group: 2 ", "")), "line 1", "no model_parallel_NPU_group"),
        (_text(LAYER, head="HYBRID_DLRM 3"), "line 1", "must begin with its strategy"),
        ("comm_type,comm_group\n", "line 1", "a workload for real GPUs must begin with its ranks"),
        ("[rank0 ~ rank7]\ncomm_type,comm_group\n", "line 2", "the column comm_group_size is missing"),
        (HEAD + "\n", "line 1", "there are no rows after"),
        ("", "", "is empty"),
    ],
)
def test_a_wrong_line_is_named_with_what_is_wrong(text: str, field: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as error:
        read_text(read, text, "w.txt")
    assert (error.value.source, error.value.field) == ("w.txt", field)


def test_several_workloads_are_several_jobs() -> None:
    for files in ([], [source("", "a"), source("", "b")]):
        with pytest.raises(InputError, match="import each one separately"):
            read(files, ImportRequest())


def test_operations_that_send_nothing_are_reported() -> None:
    head = "HYBRID_TRANSFORMER model_parallel_NPU_group: 1 pp: 2 all_gpus: 8 colour: red"
    notes = read_text(read, _text(LAYER, head=head)).notes
    for part in ("tp groups have one rank", "pp_comm has no bytes", "words of the header"):
        assert sum(part in note for note in notes) == 1


def test_a_broadcast_comes_from_the_first_rank_of_each_group() -> None:
    calls = read_text(read, _text("norm -1 0 BROADCAST 9 1 NONE 0 1 NONE 0 1")).job.collectives
    assert [call.ranks for call in calls if call.op == "broadcast"] == [(i, i + 1) for i in range(0, 16, 2)]


@settings(deadline=None, max_examples=examples(150, 900))
@given(
    content=mutated(_text(LAYER, EXPERTS, LAYER)) | renumbered(_text(LAYER, EXPERTS, LAYER)) | st.binary(max_size=300)
)
def test_whatever_a_file_holds_only_our_error_comes_out(content: bytes) -> None:
    only_our_error(read, content, fabric=clos(2, 2, 4))
