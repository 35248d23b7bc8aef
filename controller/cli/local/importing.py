"""``fairspine import``: a job from the files of another tool."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.shared.files import write_document
from controller.cli.shared.output import Printer, size
from controller.model.choices.protocol import PROTOCOLS, ROCE, Protocol
from controller.model.errors import InputError
from controller.model.texts.byte_sizes import byte_count

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.job import Job
    from controller.workload.importers.base import Imported
    from controller.workload.importers.placing import Method


def _formats(incomplete: str) -> list[tuple[str, str]]:
    """Return the names and summaries of formats for shell completion."""
    from controller.workload.importers.registry import formats

    return [(name, row.summary) for name, row in formats().items() if name.startswith(incomplete)]


def _bytes(text: str) -> int:
    """Return the bytes that an option gives, as an integer of at most 2**53."""
    try:
        count = int(byte_count(text))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}") from None
    if count > 2**53:
        raise typer.BadParameter(f"{text!r}: must be at most 2**53 bytes")
    return count


def import_files(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="nccl, nccl-tests, kineto, flight-recorder, jax-trace, openmpi-monitoring, chakra, aicb, goal, "
            "taskgraph, htsim, ns3, slurm, ibnetdiscover, containerlab, lldp, ptm, netq, cabling, astra-network, "
            "traffic-pairs, or a plug-in's.",
            show_default=False,
            autocompletion=_formats,
        ),
    ],
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE", help="Files of this format, also in gzip or tar; - is standard input.", show_default=False
        ),
    ] = None,
    guess: Annotated[
        bool, typer.Option("--guess", help="Only print the formats of the files (without FORMAT).")
    ] = False,
    fabric: Annotated[
        Path | None,
        typer.Option("--fabric", metavar="FILE", help="The fabric on which the job is placed (YAML or JSON)."),
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
    topology: Annotated[
        Path | None,
        typer.Option("--topology", metavar="XML", help="NCCL topology of a server, which gives the rail of each GPU."),
    ] = None,
    inventory: Annotated[
        Path | None,
        typer.Option("--inventory", metavar="FILE", help="Mapping of NICs to hosts (YAML, JSON or CSV)."),
    ] = None,
    bytes: Annotated[
        int | None,
        typer.Option(
            "--bytes",
            metavar="BYTES",
            parser=_bytes,
            help="Bytes of a collective (1000000000, 100e9, 1GB) if the files contain no size. For an NCCL log: of the "
            "operation that nccl-tests ran, else of one all-reduce on each communicator.",
        ),
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=1, help="Number of iterations in the log; the job is one iteration.")
    ] = 1,
    gbps: Annotated[
        float | None,
        typer.Option(
            "--gbps", min=1e-3, max=1e6, help="Speed of cables if the files contain none.", show_default=False
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option("--protocol", metavar="P", help="Protocol of the job's packets: roce, tcp, udp or any."),
    ] = ROCE,
    name: Annotated[str | None, typer.Option("--name", help="The name of the job.", show_default=False)] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="JOB", help="Output file of the job, YAML or JSON by suffix; default: standard output."
        ),
    ] = None,
    fabric_out: Annotated[
        Path | None,
        typer.Option("--fabric-out", metavar="FILE", help="Output file of the fabric in the files."),
    ] = None,
    *,
    output: Printer,
) -> None:
    """Make a job from the files of another tool.

    The report lists what was read, left out or assumed; it is printed on standard error if the job is written to
    standard output. Without a fabric the job has placeholder hosts rank0, rank1 and so on.
    """
    from controller.workload.importers.base import ImportRequest
    from controller.workload.importers.registry import importer
    from controller.workload.importers.streams import open_sources

    if guess:
        _guess([Path(kind), *(files or [])], output)
        return
    if not files:
        raise InputError("no file is given", field="FILE")
    read = importer(kind)
    place = _fabric(fabric)
    request = ImportRequest(
        name=_name(name),
        fabric=place,
        inventory=_inventory(inventory, place),
        bytes=bytes,
        iterations=iterations,
        gbps=gbps,
        protocol=_protocol(protocol),
    )
    method = placement_of(placement)
    with _progress(files) as on_read:
        imported = read(open_sources(files, on_read), request)
    if fabric_out is not None and imported.fabric is None:
        raise InputError("the files contain no fabric", field="fabric-out")
    place = place or _described(imported)
    job = _placed(imported, place, method, seed) if topology is None else _railed(imported, place, method, topology)
    only_fabric = imported.fabric is not None and not imported.ranks
    summary = _summary(imported, job, place)
    if only_fabric and place is not None:
        summary["fabric"] = _fabric_counts(place)
    if imported.fabric is not None and fabric_out is not None:
        write_document(fabric_out, dict(imported.fabric))
    if not only_fabric:
        write_document(out, _document(job))
    elif fabric_out is None and imported.fabric is not None:
        write_document(out, dict(imported.fabric))
    written = (fabric_out or out) if only_fabric else out
    to_stdout = written is None or str(written) == "-"
    if not output.is_table:
        output.document(summary, err=to_stdout)
    else:
        _print_summary(output, summary, err=to_stdout)


def _guess(files: Sequence[Path], output: Printer) -> None:
    """Print the format of each file.

    Raises:
        InputError: a file cannot be read, or nothing is known about it.
    """
    from controller.workload.importers.guess import guess
    from controller.workload.importers.streams import open_sources

    guesses = list(guess(open_sources(files)))
    if not output.is_table:
        output.document([dataclasses.asdict(row) for row in guesses])
    else:
        output.table(
            "files", ("file", "format", "holds"), [(row.file, row.format or "-", row.holds) for row in guesses]
        )
    unknown = [row for row in guesses if not row.is_known]
    if unknown:
        raise InputError("unknown format", source=unknown[0].file)


def _fabric(path: Path | None) -> Fabric | None:
    from controller.model.files.fabric_file import load_fabric

    return None if path is None else load_fabric(path)


def _inventory(path: Path | None, fabric: Fabric | None) -> Any:
    from controller.workload.importers.inventory import load_inventory

    return {} if path is None else load_inventory(path, fabric)


def _protocol(given: str) -> Protocol:
    for protocol in PROTOCOLS:
        if given == protocol:
            return protocol
    raise InputError(f"is not one of {', '.join(PROTOCOLS)}", field="protocol", value=given)


def _name(name: str | None) -> str | None:
    """Check the job's name before any work that takes time."""
    from controller.workload.job_file import parse_job

    return None if name is None else parse_job({"name": name}).name


