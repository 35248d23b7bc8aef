"""The computing time that follows from model, parallelism and a GPU's throughput."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.strategy.computing_time import flops_per_token
from controller.workload.strategy.models import Model, preset
from controller.workload.strategy.strategy_form import read_strategy

DOCUMENT = {"name": "a", "model": "gpt3-175b", "parallelism": {"tp": 8, "dp": 4, "pp": 8}, "micro_batches": 64}


def seconds(document: dict[str, Any]) -> float:
    timing = parse_job(document).timing
    assert timing is not None
    ((phase, value),) = timing.compute
    assert phase == min(call.phase for call in parse_job(document).collectives)
    return value


@given(
    layers=st.integers(1, 200),
    hidden=st.integers(64, 20_000),
    sequence=st.integers(1, 40_000),
    rows=st.integers(1, 300_000),
)
def test_operations_are_those_of_narayanan_without_recomputation(
    layers: int, hidden: int, sequence: int, rows: int
) -> None:
    """arXiv 2104.04473, appendix: 96 l h^2 (1 + s / 6h) a token in the layers, of which recomputation is a quarter."""
    parameters = 12 * layers * hidden**2 + rows * hidden
    model = Model("m", layers, hidden, sequence, parameters, vocabulary=rows, tied=True)
    theirs = 72 * layers * hidden**2 * (1 + sequence / (6 * hidden)) + 6 * rows * hidden
    assert flops_per_token(model) == pytest.approx(theirs)


def test_an_embedding_that_is_only_looked_up_and_experts_not_visited_cost_nothing() -> None:
    tied = Model("m", 2, 64, 16, 200_000, vocabulary=1000, tied=True)
    untied = Model("m", 2, 64, 16, 264_000, vocabulary=1000)
    assert flops_per_token(untied) == flops_per_token(tied)
    # Mixtral: 12.9 billion parameters for a token (arXiv 2401.04088, section 1), of which 0.13 are looked up.
    mixtral = preset("mixtral-8x7b")
    attention = 12 * mixtral.layers * mixtral.hidden * mixtral.sequence
    assert (flops_per_token(mixtral) - attention) / 6 == pytest.approx(12.75e9, rel=0.005)


def test_a_gpus_throughput_gives_the_computing_time_before_the_first_phase() -> None:
    """GPT-3 on 256 GPUs of 140 teraFLOP/s, 256 samples: 5.64e17 operations, and a bubble of 7/64."""
    took = seconds(DOCUMENT | {"gpu_tflops": 140})
    assert took == pytest.approx(5.644e17 / (256 * 140e12) * (1 + 7 / 64), rel=1e-3)
    job = parse_job(DOCUMENT | {"gpu_tflops": 140})
    assert parse_job(document_of(job)).timing == job.timing
    assert parse_job(DOCUMENT).timing is None


@given(tflops=st.floats(1, 1000), factor=st.floats(1.1, 10))
def test_a_faster_gpu_computes_for_less_time_in_proportion(tflops: float, factor: float) -> None:
    slow, fast = (seconds(DOCUMENT | {"gpu_tflops": value}) for value in (tflops, tflops * factor))
    assert slow / fast == pytest.approx(factor)


def bubble(**more: int) -> float:
    parallelism = {"tp": 8, "dp": 4, "pp": 8} | more
    strategy = read_strategy(DOCUMENT | {"gpu_tflops": 1.0, "parallelism": parallelism}, 0)
    assert strategy is not None
    assert strategy.computing is not None
    return strategy.computing.bubble


def test_interleaving_divides_the_bubble() -> None:
    assert bubble() == pytest.approx(4 * bubble(vpp=4))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"gpu_tflops": 140, "compute_seconds": 1.0}, "gpu_tflops: 140.0: computing times are stated, too"),
        ({"gpu_tflops": 1e-9}, "gpu_tflops: 1e-09: an iteration would compute for"),
        ({"gpu_tflops": 0}, "gpu_tflops: "),
    ],
)
def test_a_throughput_that_cannot_be_used_is_refused(more: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as error:
        parse_job(DOCUMENT | more)
    assert str(error.value).startswith(reason)


def test_a_throughput_without_a_model_is_refused() -> None:
    with pytest.raises(InputError, match="gpu_tflops: allowed only for a job with 'model'"):
        parse_job({"name": "a", "gpu_tflops": 140.0, "hosts": ["h1"]})
