"""Models by their published shape: the parameters on which the traffic of a training iteration depends."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from controller.model.errors import InputError

_GATED = 3
"""Weight matrices of a gated feed-forward block (SwiGLU: N. Shazeer, arXiv 2002.05202), as in all experts here."""


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder-only transformer.

    Attributes:
        layers: transformer layers.
        hidden: width of the activations between them.
        sequence: tokens of a sample in training.
        parameters: of the whole model, all experts included, tied embeddings once.
        vocabulary: rows of the token embedding; 0 where it is unknown, and the embedding then counts as spread over
            the layers like everything else.
        tied: whether the output layer is the transposed embedding (one matrix) or a second one.
        ffn: width of the feed-forward block (of one expert, where there are any); 0 where it is unknown.
        kv_width: elements of keys and values together that attention reads for a token in one layer.
        experts: routed experts in each layer that has any; 0 in a dense model.
        experts_per_token: number of routed experts for each token.
        expert_parameters: the part of ``parameters`` that is in routed experts.
        dense_layers: number of first layers without routed experts.
        shared_experts: whether layers with experts also have a feed-forward block that every token passes.
    """

    name: str
    layers: int
    hidden: int
    sequence: int
    parameters: int
    vocabulary: int = 0
    tied: bool = False
    ffn: int = 0
    kv_width: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_parameters: int = 0
    dense_layers: int = 0
    shared_experts: bool = False

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the token embedding alone."""
        return self.vocabulary * self.hidden

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers together without routed experts."""
        return self.parameters - self.expert_parameters - self.embedding_parameters * (1 if self.tied else 2)


def parameters_in_experts(layers: int, experts: int, hidden: int, ffn: int) -> int:
    """Return the number of parameters in routed experts: three matrices of ``hidden`` x ``ffn`` each, no biases."""
    return layers * experts * _GATED * hidden * ffn


def gpt3_175b() -> Model:
    """GPT-3 175B: T. Brown et al., arXiv 2005.14165, table 2.1 and table D.1 (174,600 million parameters).

    The feed-forward width is four times the hidden one (section 2.1); the vocabulary is GPT-2's 50,257 tokens, whose
    embedding is also the output layer.
    """
    return Model(
        "gpt3-175b",
        layers=96,
        hidden=12288,
        sequence=2048,
        parameters=174_600_000_000,
        vocabulary=50257,
        tied=True,
        ffn=4 * 12288,
        kv_width=2 * 12288,
    )


def bloom_176b() -> Model:
    """BLOOM 176B: BigScience, arXiv 2211.05100, section 3.2 and table 3; parameters by its model card.

    The embedding has 250,880 rows (model card: 3,596,615,680 parameters in it) and is tied to the output layer.
    """
    return Model(
        "bloom-176b",
        layers=70,
        hidden=14336,
        sequence=2048,
        parameters=176_247_271_424,
        vocabulary=250_880,
        tied=True,
        ffn=4 * 14336,
        kv_width=2 * 14336,
    )


def llama2_70b() -> Model:
    """Llama 2 70B: H. Touvron et al., arXiv 2307.09288, table 1 (context 4k, grouped-query attention).

    Shape by the published configuration: 8 key-value heads of 128, feed-forward width 28,672.
    """
    return Model(
        "llama2-70b",
        layers=80,
        hidden=8192,
        sequence=4096,
        parameters=68_976_648_192,
        vocabulary=32_000,
        ffn=28672,
        kv_width=2 * 8 * 128,
    )


def llama3_405b() -> Model:
    """Llama 3 405B: Llama team, arXiv 2407.21783, table 3; sequence of the initial pre-training (section 3.4.1).

    The published weights have a vocabulary of 128,256 (the table rounds to 128,000).
    """
    return Model(
        "llama3-405b",
        layers=126,
        hidden=16384,
        sequence=8192,
        parameters=405_853_388_800,
        vocabulary=128_256,
        ffn=53248,
        kv_width=2 * 8 * 128,
    )


def mixtral_8x7b() -> Model:
    """Mixtral 8x7B: A. Jiang et al., arXiv 2401.04088, table 1: eight experts in every layer, two a token."""
    return Model(
        "mixtral-8x7b",
        layers=32,
        hidden=4096,
        sequence=32768,
        parameters=46_702_792_704,
        vocabulary=32_000,
        ffn=14336,
        kv_width=2 * 8 * 128,
        experts=8,
        experts_per_token=2,
        expert_parameters=parameters_in_experts(32, 8, 4096, 14336),
    )


def deepseek_v3() -> Model:
    """DeepSeek-V3: DeepSeek-AI, arXiv 2412.19437, section 4.2: 61 layers, the first three dense, 671B parameters.

    256 routed experts of width 2,048 and a shared one in each other layer, eight routed ones a token; sequences of
    4,096 tokens in pre-training. Keys have 128 + 64 and values 128 elements in each of 128 heads once latent attention
    has unfolded them. The published configuration's vocabulary is 129,280. The multi-token-prediction module, which
    the 671B leave out, is left out here, too.
    """
    return Model(
        "deepseek-v3",
        layers=61,
        hidden=7168,
        sequence=4096,
        parameters=671_026_419_200,
        vocabulary=129_280,
        ffn=2048,
        kv_width=128 * (128 + 64 + 128),
        experts=256,
        experts_per_token=8,
        expert_parameters=parameters_in_experts(61 - 3, 256, 7168, 2048),
        dense_layers=3,
        shared_experts=True,
    )


PRESETS = {
    model.name: model
    for model in (gpt3_175b(), bloom_176b(), llama2_70b(), llama3_405b(), mixtral_8x7b(), deepseek_v3())
}


def preset(name: str, field: str = "model") -> Model:
    """Return the model of this name.

    Raises:
        InputError: no model has this name; the reason lists the models, and a similarly spelt one first.
    """
    if name in PRESETS:
        return PRESETS[name]
    alike = difflib.get_close_matches(name.lower(), PRESETS, n=1)
    hint = f"did you mean {alike[0]!r}? " if alike else ""
    raise InputError(f"no model has this name; {hint}there are {', '.join(PRESETS)}", field=field, value=name)
