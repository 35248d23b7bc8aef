"""Job documents that give model and parallelism."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.job import Algorithm
from controller.workload.importers.base import provisional_hosts
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from controller.workload.strategy.iteration import BatchPlan, Dtypes, iteration
from controller.workload.strategy.models import PRESETS, Model
from controller.workload.strategy.parallelism import Parallelism
from controller.workload.strategy.strategy_form import read_strategy

DOCUMENT: dict[str, Any] = {
    "name": "a",
    "model": "llama2-70b",
    "parallelism": {"tp": 2, "pp": 2},
    "micro_batches": 4,
    "hosts": [f"h{i}" for i in range(8)],
}
OWN = {"layers": 4, "hidden": 8, "sequence": 16, "parameters": 4000}
EXPERTS = OWN | {"experts": 4, "experts_per_token": 2, "ffn": 3}


def with_(**changes: Any) -> dict[str, Any]:
    return copy.deepcopy(DOCUMENT) | changes


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in DOCUMENT.items() if key != name}


def test_the_collectives_are_those_of_one_iteration_and_dp_is_what_remains_of_the_hosts() -> None:
    job = parse_job(DOCUMENT)
    assert job.hosts == tuple(DOCUMENT["hosts"])
    assert job.collectives == iteration(PRESETS["llama2-70b"], Parallelism(tp=2, dp=2, pp=2, etp=2), BatchPlan(4))


def test_all_fields_reach_the_strategy() -> None:
    strategy = read_strategy(
        {
            "model": "mixtral-8x7b",
            "parallelism": {
                "tp": 2,
                "cp": 2,
                "dp": 2,
                "pp": 2,
                "ep": 4,
                "etp": 1,
                "vpp": 2,
                "order": "cp-tp-ep-dp-pp",
                "sequence_parallel": True,
            },
            "micro_batches": 3,
            "micro_batch_size": 5,
            "distributed_optimizer": True,
            "overlap_grad_reduce": True,
            "overlap_param_gather": True,
            "dtypes": {"gradients": "bf16", "parameters": "fp8", "activations": "fp32", "dispatch": "fp16"},
            "hosts": ["left", "alone"],
        },
        0,
    )
    assert strategy is not None
    assert strategy.model == PRESETS["mixtral-8x7b"]
    assert strategy.parallelism == Parallelism(2, 2, 2, 2, 4, 1, 2, ("cp", "tp", "ep", "dp", "pp"))
    assert strategy.batch == BatchPlan(3, 5, True, Dtypes("bf16", "fp8", "fp32", "fp16"), True, True)


def test_tokens_are_dispatched_in_the_type_of_activations_by_default() -> None:
    strategy = read_strategy(DOCUMENT | {"dtypes": {"activations": "fp8"}}, 8)
    assert strategy is not None
    assert strategy.batch.dtypes.dispatch == "fp8"


def test_a_job_without_hosts_is_on_made_up_ones_as_many_as_the_strategy_has_ranks() -> None:
    document = without("hosts") | {"parallelism": {"tp": 2, "pp": 2, "dp": 4}}
    assert parse_job(document).hosts == provisional_hosts(16)


def test_a_job_without_a_model_has_no_strategy() -> None:
    assert read_strategy({"name": "a", "collectives": []}, 0) is None


def test_collectives_and_flows_stand_beside_the_models_own() -> None:
    extra = {"name": "x", "op": "all_reduce", "ranks": [0, 1], "bytes": 5, "phase": 3}
    job = parse_job(with_(collectives=[extra], flows=[{"src": "h0", "dst": "h1", "bytes": 1}]))
    assert job.collectives[0].name == "x"
    assert len(job.collectives) == 1 + len(parse_job(DOCUMENT).collectives)
    assert len(job.flows.src) == 1


def test_the_document_in_full_describes_the_same_job() -> None:
    job = parse_job(DOCUMENT)
    again = parse_job(document_of(job))
    assert (again.hosts, again.collectives) == (job.hosts, job.collectives)


# -- models of one's own -------------------------------------------------------------------------------------------


def model_of(form: Any) -> Model:
    strategy = read_strategy({"model": form, "parallelism": {"dp": 1}, "micro_batches": 1}, 0)
    assert strategy is not None
    return strategy.model


def test_channels_are_of_every_collective_and_algorithms_of_their_operations() -> None:
    plain = parse_job(DOCUMENT).collectives
    chosen = parse_job(with_(channels=4, algorithms={"all_reduce": "tree", "all_gather": "direct"}))
    algorithm: dict[str, Algorithm] = {"all_reduce": "tree", "all_gather": "direct"}
    assert {call.op for call in plain} > algorithm.keys()
    assert chosen.collectives == tuple(
        dataclasses.replace(call, channels=4, algorithm=algorithm.get(call.op)) for call in plain
    )
    assert parse_job(document_of(chosen)).collectives == chosen.collectives


def test_a_user_defined_model_has_as_many_key_value_heads_as_heads_by_default() -> None:
    assert model_of(OWN) == Model("own", 4, 8, 16, 4000, kv_width=16)
    assert model_of(OWN | {"kv_width": 4}).kv_width == 4


def test_parameters_in_experts_follow_from_their_width_unless_given() -> None:
    assert model_of(EXPERTS | {"dense_layers": 1}).expert_parameters == 3 * 4 * 3 * 8 * 3
    assert model_of(EXPERTS | {"expert_parameters": 7}).expert_parameters == 7


def test_a_preset_may_be_changed_in_some_fields() -> None:
    model = model_of({"preset": "llama3-405b", "sequence": 131_072})
    assert model.sequence == 131_072
    assert model.parameters == PRESETS["llama3-405b"].parameters


def test_parameters_may_be_written_with_an_exponent() -> None:
    assert model_of(OWN | {"parameters": 4e9}).parameters == 4_000_000_000


# -- what cannot be used -------------------------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an algorithm that the operation has not": (
        with_(algorithms={"all_gather": "tree"}),
        "algorithms.all_gather: 'tree': all_gather has ring, direct",
    ),
    "an algorithm of no operation": (with_(algorithms={"gather": "ring"}), "algorithms.gather: 'gather': "),
    "channels without a model": (without("model") | {"channels": 2}, "channels: allowed only for a job with 'model'"),
    "unknown model": (with_(model="llama"), "model: 'llama': no model has this name; did you mean 'llama2-70b'? there"),
    "unknown preset": (
        with_(model={"preset": "x", "layers": 2}),
        "model.preset: 'x': no model has this name; there are gpt3-175b",
    ),
    "no model at all": (with_(model=5), "model: 5: must be the name of a model, or a mapping with its shape"),
    "half a model": (with_(model={"layers": 4}), "model.hidden: required for a model without 'preset'"),
    "negative layers": (
        with_(model=OWN | {"layers": -4}),
        "model.layers: -4: input should be greater than or equal to 1",
    ),
    "half a parameter": (
        with_(model=OWN | {"parameters": 0.5}),
        "model.parameters: 0.5: input should be a valid integer",
    ),
    "unknown key": (with_(model=OWN | {"heads": 4}), "model.heads: 4: unknown key"),
    "one expert": (with_(model=OWN | {"experts": 1}), "model.experts: 1: a single expert is a dense model"),
    "too many experts a token": (
        with_(model=EXPERTS | {"experts_per_token": 5}),
        "model.experts_per_token: 5: must be 1 to 4, the number of experts",
    ),
    "no layer with experts": (
        with_(model=EXPERTS | {"dense_layers": 4}),
        "model.dense_layers: 4: some of the 4 layers must have experts",
    ),
    "experts of no size": (
        with_(model=OWN | {"experts": 4, "experts_per_token": 1}),
        "model.expert_parameters: required for a model with experts, or 'ffn'",
    ),
    "experts of a dense model": (
        with_(model=OWN | {"dense_layers": 2}),
        "model.dense_layers: 2: the model has no experts",
    ),
    "more in embeddings than in all": (
        with_(model=OWN | {"vocabulary": 300}),
        "model.parameters: 4000: embeddings and experts already have 4800",
    ),
    "no parallelism": (without("parallelism"), "parallelism: required for a job with 'model'"),
    "no micro-batches": (without("micro_batches"), "micro_batches: required for a job with 'model'"),
    "parallelism alone": (without("model"), "micro_batches: allowed only for a job with 'model'"),
    "no micro-batch": (with_(micro_batches=0), "micro_batches: 0: input should be greater than or equal to 1"),
    "another word": (with_(parallelism={"tpp": 1}), "parallelism.tpp: 1: unknown key"),
    "tp of nothing": (with_(parallelism={"tp": 0}), "parallelism.tp: 0: input should be greater than or equal to 1"),
    "too few hosts": (
        with_(parallelism={"tp": 8, "pp": 8, "dp": 4}),
        "parallelism: tp 8 x cp 1 x dp 4 x pp 8 = 256 ranks; the job has 8 hosts",
    ),
    "hosts left over": (
        with_(parallelism={"tp": 3}),
        "parallelism: tp 3 x cp 1 x pp 1 = 3 does not divide the job's 8 hosts",
    ),
    "neither dp nor hosts": (without("hosts"), "parallelism.dp: required for a job without hosts"),
    "experts where there are none": (with_(parallelism={"ep": 2}), "parallelism.ep: 2: the model has no experts"),
    "cut experts where there are none": (with_(parallelism={"etp": 2}), "parallelism.etp: 2: the model has no experts"),
    "ranks beyond count": (
        without("hosts") | {"parallelism": {"tp": 131072, "dp": 2}},
        "parallelism: 262144 ranks are more than 131072",
    ),
    "unknown dtype": (with_(dtypes={"gradients": "fp64"}), "dtypes.gradients: 'fp64': input should be "),
    "a name taken": (
        with_(collectives=[{"name": "dp0.reduce", "op": "all_reduce", "ranks": [0], "bytes": 1}]),
        "collectives[0].name: 'dp0.reduce': the model's own traffic has a collective of this name",
    ),
    "parameters that no optimizer gathers": (
        with_(overlap_param_gather=True, distributed_optimizer=False),
        "overlap_param_gather: True: needs 'distributed_optimizer'",
    ),
    "more bytes than there are": (
        with_(model=OWN | {"sequence": 10**8, "hidden": 10**8}, micro_batches=10**6),
        "bytes, more than 9007199254740991",
    ),
}


@pytest.mark.parametrize(("document", "says"), BAD.values(), ids=BAD.keys())
def test_a_strategy_that_cannot_be_used_is_one_line_that_names_field_and_value(
    document: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError) as error:
        parse_job(document, source="J")
    assert str(error.value).startswith("J: ")
    assert says in str(error.value)


SMALL_VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=5)


@given(
    document=st.fixed_dictionaries(
        {"name": st.just("a")},
        optional={
            "model": st.sampled_from([*PRESETS, OWN, EXPERTS])
            | st.dictionaries(st.sampled_from(["preset", *EXPERTS, "dense_layers", "tied"]), SMALL_VALUES)
            | SMALL_VALUES,
            "parallelism": st.dictionaries(
                st.sampled_from(["tp", "cp", "dp", "pp", "ep", "etp", "vpp", "order", "sequence_parallel"]),
                st.integers(1, 4) | SMALL_VALUES | st.sampled_from(["tp-pp-dp", "pp-tp-cp-ep-dp"]),
            )
            | SMALL_VALUES,
            "micro_batches": st.integers(1, 3) | SMALL_VALUES,
            "hosts": st.lists(st.sampled_from([f"h{i}" for i in range(9)]), max_size=8, unique=True),
            "distributed_optimizer": SMALL_VALUES,
            "overlap_grad_reduce": SMALL_VALUES,
            "dtypes": SMALL_VALUES,
        },
    )
)
def test_any_strategy_is_a_job_or_one_clear_error(document: dict[str, Any]) -> None:
    try:
        job = parse_job(document, source="J")
    except InputError as error:
        assert str(error).startswith("J: ")
        assert "\n" not in str(error)
    else:
        assert all(rank < len(job.hosts) for call in job.collectives for rank in call.ranks)