def placement_of(given: str | None) -> Method | Sequence[str] | None:
    """Return a placement method by its name, or the hosts by rank from a file.

    The file is a list in YAML or JSON, or names separated by white space.

    Raises:
        InputError: the text is neither a method nor a file, or the file is not a list of hosts.
    """
    from controller.model.files.fabric_file import read_document
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
        raise InputError("is not a list of hosts", source=given)
    return hosts


def _described(imported: Imported) -> Fabric | None:
    """Return the fabric that the files describe, or ``None``."""
    from controller.model.files.fabric_file import parse_fabric

    return None if imported.fabric is None else parse_fabric(dict(imported.fabric))


def _placed(imported: Imported, fabric: Fabric | None, placement: Method | Sequence[str] | None, seed: int) -> Job:
    from controller.workload.importers.placing import on_fabric

    if fabric is not None:
        return on_fabric(imported, fabric, placement, seed)
    if placement is not None:
        raise InputError("a placement needs --fabric", field="placement", value=placement)
    return imported.job


def _railed(imported: Imported, fabric: Fabric | None, placement: object, topology: Path) -> Job:
    from controller.workload.importers.base import provisional_hosts
    from controller.workload.importers.nccl_topology import load_rails
    from controller.workload.placement.gpu_placement import in_order

    if fabric is None or placement not in (None, "in-order"):
        what = "needs --fabric" if fabric is None else "places ranks in order"
        raise InputError(f"a topology {what}", field="topology", value=str(topology))
    if imported.placed:
        raise InputError("the input already gives the hosts of its ranks", field="topology", value=str(topology))
    if imported.job.hosts not in ((), provisional_hosts(imported.ranks)):
        raise InputError("the input already gives the NICs of its ranks", field="topology", value=str(topology))
    return in_order(imported.job, fabric, load_rails(topology))


def _document(job: Job) -> dict[str, Any]:
    from controller.workload.job_document import document_of

    return document_of(job)


@contextmanager
def _progress(files: Sequence[Path]) -> Iterator[Callable[[int], None] | None]:
    """Show a progress bar on standard error if that is a terminal."""
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
    """Return a summary of what was read; flows and bytes are those on the network if the job is on a fabric."""
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
        "warnings": list(imported.warnings),
        "notes": list(imported.notes),
        "measured": [dataclasses.asdict(row) for row in imported.measured],
    }


def _fabric_counts(fabric: Fabric) -> dict[str, int]:
    """Return the numbers of switches of each layer, of hosts and of cables between switches."""
    from controller.model.fabric_parts import PLURALS

    layers = {PLURALS[role]: len(layer) for role, layer in zip(fabric.roles, fabric.layers, strict=True)}
    return {**layers, "hosts": fabric.n_hosts, "cables": len(fabric.cables)}


def _print_summary(output: Printer, summary: dict[str, Any], *, err: bool) -> None:
    """Print a summary; it has counts of the fabric if the files describe a fabric instead of a job."""
    for warning in summary["warnings"]:
        output.line(f"warning: {warning}", err=err)
    columns: tuple[str, ...] = ("ranks>", "groups>", "collectives>", "flows>", "bytes>")
    row = [str(summary[column.rstrip(">")]) for column in columns[:-1]] + [size(summary["bytes"])]
    if "fabric" in summary:
        columns = tuple(f"{name}>" for name in summary["fabric"])
        row = [str(count) for count in summary["fabric"].values()]
    output.table(summary["job"], columns, [tuple(row)], err=err)
    for note in summary["notes"]:
        output.line(f"note: {note}", err=err)
    if summary["measured"]:
        output.table(
            "measured times in the files",
            ("operation", "ranks>", "bytes>", "seconds>", "bus Gbit/s>"),
            [
                (row["op"], str(row["ranks"]), str(row["bytes"]), f"{row['seconds']:.6g}", f"{row['bus_gbps']:.1f}")
                for row in summary["measured"]
            ],
            err=err,
        )
