"""Collectives of one iteration: worked by hand for known shapes, and laws for all."""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.job import CollectiveCall
from controller.model.waits import FOR_COMPUTING, Waits
from controller.workload.collectives import flows_of
from controller.workload.strategy.iteration import PHASES, BatchPlan, Dtypes, iteration
from controller.workload.strategy.models import PRESETS, Model
from controller.workload.strategy.parallelism import Parallelism
from controller.workload.strategy.stages import stages_of

SMALL = Model("small", layers=4, hidden=8, sequence=16, parameters=4000, kv_width=4)
EXPERTS = dataclasses.replace(SMALL, experts=4, experts_per_token=2, expert_parameters=2400, dense_layers=1)


def by_name(calls: tuple[CollectiveCall, ...]) -> dict[str, CollectiveCall]:
    assert len({call.name for call in calls}) == len(calls)
    return {call.name: call for call in calls}


def of(model: Model, batch: BatchPlan, **sizes: object) -> dict[str, CollectiveCall]:
    return by_name(iteration(model, Parallelism(**sizes), batch))  # type: ignore[arg-type]


def test_one_rank_sends_nothing() -> None:
    assert iteration(PRESETS["mixtral-8x7b"], Parallelism(), BatchPlan(8)) == ()


# -- worked by hand ------------------------------------------------------------------------------------------------


def test_data_parallel_gradients_are_reduced_in_four_bytes_a_parameter() -> None:
    calls = of(SMALL, BatchPlan(2), dp=3)
    assert calls == {"dp0.reduce": CollectiveCall("dp0.reduce", "all_reduce", (0, 1, 2), 16_000, phase=8)}


def test_a_distributed_optimizer_scatters_gradients_and_gathers_parameters_later() -> None:
    calls = of(SMALL, BatchPlan(2, distributed_optimizer=True), dp=3)
    assert {(c.op, c.bytes, PHASES[c.phase]) for c in calls.values()} == {
        ("reduce_scatter", 4000 * 4, "gradients"),
        ("all_gather", 4000 * 2, "parameters"),
    }


def test_what_overlaps_with_computing_is_in_the_phase_that_computes_and_says_so() -> None:
    batch = BatchPlan(2, distributed_optimizer=True, overlap_grad_reduce=True)
    overlapping = Waits(computing=False)
    parts = {"dp0.scatter": ((0, overlapping), (0, overlapping)), "dp0.gather": ((10, FOR_COMPUTING), (0, overlapping))}
    for name, (reduced, both) in parts.items():
        call = of(SMALL, batch, dp=3)[name]
        assert (call.phase, call.waits) == reduced
        call = of(SMALL, dataclasses.replace(batch, overlap_param_gather=True), dp=3)[name]
        assert (call.phase, call.waits) == both
    call = of(SMALL, BatchPlan(2, overlap_grad_reduce=True), dp=3)["dp0.reduce"]
    assert (call.phase, call.waits) == (0, overlapping)
    # Experts' gradients, too; tokens, which the computing waits for, do not overlap.
    calls = of(EXPERTS, BatchPlan(2, overlap_grad_reduce=True), dp=4, ep=2)
    assert {call.name[:3] for call in calls.values() if call.waits == overlapping} == {"dp0", "edp"}
    assert all(call.phase == 0 for call in calls.values() if call.waits == overlapping)


