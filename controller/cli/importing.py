"""``fairspine import``: a job from the files of another tool."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.files import write_document
from controller.cli.output import Format, FormatOption, print_json, print_table, size
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.job import Job
    from controller.workload.importers.base import Imported
    from controller.workload.importers.placing import Method


def _formats(incomplete: str) -> list[tuple[str, str]]:
    """What the shell offers for FORMAT."""
    from controller.workload.importers.registry import FORMATS

    return [(name, row.summary) for name, row in FORMATS.items() if name.startswith(incomplete)]


def import_files(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="nccl, htsim, aicb, chakra or traffic-pairs.",
            show_default=False,
            autocompletion=_formats,
        ),
    ],
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="Files of that format, also in gzip or tar.", show_default=False),
    ],
    fabric: Annotated[
        Path | None, typer.Option("--fabric", metavar="FILE", help="The fabric that the job is put on (YAML or JSON).")
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            "--placement",
            metavar="P",
            help="in-order, packed, scattered, random, or a file with the hosts by rank.  [default: in-order]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of a random placement.")] = 0,
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", metavar="FILE", help="Which NIC is which host (YAML, JSON or CSV)."),
    ] = None,
    bytes: Annotated[
        int | None,
        typer.Option("--bytes", min=0, max=2**53, help="Bytes of a collective whose size the files do not tell."),
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, help="Iterations that a log covers; the job is one of them.")
    ] = 1,
    name: Annotated[str | None, typer.Option("--name", help="The job's name.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="JOB", help="Where the job goes, YAML or JSON by suffix; else standard output."),
    ] = None,
    fabric_out: Annotated[
        Path | None,
        typer.Option("--fabric-out", metavar="FILE", help="Where the fabric goes that the files describe."),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Make a job from the files of another tool.

    Prints what was read, and what was left out or is doubtful: on standard error where the job goes to standard
    output. Without a fabric the job is on made-up hosts rank0, rank1 and so on.
    """
    import orjson

    from controller.workload.importers.base import ImportRequest
    from controller.workload.importers.registry import importer
    from controller.workload.importers.streams import open_sources

    read = importer(kind)
    place = _fabric(fabric)
    request = ImportRequest(
        name=_name(name), fabric=place, inventory=_inventory(inventory, place), bytes=bytes, iterations=iterations
    )
    method = _placement(placement)
    with _progress(files) as on_read:
        imported = read(open_sources(files, on_read), request)
    if fabric_out is not None and imported.fabric is None:
        raise InputError("the files describe no fabric", field="fabric-out")
    place = place or _described(imported)
    job = _placed(imported, place, method, seed)
    document = _document(job)
    summary = _summary(imported, job, place)
    if fabric_out is not None and imported.fabric is not None:
        write_document(fabric_out, dict(imported.fabric))
    write_document(out, document)
    to_stdout = out is None or str(out) == "-"
    if format is Format.JSON and not to_stdout:
        print_json(orjson.dumps(summary))
    elif format is Format.JSON:
        typer.echo(orjson.dumps(summary).decode(), err=True)
    else:
        _print_summary(summary, err=to_stdout)


def _fabric(path: Path | None) -> Fabric | None:
    from controller.model.fabric_file import load_fabric

    return None if path is None else load_fabric(path)


def _inventory(path: Path | None, fabric: Fabric | None) -> Any:
    from controller.workload.importers.inventory import load_inventory

    return {} if path is None else load_inventory(path, fabric)


def _name(name: str | None) -> str | None:
    """Before anything takes time."""
    from controller.workload.job_file import parse_job

    return None if name is None else parse_job({"name": name}).name


def _placement(given: str | None) -> Method | Sequence[str] | None:
    """A method by its name, or hosts by rank from a file: a list in YAML or JSON, or names with white space between."""
    from controller.model.fabric_file import read_document
    from controller.workload.importers.placing import METHODS

    for method in METHODS:
        if given == method:
            return method
    if given is None:
        return None
    if not given or not Path(given).exists():
        raise InputError(f"is neither a file nor one of {', '.join(METHODS)}", field="placement", value=given)
    document = read_document(given)
    hosts = document.split() if isinstance(document, str) else document
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise InputError("is no list of hosts", source=given)
    return hosts


def _described(imported: Imported) -> Fabric | None:
    """The fabric that the files describe, if they do."""
    from controller.model.fabric_file import parse_fabric

    return None if imported.fabric is None else parse_fabric(dict(imported.fabric))


def _placed(imported: Imported, fabric: Fabric | None, placement: Method | Sequence[str] | None, seed: int) -> Job:
    from controller.workload.importers.placing import on_fabric

    if fabric is not None:
        return on_fabric(imported, fabric, placement, seed)
    if placement is not None:
        raise InputError("a placement needs --fabric", field="placement", value=placement)
    return imported.job


def _document(job: Job) -> dict[str, Any]:
    from controller.workload.job_document import document_of

    return document_of(job)


@contextmanager
def _progress(files: Sequence[Path]) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    total = sum(file.stat().st_size for file in files if file.is_file())
    with Progress(
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as progress:
        task = progress.add_task("", total=total)
        yield lambda count: progress.advance(task, count)


def _summary(imported: Imported, job: Job, fabric: Fabric | None) -> dict[str, Any]:
    """What was read; flows and bytes are those on the network where the job is on a fabric, else all."""
    from controller.workload.collectives import flows_of
    from controller.workload.expand import check_count, expand

    if fabric is None:
        check_count(job)
        sizes = [job.flows.bytes, *(flows_of(call).bytes for call in job.collectives)]
        if job.matrix is not None:
            sizes.append(job.matrix.bytes[job.matrix.bytes > 0])
    else:
        sizes = [expand(fabric, job).bytes]
    return {
        "job": job.name,
        "placed": imported.placed or fabric is not None,
        "ranks": imported.ranks,
        "groups": imported.groups,
        "collectives": imported.collectives,
        "flows": sum(len(part) for part in sizes),
        "bytes": sum(int(part.sum()) for part in sizes),
        "notes": list(imported.notes),
    }


def _print_summary(summary: dict[str, Any], *, err: bool) -> None:
    print_table(
        summary["job"],
        ("ranks>", "groups>", "collectives>", "flows>", "bytes>"),
        [
            (
                str(summary["ranks"]),
                str(summary["groups"]),
                str(summary["collectives"]),
                str(summary["flows"]),
                size(summary["bytes"]),
            )
        ],
        err=err,
    )
    for note in summary["notes"]:
        typer.echo(f"note: {note}", err=err)
