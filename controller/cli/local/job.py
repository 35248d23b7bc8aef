"""``fairspine job``: description of a job file and placement of its ranks, without a network."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, size
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.job import Job
    from controller.workload.describe import Description, Load
    from controller.workload.placement import Crossing

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Describe a job file, or place its ranks on hosts.")

JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="The job file (JSON or YAML).", show_default=False)]

_FIRST = 6  # largest number of ranks of a group in a table; the JSON has all of them


class Method(StrEnum):
    """Values of ``--placement``."""

    PACKED = "packed"
    SCATTERED = "scattered"
    RANDOM = "random"


@app.command(
    "describe",
    epilog="Example: fairspine job describe examples/gpt3-175b-tp8-pp8-dp4.yaml",
)
@with_groups
def describe(
    job: JobArgument,
    fabric: Annotated[
        Path | None,
        typer.Option("--fabric", metavar="FILE", help="The fabric with the hosts of the job.", show_default=False),
    ] = None,
    gpu_tflops: Annotated[
        float | None,
        typer.Option(
            "--gpu-tflops",
            metavar="TFLOPS",
            help="Achieved throughput of a GPU in 1e12 operations a second, in place of the file's 'gpu_tflops': the "
            "computing time follows from it and the model.",
            show_default=False,
        ),
    ] = None,
    *,
    output: Printer,
) -> None:
    """Print the groups of a job, its collectives with their bytes per iteration, and the bytes between leaves.

    A job without hosts is described without a fabric; 'fairspine job place' assigns hosts.
    """
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.describe import describe as describe_job
    from controller.workload.load import name_unplaced_ranks
    from controller.workload.strategy_form import read_strategy

    document, given = _read(job, None if gpu_tflops is None else {"gpu_tflops": gpu_tflops})
    strategy = read_strategy(document, len(given.hosts))
    known = None if fabric is None else load_fabric(fabric)
    try:
        description = describe_job(given, strategy, known)
    except InputError as error:
        raise name_unplaced_ranks(error, given).with_source(str(job)) from None
    if not output.is_table:
        output.document(description)
    else:
        _print(output, description)


@app.command(
    "place",
    epilog="Example: fairspine job place examples/gpt3-175b-tp8-pp8-dp4.yaml "
    "--fabric examples/clos-8x16x32-rails.yaml --placement packed --out placed.json",
)
@with_groups
def place(
    job: JobArgument,
    fabric: Annotated[Path, typer.Option("--fabric", metavar="FILE", help="The fabric.", show_default=False)],
    method: Annotated[
        Method,
        typer.Option(
            "--placement",
            help="Minimise the bytes between leaves (and between pods), use the leaves in turn, or draw servers at "
            "random.",
        ),
    ] = Method.PACKED,
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**63 - 1, help="Seed of a random placement.")] = 0,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--beside", metavar="FILE", help="A job whose hosts are not available; may be given several times."
        ),
    ] = None,
    topology: Annotated[
        Path | None,
        typer.Option(
            "--topology",
            metavar="XML",
            help="NCCL topology of a server, which gives the rail of each GPU and rank.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Output file of the job, YAML or JSON by suffix; default: standard output."
        ),
    ] = None,
    *,
    output: Printer,
) -> None:
    """Assign a host to each rank of a job, and print the bytes between leaves, and between pods, before and after.

    Consecutive ranks share a server, rank i of a server on its rail i or, with a topology, at the NIC nearest to its
    GPU. The report goes to standard error if the job goes to standard output.
    """
    from controller.cli.shared.files import write_document
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.gpu_placement import by_method
    from controller.workload.importers.nccl_topology import load_rails
    from controller.workload.placement import crossing_of, moved
    from controller.workload.placement import place as place_job

    document, given = _read(job)
    known = load_fabric(fabric)
    free = _free(known, beside or [])
    rails = None if topology is None else load_rails(topology)
    try:
        if rails is None:
            placed = moved(given, place_job(known, given, method.value, seed, free))
        else:
            placed = by_method(given, known, rails, method.value, seed, free)
        before, after = _crossing_before(known, given), crossing_of(known, placed)
    except InputError as error:
        raise error.with_source(str(job)) from None
    row = {
        "job": given.name,
        "method": method.value,
        "ranks": len(given.hosts),
        "before": None if before is None else before._asdict(),
        "after": after._asdict(),
    }
    write_document(out, document_on_hosts(document, placed))
    to_stdout = out is None or str(out) == "-"
    if not output.is_table:
        output.document(row, err=to_stdout)
    else:
        title = f"{given.name}, {method.value}"
        _print_crossing(output, title, before, after, pods=bool(known.pod_names), err=to_stdout)


def _read(path: Path, changed: dict[str, Any] | None = None) -> tuple[dict[str, Any], Job]:
    """Return the document of a file, with some fields changed, and the job that it describes."""
    from controller.model.files.fabric_file import read_document
    from controller.workload.job_file import parse_job

    document = read_document(path)
    if changed and isinstance(document, dict):
        document = document | changed
    return document, parse_job(document, source=str(path))


def _free(fabric: Fabric, beside: list[Path]) -> set[str] | None:
    """Return the hosts that no other job uses; ``None`` if there are no other jobs."""
    from controller.workload.placement import participants

    if not beside:
        return None
    free = set(fabric.nic_names)
    for path in beside:
        _, other = _read(path)
        free -= set(participants(other))
    return free


def _crossing_before(fabric: Fabric, job: Job) -> Crossing | None:
    """Return the load of the job's present placement; ``None`` if the job is not on this fabric yet."""
    from controller.workload.placement import crossing_of, participants

    return crossing_of(fabric, job) if set(participants(job)) <= set(fabric.host_index) else None


