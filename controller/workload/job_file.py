"""Parsing of job documents (files and request bodies) to a validated ``Job``."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError

from controller.model.choices.packet_order import KEPT, PacketOrder
from controller.model.choices.protocol import ROCE, Protocol
from controller.model.choices.qp_mode import QpMode
from controller.model.errors import InputError
from controller.model.files.fabric_file import from_validation_error, read_document
from controller.model.files.fabric_forms import Name as TenantName
from controller.model.job import Algorithm, CollectiveCall, Job, Matrix, Op
from controller.model.priority import CLASSES
from controller.model.queue_pairs import QueuePairs
from controller.model.texts.byte_sizes import MAX_BYTES
from controller.model.texts.text_form import text_form
from controller.model.timing import JobTiming
from controller.model.waits import FOR_COMPUTING, Waits
from controller.workload.collectives import ALGORITHMS
from controller.workload.flow_form import (
    CONFIG,
    DEFAULT_COLLECTIVE,
    NAME,
    Bytes,
    FlowForm,
    Name,
    ProtocolsOfFlows,
    Qps,
    flow_list,
    queue_pairs,
)
from controller.workload.importers.base import provisional_hosts
from controller.workload.strategy.strategy_form import Channels, Strategy, StrategyForm, strategy_of
from controller.workload.waits import END, OverlapWith, Until, check_waits, waits_of

Rank = Annotated[int, Field(ge=0)]
# Levels are speeds over weights: with weights far from 1 they would be lost in rounding.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
Weight = Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False)]
LAST_PHASE = 1_000_000
Phase = Annotated[int, Field(ge=0, le=LAST_PHASE)]
PriorityClass = Annotated[int, Field(ge=0, lt=CLASSES)]
PhaseText = Annotated[str, text_form(r"^(0|[1-9][0-9]{0,6})$", "a whole number up to 1,000,000")]


def _phase_or_end(value: Any) -> Any:
    """Check that a value is a phase or the end: pydantic names the types of a union, which no reader knows."""
    if value != END and not (type(value) is int and 0 <= value <= LAST_PHASE):
        raise ValueError(f"must be a phase, 0 to {LAST_PHASE}, or '{END}'")
    return value


UntilPhase = Annotated[Phase | Literal["end"], BeforeValidator(_phase_or_end)]

MAX_SECONDS = 1e6
"""Most computing time in an iteration: a week or more between collectives is rejected."""

Computing = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
ComputeSeconds = Computing | dict[PhaseText, Computing]
PeriodSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]


class CollectiveForm(BaseModel):
    """One entry of ``collectives``."""

    model_config = CONFIG

    name: Name
    op: Op
    ranks: Annotated[list[Rank], Field(min_length=1)]
    bytes: Bytes
    algorithm: Algorithm | None = None
    phase: Phase = 0
    channels: Channels | None = None
    qps: Qps | None = None
    qp_mode: QpMode | None = None
    overlap: OverlapWith | None = None
    after: list[str] = Field(default_factory=list)
    until: UntilPhase | None = None
    protocol: Protocol | None = None
    priority: PriorityClass | None = Field(None, alias="class")


class MatrixForm(BaseModel):
    """``matrix``: row i has the bytes that host i sends."""

    model_config = CONFIG

    hosts: Annotated[list[str], Field(min_length=1)]
    bytes: list[list[Bytes]]
    collective: Name = DEFAULT_COLLECTIVE


class JobForm(StrategyForm, BaseModel):
    """A job: collectives, flows, a matrix, and a model with its parallelism may be combined.

    Defaults are made anew: pydantic copies one that is given as a value, a fifth of the time that a small job takes.
    """

    name: Name | None = None
    weight: Weight = 1.0
    hosts: list[str] = Field(default_factory=list)
    ports: Literal["unknown"] | None = None
    pxn: bool = True
    collectives: list[CollectiveForm] = Field(default_factory=list)
    flows: list[FlowForm] = Field(default_factory=list)
    matrix: MatrixForm | None = None
    phases: dict[str, Phase] = Field(default_factory=dict)
    overlap: dict[str, OverlapWith] = Field(default_factory=dict)
    after: dict[str, list[str]] = Field(default_factory=dict)
    until: dict[str, UntilPhase] = Field(default_factory=dict)
    qps: Qps | None = None
    qp_mode: QpMode | None = None
    protocol: Protocol | None = None
    tenant: TenantName | None = None
    order: PacketOrder | None = None
    priority: PriorityClass | None = Field(None, alias="class")
    classes: dict[str, PriorityClass] = Field(default_factory=dict)
    compute_seconds: ComputeSeconds | None = None
    period_seconds: PeriodSeconds | None = None


_FORM = TypeAdapter(JobForm)


def load_job(path: str | Path) -> Job:
    """Read a job file (JSON or YAML).

    Raises:
        InputError: the file cannot be read or describes no job.
    """
    return parse_job(read_document(path), source=str(path))


def parse_job(document: Any, *, name: str | None = None, source: str = "") -> Job:
    """Parse a job from plain data.

    Args:
        document: the plain data.
        name: the job's name where it is given from outside; the document may omit it, but not give another one.
        source: the name of the file or request for error messages.

    Raises:
        InputError: the first error found.
    """
    try:
        if not isinstance(document, dict):
            raise InputError("a job is a mapping with 'model', 'collectives', 'flows' or 'matrix'", value=document)
        try:
            form = _FORM.validate_python(document)
        except ValidationError as error:
            raise from_validation_error(error, document) from None
        return _job(form, name)
    except InputError as error:
        raise error.with_source(source) from None


def _job(form: JobForm, name: str | None) -> Job:
    _unique(form.hosts, "hosts", "this host is listed twice; each rank needs its own host (NIC)")
    strategy = strategy_of(form, len(form.hosts))
    if strategy is not None and not form.hosts:
        form = form.model_copy(update={"hosts": list(provisional_hosts(strategy.parallelism.ranks))})
    protocol = form.protocol or ROCE
    _check_qps(form.qps, protocol, "qps")
    qps = queue_pairs(form.qps, form.qp_mode, None, "qp_mode")
    collectives = _collectives(form, qps) + _described(form, strategy)
    qps_of = {call.name: call.qps or qps for call in collectives}
    protocols = ProtocolsOfFlows(protocol, {call.name: call.protocol or protocol for call in collectives})
    job = Job(
        name=_name(form.name, name),
        weight=form.weight,
        hosts=tuple(form.hosts),
        collectives=collectives,
        flows=flow_list(form.flows, qps_of, qps, protocols, ports_known=form.ports is None),
        matrix=None if form.matrix is None else _matrix(form.matrix),
        ports_known=form.ports is None,
        pxn=form.pxn,
        phases=form.phases,
        qps=qps,
        waits=waits_of(form.overlap, form.after),
        protocol=protocol,
        tenant=form.tenant,
        order=form.order or KEPT,
        priority=form.priority or 0,
        priorities=form.classes,
    )
    _check_named(job, form)
    job = _with_untils(job, form)
    check_waits(job)
    timing = timing_of(form.compute_seconds, form.period_seconds, job)
    if strategy is not None and strategy.computing is not None:
        if timing is not None:
            reason = "computing times are stated, too"
            raise InputError(reason, field="gpu_tflops", value=strategy.gpu_tflops)
        if strategy.computing.seconds > MAX_SECONDS:
            reason = f"an iteration would compute for {strategy.computing.seconds:.3g} s, more than {MAX_SECONDS:.0f}"
            raise InputError(reason, field="gpu_tflops", value=strategy.gpu_tflops)
        timing = JobTiming(((min(_phases(job), default=0), strategy.computing.seconds),))
    return job if timing is None else dataclasses.replace(job, timing=timing)


def timing_of(said: float | dict[str, float] | None, period: float | None, job: Job) -> JobTiming | None:
    """Return the stated computing times of a job; ``None`` where none are.

    Args:
        said: ``compute_seconds`` of the document; a single number is the time before the first phase.
        period: ``period_seconds`` of the document.
        job: the job with its collectives.

    Raises:
        InputError: both are given, or a phase has no collective.
    """
    if said is None:
        return None if period is None else JobTiming(period_seconds=period)
    if period is not None:
        raise InputError("cannot be combined with 'compute_seconds'", field="period_seconds", value=period)
    phases = _phases(job)
    if not isinstance(said, dict):
        return JobTiming(((min(phases, default=0), said),))
    for text in said:
        if int(text) not in phases:
            raise InputError("no collective is in this phase", field="compute_seconds", value=text)
    return JobTiming(tuple(sorted((int(text), seconds) for text, seconds in said.items())))


def _with_untils(job: Job, form: JobForm) -> Job:
    """Return the job with the phases until which collectives may take; none where that is the own one."""
    stated = {row.name: row.until for row in form.collectives if row.until is not None}
    if not stated and not form.until:
        return job
    phase, last = job.phase_by_name, max(_phases(job))

    def until(name: str, said: Until) -> int | None:
        at = last if said == END else said
        return None if at == phase.get(name, 0) else at

    calls = tuple(
        dataclasses.replace(call, waits=dataclasses.replace(call.waits, until=until(call.name, stated[call.name])))
        if call.name in stated
        else call
        for call in job.collectives
    )
    waits = dict(job.waits)
    for name, said in form.until.items():
        waits[name] = dataclasses.replace(waits.get(name, FOR_COMPUTING), until=until(name, said))
    return dataclasses.replace(
        job, collectives=calls, waits={name: own for name, own in waits.items() if own != FOR_COMPUTING}
    )


def _phases(job: Job) -> set[int]:
    """Return the phases of all the job's collectives."""
    known = job.phase_by_name
    return {known.get(name, 0) for name in job.collective_names}


