"""Presets, held against their own architecture."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.workload.strategy.models import PRESETS, Model, preset
from controller.workload.strategy.stages import stages_of


def _grouped_attention(hidden: int, kv_heads: int) -> int:
    return 2 * hidden * hidden + 2 * hidden * kv_heads * 128


def _gpt(layers: int, hidden: int, embeddings: int, norms: int) -> int:
    # Query, key, value, output: 4 h^2 and biases; up and down: 8 h^2 and biases; two layer norms with biases.
    return layers * (12 * hidden**2 + 13 * hidden) + embeddings + norms * 2 * hidden


COUNTED = {
    "gpt3-175b": _gpt(96, 12288, (50257 + 2048) * 12288, 1),
    "bloom-176b": _gpt(70, 14336, 250880 * 14336, 2),
    "llama2-70b": 80 * (_grouped_attention(8192, 8) + 3 * 8192 * 28672 + 2 * 8192) + 2 * 32000 * 8192 + 8192,
    "llama3-405b": 126 * (_grouped_attention(16384, 8) + 3 * 16384 * 53248 + 2 * 16384) + 2 * 128256 * 16384 + 16384,
    "mixtral-8x7b": 32 * (_grouped_attention(4096, 8) + 8 * 3 * 4096 * 14336 + 8 * 4096 + 2 * 4096)
    + 2 * 32000 * 4096
    + 4096,
    # Latent attention: queries through 1536, keys and values through 512 + 64; 128 heads of 128 (+ 64).
    "deepseek-v3": 61
    * (7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168 + 1536 + 512 + 2 * 7168)
    + 3 * 3 * 7168 * 18432
    + 58 * (257 * 3 * 7168 * 2048 + 256 * 7168 + 256)
    + 2 * 129280 * 7168
    + 7168,
}


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_parameters_are_those_of_its_layers(name: str) -> None:
    # GPT-3's are published in millions; the others to the last one.
    assert PRESETS[name].parameters == pytest.approx(COUNTED[name], rel=3e-5 if name == "gpt3-175b" else 0, abs=0)


def test_experts_are_most_of_the_models_that_have_any() -> None:
    assert PRESETS["mixtral-8x7b"].expert_parameters == 32 * 8 * 176_160_768
    assert PRESETS["deepseek-v3"].expert_parameters == 58 * 256 * 44_040_192


def test_an_unknown_preset_names_those_there_are_and_one_alike() -> None:
    with pytest.raises(InputError) as error:
        preset("GPT-3 175B")
    assert str(error.value).startswith(
        "model: 'GPT-3 175B': no model has this name; did you mean 'gpt3-175b'? there are "
    )
    assert all(name in str(error.value) for name in PRESETS)
    with pytest.raises(InputError) as error:
        preset("zzz")
    assert "did you mean" not in str(error.value)


# -- stages --------------------------------------------------------------------------------------------------------


def test_llama_3_on_16_stages_is_short_of_a_layer_on_the_first_and_the_last() -> None:
    assert [stage.layers for stage in stages_of(PRESETS["llama3-405b"], 16)] == [7, *[8] * 14, 7]


def test_layers_without_experts_are_on_the_first_stage() -> None:
    stages = stages_of(PRESETS["deepseek-v3"], 16)
    assert [stage.layers for stage in stages] == [3, *[4] * 13, 3, 3]
    assert [stage.expert_layers for stage in stages] == [0, *[4] * 13, 3, 3]


def test_interleaved_stages_take_layers_in_turn() -> None:
    # Virtual stages of two layers: rank 0 has layers 0, 1, 4, 5. Two of these have no experts.
    model = Model("m", 8, 4, 1, 8_000, experts=2, experts_per_token=1, expert_parameters=600, dense_layers=2)
    assert [stage.expert_layers for stage in stages_of(model, 2, 2)] == [2, 4]
    assert [stage.expert_parameters for stage in stages_of(model, 2, 2)] == [200, 400]


@given(
    layers=st.integers(1, 40),
    data=st.data(),
    vocabulary=st.integers(0, 9),
    tied=st.booleans(),
    dense=st.integers(0, 40),
    experts=st.sampled_from([0, 4]),
)
def test_stages_together_hold_the_model_and_a_second_copy_of_tied_embeddings(
    layers: int, data: st.DataObject, vocabulary: int, tied: bool, dense: int, experts: int
) -> None:
    stages_wanted = data.draw(st.integers(1, layers))
    pp = data.draw(st.sampled_from([d for d in range(1, stages_wanted + 1) if stages_wanted % d == 0]))
    dense = min(dense, layers - 1)
    held = (layers - dense) * 60 if experts else 0
    model = Model(
        "m",
        layers,
        3,
        1,
        layers * 100 + held + 6 * vocabulary,
        vocabulary=vocabulary,
        tied=tied,
        experts=experts,
        experts_per_token=1,
        expert_parameters=held,
        dense_layers=dense,
    )
    stages = stages_of(model, pp, stages_wanted // pp)
    assert len(stages) == pp
    assert sum(stage.layers for stage in stages) == layers
    assert sum(stage.expert_layers for stage in stages) == (layers - dense if experts else 0)
    assert sum(stage.expert_parameters for stage in stages) == held
    copies = 2 if not tied or pp > 1 else 1
    assert (
        0
        <= sum(stage.parameters for stage in stages) - model.layer_parameters - copies * model.embedding_parameters
        < max(2, pp)
    )
    if stages_wanted == pp:
        assert max(stage.layers for stage in stages) - min(stage.layers for stage in stages) <= 1