def document_on_hosts(document: dict[str, Any], placed: Job) -> dict[str, Any]:
    """Return the document with the hosts replaced, or the whole job anew if flows or a matrix name hosts."""
    from controller.workload.job_document import document_of

    if len(placed.flows.src) or placed.matrix is not None:
        return document_of(placed)
    return document | {"hosts": list(placed.hosts)}


def _print(output: Printer, description: Description) -> None:
    placed = description.leaves is not None
    where = f", under {description.leaves} leaves" if placed else ""
    given_up = ("of it>", "on the network>", *(() if placed else ("between leaves>",)))
    what = f": {description.strategy}" if description.strategy else ""
    output.table(
        f"{description.job}{what}; {description.ranks} ranks{where}",
        ("groups", "number>", "ranks>", "on one server>", "under one leaf>", "the first"),
        (
            (
                row.dimension,
                str(row.groups),
                str(row.size),
                _count(row.on_one_server),
                _count(row.under_one_leaf),
                ", ".join(map(str, row.first[:_FIRST])) + (" .." if len(row.first) > _FIRST else ""),
            )
            for row in description.groups
        ),
        shorten=("the first",),
    )
    output.table(
        "collectives of one iteration",
        ("name", "operation", "phase>", "number>", "ranks>", "largest>", "together>", *_LOAD),
        (
            (
                kind.name,
                kind.op,
                str(kind.phase),
                str(kind.collectives),
                str(kind.ranks or "-"),
                size(kind.largest),
                size(kind.bytes),
                *_load(kind.load),
            )
            for kind in description.kinds
        ),
        give_up=(*given_up, "phase>", "together>", "ranks>"),
    )
    output.table(
        "phases, which never run at once",
        ("phase>", "name", "collectives>", *_LOAD),
        [
            *(
                (str(phase.phase), phase.name or "-", str(phase.collectives), *_load(phase.load))
                for phase in description.phases
            ),
            ("", "all", str(sum(phase.collectives for phase in description.phases)), *_load(description.total)),
        ],
        give_up=given_up,
    )

    _print_times(output, description)


def _print_times(output: Printer, description: Description) -> None:
    """Print the job's times as a job file states them, and how they follow from the throughput of a GPU."""
    timing, computing = description.timing, description.computing
    if "period_seconds" in timing:
        typer.echo(f"period_seconds: {timing['period_seconds']:.6g}")
    for phase, value in timing.get("compute_seconds", {}).items():
        typer.echo(f"compute_seconds before phase {phase}: {value:.6g}")
    if computing is not None:
        typer.echo(
            f"{computing.flops:.4g} floating-point operations an iteration; the pipeline's bubble adds "
            f"{computing.bubble:.1%}"
        )


_LOAD = ("flows>", "on the network>", "between leaves>", "of it>")


def _load(load: Load) -> tuple[str, str, str, str]:
    return (
        str(load.flows),
        "-" if load.network_bytes is None else size(load.network_bytes),
        "-" if load.cross_leaf_bytes is None else size(load.cross_leaf_bytes),
        "-" if load.cross_leaf_share is None else f"{load.cross_leaf_share:.1%}",
    )


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _print_crossing(
    output: Printer, title: str, before: Crossing | None, after: Crossing, *, pods: bool, err: bool
) -> None:
    parts = ("network", "cross_leaf", "cross_pod") if pods else ("network", "cross_leaf")
    output.table(
        title,
        ("", "on the network>", "between leaves>", "between pods>")[: 1 + len(parts)],
        (
            (name, *("-" if row is None else size(getattr(row, part)) for part in parts))
            for name, row in (("before", before), ("after", after))
        ),
        err=err,
    )