def _name(inside: str | None, outside: str | None) -> str:
    name = outside if outside is not None else inside
    if name is None:
        raise InputError("a job needs a name", field="name")
    if inside is not None and inside != name:
        raise InputError(f"the name in the request is {name!r}", field="name", value=inside)
    if name in (".", ".."):
        raise InputError(
            "this name is not allowed at the end of a URL (RFC 3986, section 5.2.4)", field="name", value=name
        )
    if not re.fullmatch(NAME, name):
        raise InputError("a name must have 1 to 63 letters, digits, '.', '_' and '-'", field="name", value=name)
    return name


def _collectives(form: JobForm, job_qps: QueuePairs | None) -> tuple[CollectiveCall, ...]:
    _unique([row.name for row in form.collectives], "collectives", "this collective is listed twice", ".name")
    calls = []
    for i, row in enumerate(form.collectives):
        field = f"collectives[{i}]"
        for position, rank in enumerate(row.ranks):
            if rank >= len(form.hosts):
                raise InputError(
                    f"there are only {len(form.hosts)} hosts", field=f"{field}.ranks[{position}]", value=rank
                )
        _unique(row.ranks, f"{field}.ranks", "this rank is listed twice")
        if row.op == "send_recv" and len(row.ranks) != 2:
            raise InputError(
                "send_recv must have two ranks: the sender and the receiver", field=f"{field}.ranks", value=row.ranks
            )
        algorithms = ALGORITHMS[row.op]
        if row.algorithm is not None and row.algorithm not in algorithms:
            raise InputError(
                f"{row.op} supports {', '.join(algorithms)}", field=f"{field}.algorithm", value=row.algorithm
            )
        _check_qps(row.qps, row.protocol or form.protocol or ROCE, f"{field}.qps")
        qps = queue_pairs(row.qps, row.qp_mode, job_qps, f"{field}.qp_mode")
        calls.append(
            CollectiveCall(
                row.name,
                row.op,
                tuple(row.ranks),
                row.bytes,
                row.algorithm,
                row.phase,
                row.channels,
                qps,
                Waits(row.overlap is None, tuple(row.after)),
                row.protocol,
                row.priority,
            )
        )
    return tuple(calls)


