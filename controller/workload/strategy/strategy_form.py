"""The part of a job document that describes the job by model and parallelism."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from controller.model.errors import InputError
from controller.model.files.fabric_file import from_validation_error
from controller.model.job import Algorithm, CollectiveCall, Op
from controller.workload.collectives import ALGORITHMS
from controller.workload.strategy.computing_time import ComputingTime, computing_time
from controller.workload.strategy.iteration import BatchPlan, Dtype, Dtypes, iteration
from controller.workload.strategy.models import Model, parameters_in_experts, preset
from controller.workload.strategy.parallelism import MAX_RANKS, Parallelism, checked, parse_order

_CONFIG = ConfigDict(strict=True, extra="forbid")

_NEEDED = "required for a job with 'model'"

Size = Annotated[int, Field(ge=1, le=MAX_RANKS)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Width = Annotated[int, Field(ge=1, le=100_000_000)]


def _whole(value: Any) -> Any:
    """Convert whole floats to int: parameters are often written as 175e9, which is a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


# NCCL has at most 64; each costs a flow for each peer.
Channels = Annotated[int, Field(ge=1, le=1024)]
Parameters = Annotated[int, Field(ge=0, le=10**16), BeforeValidator(_whole)]


class ModelForm(BaseModel):
    """A user-defined model; with ``preset``, that model with the other fields changed."""

    model_config = _CONFIG

    preset: str | None = None
    layers: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    hidden: Width | None = None
    sequence: Width | None = None
    parameters: Parameters | None = None
    vocabulary: Annotated[int, Field(ge=0, le=100_000_000)] | None = None
    tied: bool | None = None
    ffn: Width | None = None
    kv_width: Width | None = None
    experts: Count | None = None
    experts_per_token: Count | None = None
    expert_parameters: Parameters | None = None
    dense_layers: Count | None = None
    shared_experts: bool | None = None


def _shape(value: Any) -> Any:
    """Convert a name to that preset; a union of both would add its own words to every error's field."""
    if isinstance(value, str):
        return {"preset": value}
    if value is None or isinstance(value, dict | ModelForm):
        return value
    raise ValueError("must be the name of a model, or a mapping with its shape")


class ParallelismForm(BaseModel):
    """``parallelism``; if the job has hosts, ``dp`` may be left out and follows from their number."""

    model_config = _CONFIG

    tp: Size = 1
    cp: Size = 1
    dp: Size | None = None
    pp: Size = 1
    ep: Size = 1
    etp: Size | None = None
    vpp: Size = 1
    order: str = "tp-cp-ep-dp-pp"
    sequence_parallel: bool = True


class DtypesForm(BaseModel):
    """The data types of the numbers that are sent."""

    model_config = _CONFIG

    gradients: Dtype = "fp32"
    parameters: Dtype = "bf16"
    activations: Dtype = "bf16"
    dispatch: Dtype | None = None


class StrategyForm(BaseModel):
    """The fields of a job document that give its model and strategy; ``JobForm`` contains them."""

    model_config = _CONFIG

    model: Annotated[ModelForm | None, BeforeValidator(_shape, json_schema_input_type=str | ModelForm | None)] = None
    parallelism: ParallelismForm | None = None
    micro_batches: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    micro_batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    distributed_optimizer: bool = False
    overlap_grad_reduce: bool = False
    overlap_param_gather: bool = False
    dtypes: DtypesForm = Field(default_factory=DtypesForm)
    channels: Channels | None = None
    algorithms: dict[Op, Algorithm] = Field(default_factory=dict)
    gpu_tflops: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None


@dataclass(frozen=True, slots=True)
class Strategy:
    """A job by model and parallelism, checked.

    Attributes:
        channels: number of channels of each of its collectives.
        algorithms: the algorithms of operations that do not use their default one.
        gpu_tflops: achieved throughput of a GPU in 1e12 operations a second, from which the computing time follows.
    """

    model: Model
    parallelism: Parallelism
    batch: BatchPlan
    channels: int | None = None
    algorithms: Mapping[Op, Algorithm] = field(default_factory=dict)
    gpu_tflops: float | None = None

    @property
    def computing(self) -> ComputingTime | None:
        """The computing of one iteration; ``None`` where the throughput of a GPU is unknown."""
        if self.gpu_tflops is None:
            return None
        return computing_time(self.model, self.parallelism, self.batch, self.gpu_tflops)

    def collectives(self) -> tuple[CollectiveCall, ...]:
        """Return the collectives of one iteration."""
        return tuple(
            dataclasses.replace(call, algorithm=self.algorithms.get(call.op), channels=self.channels)
            for call in iteration(self.model, self.parallelism, self.batch)
        )


