"""The layers and the number of parameters of each stage of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from controller.workload.strategy.models import Model


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """The part of a model on one pipeline rank (all its virtual stages together), before tensor and expert parallelism.

    Attributes:
        layers: number of layers.
        expert_layers: number of layers with routed experts.
        parameters: number without routed experts; with embedding and output layer where the stage has them.
        expert_parameters: number in routed experts.
    """

    layers: int
    expert_layers: int
    parameters: int
    expert_parameters: int


def stages_of(model: Model, pp: int, vpp: int = 1) -> tuple[PipelineStage, ...]:
    """Divide the layers among the stages [pp], in order.

    The layers go in order to pp x vpp virtual stages, of which pipeline rank s has numbers s, s + pp, s + 2 pp ..
    (D. Narayanan et al., SC 2021, arXiv 2104.04473, section 2.2). If they do not divide evenly, the last virtual stage,
    then the first, then the ones before the last have one layer less, because the last and the first hold the output
    layer and the embedding (as Llama 3 is cut: arXiv 2407.21783, section 3.3.2). The embedding is on the first stage,
    the output layer on the last; tied ones are two copies where these are two stages. Parameters that are not in
    experts or embeddings count as spread evenly over the layers.
    """
    sizes = _layers_of(model.layers, pp * vpp)
    first = 0
    layers, expert_layers = [0] * pp, [0] * pp
    for number, size in enumerate(sizes):
        layers[number % pp] += size
        expert_layers[number % pp] += max(0, first + size - max(first, model.dense_layers)) if model.experts else 0
        first += size
    all_expert_layers = max(1, model.layers - model.dense_layers)
    stages = []
    for s in range(pp):
        embeddings = int(s == 0) + int(s == pp - 1)
        if model.tied:
            embeddings = min(embeddings, 1)
        stages.append(
            PipelineStage(
                layers=layers[s],
                expert_layers=expert_layers[s],
                parameters=-(-model.layer_parameters * layers[s] // model.layers)
                + embeddings * model.embedding_parameters,
                expert_parameters=-(-model.expert_parameters * expert_layers[s] // all_expert_layers),
            )
        )
    return tuple(stages)


def _layers_of(layers: int, stages: int) -> list[int]:
    """Return the number of layers of each virtual stage [stages]."""
    full = -(-layers // stages)
    sizes = [full] * stages
    # Last, first, then backwards from the one before the last.
    shorter = [stages - 1, 0, *range(stages - 2, 0, -1)]
    for stage in shorter[: full * stages - layers]:
        sizes[stage] -= 1
    return sizes