def _check_qps(count: int | None, protocol: Protocol, field: str) -> None:
    """Check that queue pairs are stated of RoCEv2 alone."""
    if count is not None and protocol != ROCE:
        raise InputError(f"connections of the protocol {protocol} have no queue pairs", field=field, value=count)


def _described(form: JobForm, strategy: Strategy | None) -> tuple[CollectiveCall, ...]:
    """Return the collectives derived from model and parallelism."""
    if strategy is None:
        return ()
    calls = strategy.collectives()
    given = {row.name: i for i, row in enumerate(form.collectives)}
    for call in calls:
        if call.bytes > MAX_BYTES:
            raise InputError(f"{call.name} would have {call.bytes} bytes, more than {MAX_BYTES}", field="model")
        if call.name in given:
            raise InputError(
                "the model's own traffic has a collective of this name",
                field=f"collectives[{given[call.name]}].name",
                value=call.name,
            )
    return calls


def _check_named(job: Job, form: JobForm) -> None:
    """Check that what is said of collectives by name is about such as exist, and are not in ``collectives``."""
    described = {call.name for call in job.collectives}
    named = set(job.collective_names)
    for key, rows in (
        ("phases", form.phases),
        ("overlap", form.overlap),
        ("after", form.after),
        ("until", form.until),
    ):
        for name, value in rows.items():
            if name in described:
                what = "gives its phase" if key == "phases" else f"is described, where it may have {key!r}"
                raise InputError(f"this collective already {what}", field=f"{key}.{name}", value=value)
            if name not in named:
                raise InputError("no flow or matrix belongs to this collective", field=f"{key}.{name}", value=value)
    stated = {row.name for row in form.collectives}
    for name, value in form.classes.items():
        if name in stated:
            raise InputError(
                "this collective already is described, where it may have 'class'", field=f"classes.{name}", value=value
            )
        if name not in named:
            raise InputError("the job has no collective of this name", field=f"classes.{name}", value=value)


def _matrix(form: MatrixForm) -> Matrix:
    n = len(form.hosts)
    _unique(form.hosts, "matrix.hosts", "this host is listed twice")
    if len(form.bytes) != n:
        raise InputError(f"{n} hosts need {n} rows, not {len(form.bytes)}", field="matrix.bytes")
    for i, row in enumerate(form.bytes):
        if len(row) != n:
            raise InputError(f"{n} hosts need {n} numbers, not {len(row)}", field=f"matrix.bytes[{i}]")
        if row[i] != 0:
            raise InputError("a host cannot send to itself", field=f"matrix.bytes[{i}][{i}]", value=row[i])
    return Matrix(tuple(form.hosts), np.array(form.bytes, dtype=np.int64).reshape(n, n), form.collective)


def _unique(values: list[Any], field: str, reason: str, suffix: str = "") -> None:
    if len(set(values)) == len(values):
        return
    seen = set()
    for i, value in enumerate(values):
        if value in seen:
            raise InputError(reason, field=f"{field}[{i}]{suffix}", value=value)
        seen.add(value)
