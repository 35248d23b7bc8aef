"""The computing time of a training iteration, from model, parallelism and the throughput of a GPU."""

from __future__ import annotations

from dataclasses import dataclass

from controller.workload.strategy.iteration import BatchPlan
from controller.workload.strategy.models import Model
from controller.workload.strategy.parallelism import Parallelism


@dataclass(frozen=True, slots=True)
class ComputingTime:
    """The computing of one iteration.

    Attributes:
        flops: floating-point operations of all GPUs together.
        bubble: the time in which a stage of the pipeline waits, as a part of the time in which it computes.
        seconds: from the first computation to the last without any communication.
    """

    flops: float
    bubble: float
    seconds: float


def computing_time(model: Model, parallelism: Parallelism, batch: BatchPlan, gpu_tflops: float) -> ComputingTime:
    """Return the computing of one iteration, divided evenly among the GPUs.

    The bubble is that of interleaved one-forward-one-backward pipelines, ``(pp - 1) / (vpp micro_batches)``
    (D. Narayanan et al., arXiv 2104.04473, section 2.2).

    Args:
        model: the model.
        parallelism: the numbers of ranks.
        batch: the batches of an iteration.
        gpu_tflops: achieved throughput of one GPU, not its peak, in 1e12 operations a second.
    """
    samples = batch.micro_batches * batch.micro_batch_size * parallelism.dp
    flops = flops_per_token(model) * samples * model.sequence
    bubble = (parallelism.pp - 1) / (parallelism.vpp * batch.micro_batches)
    return ComputingTime(flops, bubble, flops / (parallelism.ranks * gpu_tflops * 1e12) * (1.0 + bubble))


def flops_per_token(model: Model) -> float:
    """Return the operations of forward and backward pass for one token of training.

    Six for each parameter that multiplies the token's activations (J. Kaplan et al., arXiv 2001.08361, section 2.1),
    and ``12 layers hidden sequence`` in attention (A. Chowdhery et al., PaLM, arXiv 2204.02311, appendix B, for heads
    that are together as wide as the layer, causal masks not exploited). Of routed experts, those that the token
    visits count; a token embedding that is not also the output layer is looked up, not multiplied. Activations are not
    recomputed.
    """
    visited = model.expert_parameters * model.experts_per_token / model.experts if model.experts else 0.0
    looked_up = 0 if model.tied else model.embedding_parameters
    multiplied = model.parameters - model.expert_parameters + visited - looked_up
    return 6.0 * multiplied + 12.0 * model.layers * model.hidden * model.sequence
