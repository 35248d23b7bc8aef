"""The collectives of one training iteration of a job.

Bytes are those of a whole iteration: all micro-batches and layers of a kind are added up in one collective of each
group, because they repeat the same flows. An iteration is taken as in lock-step: consecutive operations on
a rank have different phases, so that they never compete, and the groups of one kind all run at once. Phases (fixed
numbers, so that further collectives of the job can be put among them) are those of ``PHASES``.

Left out, because they are small compared with the rest: layer norms' and routers' gradients across tensor-parallel
ranks, data exchanged by embedding and loss, token counts before an expert all-to-all, the loss and gradient norm. Full
activation recomputation, which repeats the forward pass's part of tensor, context and expert traffic, is not assumed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from controller.model.fabric import IntArray
from controller.model.job import CollectiveCall, Op
from controller.model.waits import Waits
from controller.workload.strategy.models import Model
from controller.workload.strategy.parallelism import Parallelism
from controller.workload.strategy.stages import PipelineStage, stages_of

Dtype = Literal["fp32", "bf16", "fp16", "fp8"]

_BYTES: dict[Dtype, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}

PHASES = (
    "tensor gather",
    "tensor scatter",
    "context",
    "dispatch",
    "expert gather",
    "expert scatter",
    "combine",
    "pipeline",
    "gradients",
    "embedding",
    "parameters",
)
"""The names of phases 0, 1, ..; a phase without collectives keeps its number."""


@dataclass(frozen=True, slots=True)
class Dtypes:
    """The number formats in which values are sent.

    Gradients are summed in fp32 (Megatron's ``accumulate_allreduce_grads_in_fp32``, set by ``--bf16``) by
    default; ``dispatch`` is the format of tokens sent to experts, and of their gradients (DeepSeek-V3: fp8,
    and bf16 on the way back; arXiv 2412.19437, section 3.3.3).
    """

    gradients: Dtype = "fp32"
    parameters: Dtype = "bf16"
    activations: Dtype = "bf16"
    dispatch: Dtype = "bf16"


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The batches and the optimizer of an iteration.

    Attributes:
        micro_batches: micro-batches that each pipeline runs in an iteration.
        micro_batch_size: samples in one.
        distributed_optimizer: whether the optimizer's state is divided among the data-parallel ranks.
        overlap_grad_reduce: whether gradients are summed while the ranks compute.
        overlap_param_gather: whether new parameters are gathered while the ranks compute.
    """

    micro_batches: int
    micro_batch_size: int = 1
    distributed_optimizer: bool = False
    dtypes: Dtypes = Dtypes()
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False


def iteration(model: Model, parallelism: Parallelism, batch: BatchPlan) -> tuple[CollectiveCall, ...]:
    """Return all collectives of one iteration, by phase; ranks are numbered as by ``parallelism``.

    Names: ``tp3.gather`` is of the third tensor-parallel group in Megatron's order, ``pp5.f2`` is sent by pipeline 5
    forward from its stage 2 to the next.
    """
    run = _Iteration(model, parallelism, batch)
    calls = [*run.tensor(), *run.context(), *run.experts(), *run.pipeline(), *run.gradients(), *run.embedding()]
    return tuple(sorted((call for call in calls if call.bytes), key=lambda call: call.phase))


class _Iteration:
    """Values shared by the kinds of collectives."""

    def __init__(self, model: Model, parallelism: Parallelism, batch: BatchPlan) -> None:
        self.model = model
        self.parallelism = parallelism
        self.batch = batch
        self.stages = stages_of(model, parallelism.pp, parallelism.vpp)
        self.stage = parallelism.stage()
        self.activation = _BYTES[batch.dtypes.activations]
        # Context parallelism cuts the sequence; sequence parallelism cuts the remaining part between the blocks.
        self.tokens = _ceil(batch.micro_batch_size * model.sequence, parallelism.cp)
        self.own_tokens = _ceil(self.tokens, parallelism.tp) if parallelism.sequence_parallel else self.tokens

    def tensor(self) -> Iterator[CollectiveCall]:
        """Yield the collectives that combine activations in each block (attention or feed-forward) and pass.

        Without sequence parallelism, one all-reduce of tokens x hidden forward and one backward in each block
        (M. Shoeybi et al., arXiv 1909.08053, section 3). With it, a block gathers its input and scatters its output
        forward; backward it gathers the output's gradient, scatters the input's, and gathers the input again,
        which was not stored: 3 all-gathers and 2 reduce-scatters of tokens x hidden (V. Korthikanti et al.,
        arXiv 2205.05198, section 4.2.2). Experts are not such blocks; a shared expert is.
        """
        for k, ranks, stage in self._groups(self.parallelism.groups("tp")):
            blocks = 2 * stage.layers - (0 if self.model.shared_experts else stage.expert_layers)
            whole = self.batch.micro_batches * blocks * self.tokens * self.model.hidden * self.activation
            if self.parallelism.sequence_parallel:
                yield _call(f"tp{k}.gather", "all_gather", ranks, 3 * whole, "tensor gather")
                yield _call(f"tp{k}.scatter", "reduce_scatter", ranks, 2 * whole, "tensor scatter")
            else:
                yield _call(f"tp{k}.reduce", "all_reduce", ranks, 2 * whole, "tensor gather")

    def context(self) -> Iterator[CollectiveCall]:
        """Yield the ring exchange of keys and values by context-parallel ranks (arXiv 2310.01889, section 3).

        A rank's part is passed on n - 1 times, as in a ring all-gather of the whole sequence's keys and values, once
        forward and once backward; backward their gradients are added up along the way, as in a reduce-scatter. Heads
        are divided among tensor-parallel ranks.
        """
        p = self.parallelism
        part = _ceil(self.tokens * p.cp * self.model.kv_width, p.tp) * self.activation
        for k, ranks, stage in self._groups(p.groups("cp")):
            whole = self.batch.micro_batches * stage.layers * part
            yield _call(f"cp{k}.gather", "all_gather", ranks, 2 * whole, "context")
            yield _call(f"cp{k}.scatter", "reduce_scatter", ranks, whole, "context")

    def experts(self) -> Iterator[CollectiveCall]:
        """Yield the transfers of tokens to their experts and back, forward, and of gradients backward.

        In each layer with experts, and in each direction of the pass, a rank dispatches its tokens x experts per token
        x hidden to the ranks of its expert-parallel group, and receives as much from there (D. Lepikhin et al.,
        GShard, arXiv 2006.16668, section 3). Tokens are assumed to be spread evenly over the experts, one copy for each
        of its experts. Where an expert itself is cut (etp > 1), its ranks gather what was dispatched to them and
        scatter what they return (``MoEAlltoAllTokenDispatcher`` of Megatron-Core).
        """
        p, model = self.parallelism, self.model
        if not model.experts:
            return
        elements = 2 * self.batch.micro_batches * self.own_tokens * model.experts_per_token * model.hidden
        dispatched = elements * _BYTES[self.batch.dtypes.dispatch]
        combined = elements * self.activation
        for k, ranks, stage in self._groups(p.expert_groups("ep")):
            n = stage.expert_layers
            yield _call(f"ep{k}.dispatch", "all_to_all", ranks, n * dispatched, "dispatch")
            yield _call(f"ep{k}.combine", "all_to_all", ranks, n * combined, "combine")
        for k, ranks, stage in self._groups(p.expert_groups("tp")):
            whole = stage.expert_layers * p.etp * combined
            yield _call(f"etp{k}.gather", "all_gather", ranks, whole, "expert gather")
            yield _call(f"etp{k}.scatter", "reduce_scatter", ranks, whole, "expert scatter")

    def pipeline(self) -> Iterator[CollectiveCall]:
        """Yield the transfers of activations from each stage to the next, and of gradients to the one before.

        A micro-batch is tokens x hidden; a tensor-parallel rank sends its counterpart its part of the sequence
        (with sequence parallelism), or all of it. With vpp virtual stages a rank every boundary is crossed vpp times
        and the way back from the last rank to the first vpp - 1 times (Narayanan et al., arXiv 2104.04473, sections
        2.2 and 3.2).
        """
        p = self.parallelism
        message = self.batch.micro_batches * self.own_tokens * self.model.hidden * self.activation
        if p.pp == 1:
            return
        for k, ranks in enumerate(p.groups("pp").tolist()):
            for s, rank in enumerate(ranks):
                after = (s + 1) % p.pp
                size = message * (p.vpp if after else p.vpp - 1)
                yield _call(f"pp{k}.f{s}", "send_recv", (rank, ranks[after]), size, "pipeline")
                yield _call(f"pp{k}.b{after}", "send_recv", (ranks[after], rank), size, "pipeline")

    def gradients(self) -> Iterator[CollectiveCall]:
        """Yield the summation of gradients over the copies of each parameter.

        An all-reduce of them, or with a distributed optimizer a reduce-scatter of them and an all-gather of the new
        parameters (S. Rajbhandari et al., ZeRO, arXiv 1910.02054, section 7; ``dist_optimizer`` in Megatron-Core's
        documentation). A stage's parameters are divided by tp, those in experts by etp x ep (layer norms, which are
        not divided, count as if they were). Experts have fewer copies: the ``edp`` ranks. What overlaps with
        computing (``--overlap-grad-reduce``, ``--overlap-param-gather`` of Megatron-LM) is in the first phase, which
        computes.
        """
        p = self.parallelism
        for k, ranks, stage in self._groups(p.groups("cp", "dp")):
            yield from self._summed(f"dp{k}", ranks, _ceil(stage.parameters, p.tp))
        if self.model.experts:
            for k, ranks, stage in self._groups(p.expert_groups("dp")):
                yield from self._summed(f"edp{k}", ranks, _ceil(stage.expert_parameters, p.etp * p.ep))

    def embedding(self) -> Iterator[CollectiveCall]:
        """Yield the sum of the embedding's gradients over the first and the last stage, which each have a copy.

        ``_allreduce_word_embedding_grads`` of Megatron-Core (``distributed/finalize_model_grads.py``), which runs once
        the gradients are summed over the data-parallel ranks.
        """
        p = self.parallelism
        if not self.model.tied or p.pp == 1:
            return
        size = _ceil(self.model.embedding_parameters, p.tp) * _BYTES[self.batch.dtypes.gradients]
        for k, ranks in enumerate(p.groups("pp").tolist()):
            yield _call(f"emb{k}.reduce", "all_reduce", (ranks[0], ranks[-1]), size, "embedding")

    def _summed(self, name: str, ranks: tuple[int, ...], parameters: int) -> Iterator[CollectiveCall]:
        dtypes = self.batch.dtypes
        summed = parameters * _BYTES[dtypes.gradients]
        reduces, gathers = self.batch.overlap_grad_reduce, self.batch.overlap_param_gather
        if not self.batch.distributed_optimizer:
            yield _overlapping(_call(f"{name}.reduce", "all_reduce", ranks, summed, "gradients"), overlaps=reduces)
            return
        gathered = parameters * _BYTES[dtypes.parameters]
        yield _overlapping(_call(f"{name}.scatter", "reduce_scatter", ranks, summed, "gradients"), overlaps=reduces)
        yield _overlapping(_call(f"{name}.gather", "all_gather", ranks, gathered, "parameters"), overlaps=gathers)

    def _groups(self, groups: IntArray) -> Iterable[tuple[int, tuple[int, ...], PipelineStage]]:
        """Yield number, ranks and stage of each group; none where a group is one rank, which sends nothing."""
        if groups.shape[1] < 2:
            return
        for k, ranks in enumerate(groups.tolist()):
            yield k, tuple(ranks), self.stages[int(self.stage[ranks[0]])]


def _call(name: str, op: Op, ranks: tuple[int, ...], size: int, phase: str) -> CollectiveCall:
    return CollectiveCall(name, op, ranks, size, phase=PHASES.index(phase))


def _overlapping(call: CollectiveCall, *, overlaps: bool) -> CollectiveCall:
    """Return a collective in the phase that computes, at the same time as the computing, if it overlaps with that."""
    return dataclasses.replace(call, phase=0, waits=Waits(computing=False)) if overlaps else call


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
