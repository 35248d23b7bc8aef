"""Parsing of job documents (files and request bodies) to a validated ``Job``."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
import orjson
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from controller.model.errors import InputError
from controller.model.fabric_file import from_validation_error, read_document
from controller.model.job import Algorithm, CollectiveCall, FlowList, Job, Matrix, Op
from controller.model.port_numbers import MAX_PORT
from controller.model.timing import JobTiming
from controller.model.traffic import Int64Array
from controller.model.unique_keys import check_unique
from controller.workload.collectives import ALGORITHMS
from controller.workload.importers.base import provisional_hosts
from controller.workload.strategy_form import Channels, Strategy, StrategyForm, strategy_of

MAX_BYTES = 2**53
"""More than the size of any buffer, and the limit of exact numbers in JSON."""

DEFAULT_COLLECTIVE = "all"
"""The collective of flows and of a matrix that name none."""

_NAME = r"[A-Za-z0-9._-]{1,63}"

Name = Annotated[str, StringConstraints(pattern=rf"^{_NAME}$")]
Bytes = Annotated[float, Field(ge=0, le=MAX_BYTES, allow_inf_nan=False)]
Rank = Annotated[int, Field(ge=0)]
UdpPort = Annotated[int, Field(ge=1, le=MAX_PORT)]
# Levels are speeds over weights: with weights far from 1 they would be lost in rounding.
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6
Weight = Annotated[float, Field(ge=LEAST_WEIGHT, le=MOST_WEIGHT, allow_inf_nan=False)]
Phase = Annotated[int, Field(ge=0, le=1_000_000)]
PhaseText = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,6})$")]

MAX_SECONDS = 1e6
"""Most computing time in an iteration: a week or more between collectives is rejected."""

Computing = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
ComputeSeconds = Computing | dict[PhaseText, Computing]
PeriodSeconds = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]

_CONFIG = ConfigDict(strict=True, extra="forbid")


class CollectiveForm(BaseModel):
    """One entry of ``collectives``."""

    model_config = _CONFIG

    name: Name
    op: Op
    ranks: Annotated[list[Rank], Field(min_length=1)]
    bytes: Bytes
    algorithm: Algorithm | None = None
    phase: Phase = 0
    channels: Channels | None = None


@with_config(_CONFIG)
class FlowForm(TypedDict):
    """One entry of ``flows``; a typed dictionary, because there may be very many."""

    src: str
    dst: str
    bytes: Bytes
    collective: NotRequired[Name]
    udp_src: NotRequired[UdpPort]


class MatrixForm(BaseModel):
    """``matrix``: row i is what host i sends."""

    model_config = _CONFIG

    hosts: Annotated[list[str], Field(min_length=1)]
    bytes: list[list[Bytes]]
    collective: Name = DEFAULT_COLLECTIVE


class JobForm(StrategyForm, BaseModel):
    """The whole document; model and parallelism, and each of the three forms, may stand beside the others."""

    name: Name | None = None
    weight: Weight = 1.0
    hosts: list[str] = []
    ports: Literal["unknown"] | None = None
    pxn: bool = True
    collectives: list[CollectiveForm] = []
    flows: list[FlowForm] = []
    matrix: MatrixForm | None = None
    phases: dict[str, Phase] = {}
    compute_seconds: ComputeSeconds | None = None
    period_seconds: PeriodSeconds | None = None


_FORM = TypeAdapter(JobForm)


def load_job(path: str | Path) -> Job:
    """Read a job file (JSON or YAML).

    Raises:
        InputError: the file cannot be read or describes no job.
    """
    return parse_job(read_document(path), source=str(path))


def parse_job_json(body: bytes, name: str) -> Job:
    """Parse a job from a request body, under the name in the request's path.

    Raises:
        InputError: with an empty field: the body is not JSON; else the invalid field.
    """
    try:
        document = orjson.loads(body)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from None
    check_unique(body, document)
    return parse_job(document, name=name)


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
            raise from_validation_error(error) from None
        return _job(form, name)
    except InputError as error:
        raise error.with_source(source) from None


def _job(form: JobForm, name: str | None) -> Job:
    _unique(form.hosts, "hosts", "this host is listed twice; a rank has a host (a NIC) of its own")
    strategy = strategy_of(form, len(form.hosts))
    if strategy is not None and not form.hosts:
        form = form.model_copy(update={"hosts": list(provisional_hosts(strategy.parallelism.ranks))})
    job = Job(
        name=_name(form.name, name),
        weight=form.weight,
        hosts=tuple(form.hosts),
        collectives=_collectives(form) + _described(form, strategy),
        flows=_flows(form),
        matrix=None if form.matrix is None else _matrix(form.matrix),
        ports_known=form.ports is None,
        pxn=form.pxn,
        phases=form.phases,
    )
    _check_phases(job)
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
        raise InputError("says with 'compute_seconds' what follows from it", field="period_seconds", value=period)
    phases = _phases(job)
    if not isinstance(said, dict):
        return JobTiming(((min(phases, default=0), said),))
    for text in said:
        if int(text) not in phases:
            raise InputError("no collective is in this phase", field="compute_seconds", value=text)
    return JobTiming(tuple(sorted((int(text), seconds) for text, seconds in said.items())))


def _phases(job: Job) -> set[int]:
    """Return the phases of all the job's collectives."""
    known = job.phase_by_name
    named = {*(call.name for call in job.collectives), *job.flows.collective}
    return {known.get(name, 0) for name in named | ({job.matrix.collective} if job.matrix else set())}


