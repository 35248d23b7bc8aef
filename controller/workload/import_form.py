"""Request bodies that hold another tool's files instead of a job: ``{"import": {"format": ..., "files": [...]}}``.

Only formats whose files are text fit into JSON; ``fairspine import`` reads all of them and writes a job to push.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.choices.qp_mode import QpMode
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import from_validation_error
from controller.model.files.fabric_forms import Name as TenantName
from controller.model.files.nesting import check_nesting
from controller.model.files.unique_keys import check_unique
from controller.model.job import Job
from controller.workload.flow_form import Bytes, Qps, queue_pairs
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.inventory import Inventory, parse_inventory
from controller.workload.importers.placing import Method, on_fabric
from controller.workload.importers.registry import formats, importer, is_text
from controller.workload.importers.streams import text_source
from controller.workload.job_file import ComputeSeconds, PeriodSeconds, Weight, parse_job, timing_of

KEY = "import"

_CONFIG = ConfigDict(strict=True, extra="forbid")


class FileForm(BaseModel):
    """One file; its name is used in messages, and by formats that distinguish files by their suffix."""

    model_config = _CONFIG

    name: Annotated[str, Field(min_length=1, max_length=255)]
    text: str


class ImportForm(BaseModel):
    """The input of an import: files and options, as of ``fairspine import``."""

    model_config = _CONFIG

    format: str
    files: Annotated[list[FileForm], Field(min_length=1)]
    placement: list[str] | Method | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    inventory: dict[str, Any] = {}
    bytes: Bytes | None = None
    iterations: Annotated[int, Field(ge=1)] = 1
    accept_warnings: bool = False


class BodyForm(BaseModel):
    """A body with ``import``, which excludes all other descriptions of flows."""

    model_config = _CONFIG

    import_: Annotated[ImportForm, Field(alias="import")]
    name: str | None = None
    weight: Weight = 1.0
    ports: Literal["unknown"] | None = None
    protocol: Protocol | None = None
    tenant: TenantName | None = None
    pxn: bool = True
    qps: Qps | None = None
    qp_mode: QpMode | None = None
    compute_seconds: ComputeSeconds | None = None
    period_seconds: PeriodSeconds | None = None


def job_from_body(body: bytes, name: str, fabric: Fabric, *, kept: bool = False) -> Job:
    """Parse a job from a request body, under the name in the request's path.

    Args:
        body: the request body.
        name: the name in the request's path.
        fabric: the fabric on which an imported job is placed.
        kept: whether the body was accepted before: of duplicate keys the last value then counts, and a part of a byte
            as a byte, as they did before.

    Raises:
        InputError: with an empty field: the body is not JSON; else the invalid field (or the file and line).
    """
    try:
        document = orjson.loads(body)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from None
    check_nesting(body, document)
    if kept:
        _round_up(document)
    else:
        check_unique(body, document)
    return job_of_document(document, name, fabric)


def _round_up(document: Any) -> None:
    """Make whole bytes of fractions, in place, where a job document has bytes."""
    parts = document if isinstance(document, dict) else {}
    for key in ("collectives", "flows", "matrix"):
        part = parts.get(key)
        for row in part if isinstance(part, list) else [part]:
            if isinstance(row, dict) and "bytes" in row:
                row["bytes"] = _rounded_up(row["bytes"])


def _rounded_up(value: Any) -> Any:
    """Return a number rounded up, also in lists; other values as they are."""
    if isinstance(value, list):
        return [_rounded_up(each) for each in value]
    return math.ceil(value) if isinstance(value, float) else value


def job_of_document(document: Any, name: str, fabric: Fabric) -> Job:
    """Make a job of a request's document, which holds a job or an import.

    Args:
        document: plain data.
        name: the name in the request's path.
        fabric: the fabric on which an imported job is placed.

    Raises:
        InputError: with the invalid field (or the file and line).
    """
    if isinstance(document, dict) and KEY in document:
        return job_from_import(document, fabric, name)
    return parse_job(document, name=name)


def job_from_import(document: dict[str, Any], fabric: Fabric, name: str) -> Job:
    """Build the job of a body with ``import``, on the fabric's hosts.

    Args:
        fabric: the fabric that has the hosts.
        name: the name in the request's path.
        document: the whole body.

    Raises:
        InputError: the form is invalid, a file cannot be used (with its name and line), or the job does not fit.
    """
    try:
        whole = BodyForm.model_validate(document)
    except ValidationError as error:
        raise from_validation_error(error, document) from None
    form = whole.import_
    if form.format in formats() and not is_text(form.format):
        raise InputError(
            "files of this format are not text: run 'fairspine import' and push its job",
            field=f"{KEY}.format",
            value=form.format,
        )
    # The content of the files must satisfy the rules of a job document: its name, its sizes, its hosts.
    frame = {"name": name if whole.name is None else whole.name, "weight": whole.weight}
    stated = {
        key: value for key in ("ports", "protocol", "qps", "tenant") if (value := getattr(whole, key)) is not None
    }
    checked = parse_job(frame | stated, name=name)
    try:
        read = importer(form.format)
        imported = read(
            [text_source(file.name, file.text) for file in form.files],
            ImportRequest(
                name=name,
                fabric=fabric,
                inventory=_inventory(form.inventory, fabric),
                bytes=form.bytes,
                iterations=form.iterations,
                protocol=whole.protocol or ROCE,
            ),
        )
        if imported.fabric is not None and not imported.ranks:
            raise InputError("describes a fabric, not a job", source=form.files[0].name)
        if imported.warnings and not form.accept_warnings:
            raise InputError(f"{imported.warnings[0]} ('accept_warnings': true accepts the job)")
        job = on_fabric(imported, fabric, form.placement, form.seed)
    except InputError as error:
        raise _within(error, form.files) from None
    timing = timing_of(whole.compute_seconds, whole.period_seconds, job)
    return dataclasses.replace(
        job,
        timing=job.timing if timing is None else timing,
        name=checked.name,
        weight=checked.weight,
        tenant=checked.tenant,
        ports_known=job.ports_known and checked.ports_known,
        pxn=job.pxn and whole.pxn,
        qps=queue_pairs(whole.qps, whole.qp_mode, job.qps, "qp_mode") or job.qps,
    )


def _inventory(document: dict[str, Any], fabric: Fabric) -> Inventory:
    try:
        return parse_inventory(document, fabric)
    except InputError as error:
        raise InputError(error.reason, field=f"inventory.{error.field}", value=error.value) from None


def _within(error: InputError, files: list[FileForm]) -> InputError:
    """Return the same error with its field in the body; the location in a file becomes part of the reason."""
    if not error.source:
        return InputError(error.reason, field=f"{KEY}.{error.field}" if error.field else KEY, value=error.value)
    which = max(
        (i for i, file in enumerate(files) if error.source.startswith(file.name)),
        key=lambda i: len(files[i].name),
        default=None,
    )
    field = f"{KEY}.files" if which is None else f"{KEY}.files[{which}].text"
    where = ": ".join(part for part in (error.source, error.field) if part)
    return InputError(f"{where}: {error.reason}", field=field, value=error.value)