def strategy_of(form: StrategyForm, n_hosts: int) -> Strategy | None:
    """Return the strategy in a form; ``None`` where it has no model.

    Args:
        form: the fields of the job document.
        n_hosts: number of hosts of the job, 0 where it has none yet: the strategy then determines the number of ranks.

    Raises:
        InputError: a field is missing, or numbers do not fit each other or the hosts.
    """
    if form.model is None:
        for name in sorted(form.model_fields_set & set(StrategyForm.model_fields) - {"model"}):
            if getattr(form, name) is not None:
                raise InputError("allowed only for a job with 'model'", field=name)
        return None
    if form.parallelism is None:
        raise InputError(_NEEDED, field="parallelism")
    if form.micro_batches is None:
        raise InputError(_NEEDED, field="micro_batches")
    if form.overlap_param_gather and not form.distributed_optimizer:
        raise InputError("needs 'distributed_optimizer'", field="overlap_param_gather", value=True)
    model = _model(form.model)
    batch = BatchPlan(
        micro_batches=form.micro_batches,
        micro_batch_size=form.micro_batch_size,
        distributed_optimizer=form.distributed_optimizer,
        overlap_grad_reduce=form.overlap_grad_reduce,
        overlap_param_gather=form.overlap_param_gather,
        dtypes=Dtypes(
            gradients=form.dtypes.gradients,
            parameters=form.dtypes.parameters,
            activations=form.dtypes.activations,
            dispatch=form.dtypes.dispatch or form.dtypes.activations,
        ),
    )
    for op, algorithm in form.algorithms.items():
        if algorithm not in ALGORITHMS[op]:
            raise InputError(f"{op} has {', '.join(ALGORITHMS[op])}", field=f"algorithms.{op}", value=algorithm)
    parallelism = _parallelism(form.parallelism, model, n_hosts)
    return Strategy(model, parallelism, batch, form.channels, form.algorithms, form.gpu_tflops)


def read_strategy(document: Any, n_hosts: int) -> Strategy | None:
    """Return the strategy in a whole job document, which may have other fields; ``None`` where it has none.

    Raises:
        InputError: as ``strategy_of``.
    """
    fields = {name: document[name] for name in StrategyForm.model_fields if name in document}
    try:
        form = StrategyForm.model_validate(fields)
    except ValidationError as error:
        raise from_validation_error(error, fields) from None
    return strategy_of(form, n_hosts)


def _model(form: ModelForm) -> Model:
    given = {name: value for name, value in form.model_dump(exclude={"preset"}).items() if value is not None}
    if form.preset is not None:
        model = dataclasses.replace(preset(form.preset, "model.preset" if given else "model"), **given)
    else:
        for name in ("layers", "hidden", "sequence", "parameters"):
            if name not in given:
                raise InputError("required for a model without 'preset'", field=f"model.{name}")
        # By default there are as many heads of keys and values as of queries.
        model = Model("own", **({"kv_width": 2 * given["hidden"]} | given))
    if model.experts:
        model = _with_experts(model, counted="expert_parameters" in given)
    else:
        for name in ("experts_per_token", "expert_parameters", "dense_layers", "shared_experts"):
            if getattr(model, name):
                raise InputError("the model has no experts", field=f"model.{name}", value=getattr(model, name))
    if model.layer_parameters < 0:
        inside = model.parameters - model.layer_parameters
        raise InputError(
            f"embeddings and experts already have {inside}", field="model.parameters", value=model.parameters
        )
    return model


def _with_experts(model: Model, *, counted: bool) -> Model:
    """Return the model with the number of parameters in its experts, which is given if ``counted``."""
    if model.experts == 1:
        raise InputError("a single expert is a dense model: leave it out", field="model.experts", value=1)
    if not 1 <= model.experts_per_token <= model.experts:
        raise InputError(
            f"must be 1 to {model.experts}, the number of experts",
            field="model.experts_per_token",
            value=model.experts_per_token,
        )
    with_experts = model.layers - model.dense_layers
    if with_experts < 1:
        raise InputError(
            f"some of the {model.layers} layers must have experts", field="model.dense_layers", value=model.dense_layers
        )
    if not counted and model.ffn:
        held = parameters_in_experts(with_experts, model.experts, model.hidden, model.ffn)
        model = dataclasses.replace(model, expert_parameters=held)
    if not model.expert_parameters:
        raise InputError(
            "required for a model with experts, or 'ffn', the width of an expert", field="model.expert_parameters"
        )
    return model


def _parallelism(form: ParallelismForm, model: Model, n_hosts: int) -> Parallelism:
    dp = form.dp
    shard = form.tp * form.cp * form.pp
    if not model.experts and form.etp is not None:
        raise InputError("the model has no experts", field="parallelism.etp", value=form.etp)
    if dp is None:
        if not n_hosts:
            raise InputError("required for a job without hosts", field="parallelism.dp")
        if n_hosts % shard:
            raise InputError(
                f"tp {form.tp} x cp {form.cp} x pp {form.pp} = {shard} does not divide the job's {n_hosts} hosts",
                field="parallelism",
            )
        dp = n_hosts // shard
    if shard * dp > MAX_RANKS:
        raise InputError(f"{shard * dp} ranks are more than {MAX_RANKS}", field="parallelism")
    asked = Parallelism(
        tp=form.tp,
        cp=form.cp,
        dp=dp,
        pp=form.pp,
        ep=form.ep,
        etp=form.etp if form.etp is not None else form.tp,
        vpp=form.vpp,
        order=parse_order(form.order, {"tp": form.tp, "cp": form.cp, "ep": form.ep, "dp": dp, "pp": form.pp}),
        sequence_parallel=form.sequence_parallel,
    )
    return checked(asked, n_hosts or asked.ranks, model.experts, model.layers)