def _name(inside: str | None, outside: str | None) -> str:
    name = outside if outside is not None else inside
    if name is None:
        raise InputError("a job needs a name", field="name")
    if inside is not None and inside != name:
        raise InputError(f"the job is called {name!r} where it is sent to", field="name", value=inside)
    if name in (".", ".."):
        raise InputError("a URL cannot end with this name (RFC 3986, section 5.2.4)", field="name", value=name)
    if not re.fullmatch(_NAME, name):
        raise InputError("a name has 1 to 63 letters, digits, '.', '_' and '-'", field="name", value=name)
    return name


def _collectives(form: JobForm) -> tuple[CollectiveCall, ...]:
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
                "send_recv has two ranks: who sends, who receives", field=f"{field}.ranks", value=row.ranks
            )
        algorithms = ALGORITHMS[row.op]
        if row.algorithm is not None and row.algorithm not in algorithms:
            raise InputError(f"{row.op} has {', '.join(algorithms)}", field=f"{field}.algorithm", value=row.algorithm)
        size = int(np.ceil(row.bytes))
        calls.append(CollectiveCall(row.name, row.op, tuple(row.ranks), size, row.algorithm, row.phase, row.channels))
    return tuple(calls)


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


def _check_phases(job: Job) -> None:
    """Check that a phase is given once, for a collective that exists."""
    if not job.phases:
        return
    described = {call.name for call in job.collectives}
    named = set(job.flows.collective)
    if job.matrix is not None:
        named.add(job.matrix.collective)
    for name, phase in job.phases.items():
        if name in described:
            raise InputError("this collective says its phase itself", field=f"phases.{name}", value=phase)
        if name not in named:
            raise InputError("no flow and no matrix names this collective", field=f"phases.{name}", value=phase)


def _flows(form: JobForm) -> FlowList:
    rows = form.flows
    claims: dict[tuple[str, str, int], int] = {}
    for i, row in enumerate(rows):
        src, dst = row["src"], row["dst"]
        if src == dst:
            raise InputError("a host sends nothing to itself", field=f"flows[{i}].dst", value=dst)
        port = row.get("udp_src")
        if port is None:
            continue
        if form.ports is not None:
            raise InputError("the job says that its ports are unknown", field=f"flows[{i}].udp_src", value=port)
        first = claims.setdefault((src, dst, port), i)
        if first != i:
            raise InputError(
                f"flows[{first}] from {src} to {dst} has this port already", field=f"flows[{i}].udp_src", value=port
            )
    return FlowList(
        src=tuple(row["src"] for row in rows),
        dst=tuple(row["dst"] for row in rows),
        bytes=_whole([row["bytes"] for row in rows]),
        collective=tuple(row.get("collective", DEFAULT_COLLECTIVE) for row in rows),
        udp_src=np.array([row.get("udp_src", 0) for row in rows], dtype=np.int32),
    )


def _matrix(form: MatrixForm) -> Matrix:
    n = len(form.hosts)
    _unique(form.hosts, "matrix.hosts", "this host is listed twice")
    if len(form.bytes) != n:
        raise InputError(f"{n} hosts need {n} rows, there are {len(form.bytes)}", field="matrix.bytes")
    for i, row in enumerate(form.bytes):
        if len(row) != n:
            raise InputError(f"{n} hosts need {n} numbers, there are {len(row)}", field=f"matrix.bytes[{i}]")
        if row[i] != 0:
            raise InputError("a host sends nothing to itself", field=f"matrix.bytes[{i}][{i}]", value=row[i])
    return Matrix(tuple(form.hosts), _whole(form.bytes).reshape(n, n), form.collective)


def _whole(size: Any) -> Int64Array:
    whole: Int64Array = np.ceil(np.array(size, dtype=np.float64)).astype(np.int64)
    return whole


def _unique(values: list[Any], field: str, reason: str, suffix: str = "") -> None:
    if len(set(values)) == len(values):
        return
    seen = set()
    for i, value in enumerate(values):
        if value in seen:
            raise InputError(reason, field=f"{field}[{i}]{suffix}", value=value)
        seen.add(value)
