"""The groups of ranks, as Megatron-Core forms them.

Source: ``RankGenerator`` and ``initialize_model_parallel`` of Megatron-Core, ``megatron/core/parallel_state.py``
(2025). A rank's number is written in mixed radix over the dimensions of ``order``, the first changing fastest, and a
group of some dimensions holds the ranks that differ in these alone.

There are two such decompositions of the same N ranks, and expert parallelism is only in the second:

* everything but experts: N = tp x cp x dp x pp. Gradients are summed over the cp and dp ranks together, because
  context parallelism copies the weights, too;
* experts: N = etp x ep x edp x pp, where etp (tensor parallelism inside an expert) is tp unless given, and edp, over
  which experts' gradients are summed, is what remains. So etp x ep has to divide tp x cp x dp; ep lies "within dp"
  only where cp is 1 and etp is tp. ``order`` holds for both: cp counts as 1 here and ep as 1 there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import IntArray

DIMENSIONS = ("tp", "cp", "ep", "dp", "pp")
"""Megatron's default order."""

MAX_RANKS = 1 << 17


@dataclass(frozen=True, slots=True)
class Parallelism:
    """A strategy; ``checked`` validates one, the constructor does not.

    Attributes:
        tp: size of tensor parallelism.
        cp: size of context parallelism.
        dp: size of data parallelism.
        pp: size of pipeline parallelism.
        ep: size of expert parallelism.
        etp: size of tensor parallelism inside an expert.
        vpp: stages on each pipeline rank (interleaved schedule); 1: a plain pipeline.
        order: all five dimensions, the fastest first.
        sequence_parallel: whether activations between tensor-parallel blocks are cut along the sequence.
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1
    ep: int = 1
    etp: int = 1
    vpp: int = 1
    order: tuple[str, ...] = DIMENSIONS
    sequence_parallel: bool = True

    @property
    def ranks(self) -> int:
        """The number N of ranks."""
        return self.tp * self.cp * self.dp * self.pp

    @property
    def edp(self) -> int:
        """Number of copies of each expert."""
        return self.ranks // (self.etp * self.ep * self.pp)

    def groups(self, *dimensions: str) -> IntArray:
        """Return ranks [groups, members] that differ only in these dimensions, outside experts."""
        sizes = {"tp": self.tp, "cp": self.cp, "ep": 1, "dp": self.dp, "pp": self.pp}
        return _groups([(name, sizes[name]) for name in self.order], dimensions)

    def expert_groups(self, *dimensions: str) -> IntArray:
        """Return the same for experts: ``tp`` is etp here, and ``dp`` is edp."""
        sizes = {"tp": self.etp, "cp": 1, "ep": self.ep, "dp": self.edp, "pp": self.pp}
        return _groups([(name, sizes[name]) for name in self.order], dimensions)

    def stage(self) -> IntArray:
        """Return the pipeline rank [N] of each rank."""
        stage = np.empty(self.ranks, dtype=np.int32)
        stage[self.groups("pp")] = np.arange(self.pp, dtype=np.int32)
        return stage


def checked(parallelism: Parallelism, n_ranks: int, n_experts: int, layers: int) -> Parallelism:
    """Return the parallelism unchanged, if it fits the job.

    Raises:
        InputError: a size does not divide another; the reason has the numbers.
    """
    p = parallelism
    if p.ranks != n_ranks:
        raise _error(
            "", f"tp {p.tp} x cp {p.cp} x dp {p.dp} x pp {p.pp} = {p.ranks} ranks; the job has {n_ranks} hosts"
        )
    if p.ep > 1 and n_experts < 2:
        raise _error("ep", "the model has no experts", p.ep)
    if p.ep > 1 and n_experts % p.ep:
        raise _error("ep", f"the model's {n_experts} experts cannot be divided evenly by it", p.ep)
    rest = p.tp * p.cp * p.dp
    if n_experts and rest % (p.etp * p.ep):
        raise _error("ep", f"etp {p.etp} x ep {p.ep} = {p.etp * p.ep} does not divide tp x cp x dp = {rest}", p.ep)
    if p.pp * p.vpp > layers:
        raise _error("pp", f"pp {p.pp} x vpp {p.vpp} = {p.pp * p.vpp} stages; the model has {layers} layers", p.pp)
    if p.vpp > 1 and p.pp == 1:
        raise _error("vpp", "pp is 1, so there is no pipeline to interleave", p.vpp)
    if n_experts and p.tp > 1 and not p.sequence_parallel:
        # Megatron-Core rejects this, too: each tensor-parallel rank would dispatch the same tokens.
        raise _error("sequence_parallel", "required for experts with tensor parallelism", False)
    if n_experts and not _same_pipelines(p):
        raise _error(
            "order",
            f"the experts' part (etp {p.etp} x ep {p.ep} x edp {p.edp}) and the rest (tp {p.tp} x cp {p.cp} x "
            f"dp {p.dp}) need the same pipelines: put pp last",
            "-".join(p.order),
        )
    return p


def _same_pipelines(p: Parallelism) -> bool:
    """Check Megatron's two conditions: pp last or as many copies of experts as of the rest; the same pp groups."""
    sizes = {"tp": p.tp * p.etp, "cp": p.cp, "ep": p.ep, "dp": p.dp * p.edp, "pp": p.pp}
    last = next((name for name in reversed(p.order) if sizes[name] > 1), "pp")
    if last != "pp" and p.pp > 1 and p.edp != p.dp:
        return False
    return np.array_equal(p.groups("pp"), p.expert_groups("pp"))


def parse_order(text: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Parse ``tp-cp-ep-dp-pp`` to a tuple of all dimensions.

    Args:
        text: the dimensions, joined by ``-``, the fastest first.
        sizes: size of each dimension; one of size 1 may be omitted, as in Megatron.

    Raises:
        InputError: a word is not a dimension, or a dimension occurs twice or is missing.
    """
    words = tuple(text.split("-"))
    for word in words:
        if word not in DIMENSIONS:
            raise _error("order", f"{word!r} is not one of {', '.join(DIMENSIONS)}", text)
    if len(set(words)) < len(words):
        raise _error("order", "a dimension is given twice", text)
    left_out = tuple(name for name in DIMENSIONS if name not in words)
    for name in left_out:
        if sizes[name] > 1:
            raise _error("order", f"{name}, which is {sizes[name]}, is missing", text)
    return words + left_out


def _groups(sizes: list[tuple[str, int]], dimensions: tuple[str, ...]) -> IntArray:
    # NumPy's first axis changes slowest: the last dimension of the order comes first.
    slow_first = sizes[::-1]
    shape = [size for _, size in slow_first]
    kept = [axis for axis, (name, _) in enumerate(slow_first) if name not in dimensions]
    inside = [axis for axis, (name, _) in enumerate(slow_first) if name in dimensions]
    ranks = np.arange(prod(shape), dtype=np.int32).reshape(shape)
    return np.ascontiguousarray(
        ranks.transpose(kept + inside).reshape(-1, prod(shape[axis] for axis in inside)), dtype=np.int32
    )


def _error(field: str, reason: str, value: object = None) -> InputError:
    return InputError(reason, field=f"parallelism.{field}" if field else "parallelism", value=value)