def test_gpt3s_gradients_on_the_first_stage() -> None:
    # 12 of 96 layers and the embedding, an eighth of each: ((174.6e9 - 50257 * 12288) / 8 + 50257 * 12288) / 8 * 4.
    calls = of(PRESETS["gpt3-175b"], BatchPlan(16), tp=8, dp=4, pp=8)
    embedding = 50257 * 12288
    assert calls["dp0.reduce"].ranks == (0, 8, 16, 24)
    assert calls["dp0.reduce"].bytes == ((174_600_000_000 - embedding) // 8 + embedding) // 8 * 4
    middle = calls["dp8.reduce"]
    assert middle.ranks == (32, 40, 48, 56)
    assert middle.bytes == -(-(174_600_000_000 - embedding) // 64) * 4
    # The output layer's copy of the embedding, an eighth of it in fp32, between the first stage and the last.
    assert calls["emb0.reduce"].ranks == (0, 7 * 32)
    assert calls["emb0.reduce"].bytes == embedding // 8 * 4


def test_a_pipeline_sends_each_micro_batch_forward_and_its_gradients_backward() -> None:
    # GPT-3, tensor-parallel ranks send an eighth of 2048 x 12288 bf16 each: 6,291,456 bytes a micro-batch.
    calls = of(PRESETS["gpt3-175b"], BatchPlan(16), tp=8, dp=4, pp=8)
    assert calls["pp3.f0"] == CollectiveCall("pp3.f0", "send_recv", (3, 35), 16 * 6_291_456, phase=7)
    assert calls["pp3.b1"] == CollectiveCall("pp3.b1", "send_recv", (35, 3), 16 * 6_291_456, phase=7)
    assert sum(name.startswith("pp") for name in calls) == 32 * 7 * 2
    whole = of(PRESETS["gpt3-175b"], BatchPlan(16), tp=8, dp=4, pp=8, sequence_parallel=False)
    assert whole["pp3.f0"].bytes == 8 * calls["pp3.f0"].bytes


def test_an_interleaved_pipeline_crosses_each_boundary_once_a_virtual_stage_and_goes_round() -> None:
    message = 5 * 16 * 8 * 2
    calls = of(SMALL, BatchPlan(5), pp=2, vpp=2)
    assert {name: (c.ranks, c.bytes) for name, c in calls.items()} == {
        "pp0.f0": ((0, 1), 2 * message),
        "pp0.b1": ((1, 0), 2 * message),
        "pp0.f1": ((1, 0), message),
        "pp0.b0": ((0, 1), message),
    }


def test_tensor_parallel_blocks_all_reduce_four_times_a_layer_without_sequence_parallelism() -> None:
    calls = of(SMALL, BatchPlan(3, micro_batch_size=2), tp=2, sequence_parallel=False)
    assert calls["tp0.reduce"].op == "all_reduce"
    assert calls["tp0.reduce"].bytes == 3 * 4 * 4 * (2 * 16) * 8 * 2


def test_sequence_parallel_blocks_gather_three_times_and_scatter_twice() -> None:
    calls = of(SMALL, BatchPlan(3, micro_batch_size=2), tp=2)
    block = (2 * 16) * 8 * 2
    assert calls["tp0.gather"].bytes == 3 * (4 * 2) * 3 * block
    assert calls["tp0.scatter"].bytes == 3 * (4 * 2) * 2 * block
    assert calls["tp0.gather"].phase != calls["tp0.scatter"].phase


def test_gpt_13b_sends_what_aicb_logs_of_it() -> None:
    # aliyun/aicb, workload/physical/model_workload/G13B-M1-C01_GPT13B_megatron_tp8_pp1_mbs1.csv: 160 all-reduces of
    # 20,971,520 bytes in the layers of one micro-batch, a reduce-scatter of 6,422,958,080 and an all-gather of half.
    model = Model("gpt-13b", layers=40, hidden=5120, sequence=2048, parameters=6_422_958_080 // 4 * 8)
    calls = of(model, BatchPlan(1, distributed_optimizer=True), tp=8, dp=16, sequence_parallel=False)
    assert calls["tp0.reduce"].bytes == 160 * 20_971_520
    assert (calls["dp0.scatter"].bytes, calls["dp0.gather"].bytes) == (6_422_958_080, 3_211_479_040)


def test_keys_and_values_go_round_twice_and_their_gradients_once() -> None:
    calls = of(SMALL, BatchPlan(3), cp=4)
    whole = 3 * 4 * 16 * 4 * 2  # micro-batches, layers, tokens, keys and values, bf16
    assert (calls["cp0.gather"].op, calls["cp0.gather"].bytes) == ("all_gather", 2 * whole)
    assert (calls["cp0.scatter"].op, calls["cp0.scatter"].bytes) == ("reduce_scatter", whole)
    # As ring attention: each rank passes a quarter on three times.
    assert flows_of(calls["cp0.gather"]).bytes.tolist() == [2 * 3 * whole // 4] * 4
    # Copies of the weights: gradients are summed over context-parallel ranks, too.
    assert calls["dp0.reduce"].ranks == (0, 1, 2, 3)


def test_tokens_are_dispatched_and_combined_forward_and_backward_in_each_layer_with_experts() -> None:
    calls = of(EXPERTS, BatchPlan(3), dp=2, ep=2)
    volume = 3 * 3 * 2 * (16 * 2 * 8) * 2  # micro-batches, layers, directions, tokens x experts x hidden, bf16
    for name in ("ep0.dispatch", "ep0.combine"):
        assert (calls[name].op, calls[name].ranks, calls[name].bytes) == ("all_to_all", (0, 1), volume)
    assert calls["ep0.dispatch"].phase < calls["ep0.combine"].phase
    eighth_bit = of(EXPERTS, BatchPlan(3, dtypes=Dtypes(dispatch="fp8")), dp=2, ep=2)
    assert eighth_bit["ep0.dispatch"].bytes == volume // 2
    assert eighth_bit["ep0.combine"].bytes == volume


def test_experts_gradients_are_summed_over_their_copies_only() -> None:
    calls = of(EXPERTS, BatchPlan(3), dp=4, ep=2)
    assert calls["dp0.reduce"].ranks == (0, 1, 2, 3)
    assert calls["dp0.reduce"].bytes == 1600 * 4
    assert calls["edp0.reduce"].ranks == (0, 2)
    assert calls["edp1.reduce"].ranks == (1, 3)
    assert calls["edp0.reduce"].bytes == 2400 // 2 * 4
    assert "edp0.reduce" not in of(EXPERTS, BatchPlan(3), dp=4, ep=4)


def test_an_expert_cut_over_ranks_gathers_what_came_and_scatters_what_it_returns() -> None:
    calls = of(EXPERTS, BatchPlan(3), tp=2, etp=2)
    whole = 3 * 3 * 2 * 2 * (16 // 2 * 2 * 8) * 2  # .., both ranks, half the tokens x experts x hidden, bf16
    assert (calls["etp0.gather"].bytes, calls["etp0.scatter"].bytes) == (whole, whole)
    # Attention in four layers, the feed-forward block in the one without experts.
    assert calls["tp0.gather"].bytes == 3 * 5 * 3 * 16 * 8 * 2
    shared = of(dataclasses.replace(EXPERTS, shared_experts=True), BatchPlan(3), tp=2, etp=2)
    assert shared["tp0.gather"].bytes == 3 * 8 * 3 * 16 * 8 * 2


def test_deepseek_v3_as_it_was_trained() -> None:
    # 16 stages, 64-way experts over 8 nodes, 128 copies of the rest (arXiv 2412.19437, section 3.2): 2,048 ranks.
    calls = of(PRESETS["deepseek-v3"], BatchPlan(120, dtypes=Dtypes(dispatch="fp8")), dp=128, pp=16, ep=64)
    assert sum(re.fullmatch(r"ep\d+\.dispatch", name) is not None for name in calls) == 15 * 2
    # Four layers with experts on the second stage; a token goes to eight experts in fp8 and back in bf16.
    tokens = 120 * 2 * 4 * 4096 * 8 * 7168
    assert calls["ep2.dispatch"].ranks == tuple(range(128, 192))
    assert (calls["ep2.dispatch"].bytes, calls["ep2.combine"].bytes) == (tokens, 2 * tokens)


# -- laws ----------------------------------------------------------------------------------------------------------


@st.composite
def strategies(draw: st.DrawFn) -> tuple[Model, Parallelism, BatchPlan]:
    model = draw(st.sampled_from([SMALL, EXPERTS, dataclasses.replace(SMALL, vocabulary=10, tied=True)]))
    sizes = st.sampled_from([1, 2, 4])
    tp, cp, dp, pp = draw(sizes), draw(sizes), draw(sizes), draw(sizes)
    ep = draw(st.sampled_from([n for n in (1, 2, 4) if cp * dp % n == 0])) if model.experts else 1
    parallelism = Parallelism(tp=tp, cp=cp, dp=dp, pp=pp, ep=ep, etp=tp)
    return model, parallelism, BatchPlan(draw(st.integers(1, 5)), distributed_optimizer=draw(st.booleans()))


@given(strategies())
def test_every_collective_has_distinct_ranks_of_the_job_a_name_of_its_own_and_bytes(
    strategy: tuple[Model, Parallelism, BatchPlan],
) -> None:
    _, parallelism, _ = strategy
    calls = by_name(iteration(*strategy))
    for call in calls.values():
        assert len(set(call.ranks)) == len(call.ranks) >= 2
        assert set(call.ranks) <= set(range(parallelism.ranks))
        assert call.bytes > 0
        assert 0 <= call.phase < len(PHASES)


@given(strategies())
def test_a_rank_takes_part_in_one_collective_a_phase_but_for_pipelines_context_and_copies(
    strategy: tuple[Model, Parallelism, BatchPlan],
) -> None:
    busy: dict[tuple[int, int], list[str]] = defaultdict(list)
    for call in iteration(*strategy):
        for rank in call.ranks:
            busy[call.phase, rank].append(call.name)
    for (phase, _), names in busy.items():
        if PHASES[phase] not in ("pipeline", "context", "gradients", "parameters"):
            assert len(names) == 1, names


@given(strategies(), st.integers(2, 5))
def test_activations_grow_with_micro_batches_and_gradients_do_not(
    strategy: tuple[Model, Parallelism, BatchPlan], factor: int
) -> None:
    model, parallelism, batch = strategy
    once = by_name(iteration(*strategy))
    more = by_name(
        iteration(model, parallelism, dataclasses.replace(batch, micro_batches=factor * batch.micro_batches))
    )
    assert once.keys() == more.keys()
    for name, call in once.items():
        fixed = name.startswith(("dp", "edp", "emb"))
        assert more[name].bytes == call.bytes * (1 if fixed else factor)


@given(strategies())
def test_every_parameter_is_summed_once_over_its_copies(strategy: tuple[Model, Parallelism, BatchPlan]) -> None:
    model, p, _ = strategy
    if p.cp * p.dp == 1:
        return
    summed = [c for c in iteration(*strategy) if PHASES[c.phase] == "gradients" and c.name.startswith("dp")]
    held = sum(-(-stage.parameters // p.tp) for stage in stages_of(model, p.pp))
    # One group a shard: pp stages x tp shards, in fp32.
    assert len(summed) == p.pp * p.tp
    assert sum(c.bytes for c in summed) == held * p.tp * 4
    experts = [c for c in iteration(*strategy) if PHASES[c.phase] == "gradients" and c.name.startswith("edp")]
    if model.experts and p.edp > 1:
        with_experts = sum(stage.expert_layers > 0 for stage in stages_of(model, p.pp))
        assert len(experts) == p.etp * p.ep * with_experts
    else:
        assert not experts


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_on_a_common_cluster(name: str) -> None:
    model = PRESETS[name]
    p = Parallelism(tp=8, pp=8, dp=8, ep=8 if model.experts else 1, etp=1 if model.experts else 8)
    calls = iteration(model, p, BatchPlan(16, distributed_optimizer=True))
    # At most a handful of collectives for each rank: the planner has to live with them.
    assert len(calls) <= 6 * p.ranks
