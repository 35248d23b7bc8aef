"""``fairspine job``: description of a job file and placement of its ranks, without a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, seconds, size
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.model.fabric import Fabric
    from controller.model.job import Job
    from controller.model.timing import IterationSpan
    from controller.workload.describe import Description, Load
    from controller.workload.placement.placement import Crossing

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Describe a job file, or place its ranks on hosts.")

JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="The job file (JSON or YAML).", show_default=False)]

_BAR = 24  # columns of a bar for a whole iteration
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
    from controller.workload.strategy.strategy_form import read_strategy

    document, given = _read(job, None if gpu_tflops is None else {"gpu_tflops": gpu_tflops})
    strategy = read_strategy(document, len(given.hosts))
    known = None if fabric is None else load_fabric(fabric)
    try:
        description = describe_job(given, strategy, known)
        if known is not None and (given.timing is not None or given.waits_by_name):
            description = dataclasses.replace(description, time_line=_time_line(known, given))
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
    servers: Annotated[
        str | None,
        typer.Option(
            "--servers",
            metavar="NAMES",
            help="Use all hosts of these servers, which a scheduler has allocated, and choose the order of ranks: "
            "names separated by commas, or a host list of Slurm, such as node[01-16].",
            show_default=False,
        ),
    ] = None,
    host_file: Annotated[
        Path | None,
        typer.Option(
            "--host-file",
            metavar="FILE",
            help="Output file with the server of each rank, one a line: SLURM_HOSTFILE of srun "
            "--distribution=arbitrary.",
            show_default=False,
        ),
    ] = None,
    tasks_per_node: Annotated[
        int | None,
        typer.Option(
            "--tasks-per-node",
            metavar="N",
            min=1,
            max=1024,
            help="Name each server N times in that file: 1 for a launcher that starts a node's ranks.  [default: as "
            "many as it has ranks]",
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

    With --servers, the order of these servers is kept unless another one sends fewer bytes between leaves or pods, and
    the same input always gives the same order.
    """
    from controller.cli.shared.files import write_document, write_text
    from controller.model.files.fabric_file import load_fabric
    from controller.workload.importers.nccl_topology import load_rails
    from controller.workload.placement.gpu_placement import by_method
    from controller.workload.placement.placement import crossing_of, moved
    from controller.workload.placement.placement import place as place_job
    from controller.workload.placement.server_placement import document_with_hosts, reordered
    from controller.workload.placement.server_placement import host_file as host_file_of

    if servers is not None and (beside or topology or method != Method.PACKED):
        raise InputError("cannot be used with --beside, --topology, or another --placement", field="--servers")
    if tasks_per_node is not None and host_file is None:
        raise InputError("needs --host-file", field="--tasks-per-node", value=tasks_per_node)
    known = load_fabric(fabric)
    document, given = _read(job) if servers is None else _read_on(job, known, servers)
    free = _free(known, beside or [])
    rails = None if topology is None else load_rails(topology)
    try:
        if servers is not None:
            placed = reordered(known, given)
        elif rails is None:
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
    if host_file is not None:
        write_text(host_file, [host_file_of(known, placed, tasks_per_node)])
    write_document(out, document_with_hosts(document, placed))
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


def _read_on(path: Path, fabric: Fabric, servers: str) -> tuple[dict[str, Any], Job]:
    """Return the document of a file with its ranks on some servers, in their order, and the job that it describes.

    A description that scheduled jobs share may have no name; it has that of its file then.
    """
    from controller.model.files.fabric_file import read_document
    from controller.workload.job_file import parse_job
    from controller.workload.placement.host_lists import read_names
    from controller.workload.placement.server_placement import hosts_by_server, hosts_of_servers, on_hosts

    document = read_document(path)
    if isinstance(document, dict):
        hosts = hosts_of_servers(hosts_by_server(fabric), read_names(servers, "--servers"))
        document = on_hosts({"name": path.stem, **document}, hosts, str(path))
    return document, parse_job(document, source=str(path))


def _free(fabric: Fabric, beside: list[Path]) -> set[str] | None:
    """Return the hosts that no other job uses; ``None`` if there are no other jobs."""
    from controller.workload.placement.placement import participants

    if not beside:
        return None
    free = set(fabric.nic_names)
    for path in beside:
        _, other = _read(path)
        free -= set(participants(other))
    return free


def _crossing_before(fabric: Fabric, job: Job) -> Crossing | None:
    """Return the load of the job's present placement; ``None`` if the job is not on this fabric yet."""
    from controller.workload.placement.placement import crossing_of, participants

    return crossing_of(fabric, job) if set(participants(job)) <= set(fabric.host_index) else None


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
    has_classes = any(kind.priority for kind in description.kinds)
    spans = any(kind.until is not None for kind in description.kinds)
    output.table(
        "collectives of one iteration",
        (
            "name",
            "operation",
            *(["class>"] if has_classes else []),
            "phase>",
            *(["until>"] if spans else []),
            "number>",
            "ranks>",
            "largest>",
            "together>",
            *_LOAD,
        ),
        (
            (
                kind.name,
                kind.op,
                *([str(kind.priority)] if has_classes else []),
                str(kind.phase),
                *(["" if kind.until is None else str(kind.until)] if spans else []),
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
        "phases, which run at once where one waits for collectives of another"
        if spans
        else "phases, which never run at once",
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

    if description.time_line:
        _print_time_line(output, description.time_line)
    _print_times(output, description)


def _time_line(fabric: Fabric, job: Job) -> tuple[IterationSpan, ...]:
    from controller.planning.live_traffic import live_traffic
    from controller.planning.time_line import time_line
    from controller.workload.expand import expand

    return time_line(fabric, live_traffic(fabric, [expand(fabric, job)]))


def _print_time_line(output: Printer, spans: Sequence[IterationSpan]) -> None:
    """Print when a job alone computes, and when it sends its collectives; with a bar for each."""
    length = max(span.end_seconds for span in spans)

    def bar(span: IterationSpan) -> str:
        first, last = (round(_BAR * at / length) for at in (span.begin_seconds, span.end_seconds))
        return " " * first + "=" * max(1, last - first)

    output.table(
        "time line of an iteration alone",
        ("phase>", "", "begin>", "end>", "slack>", "of the iteration"),
        (
            (
                str(span.phase),
                "computing" if span.name is None else span.name,
                seconds(span.begin_seconds),
                seconds(span.end_seconds),
                seconds(span.slack_seconds),
                bar(span),
            )
            for span in spans
        ),
        give_up=("phase>", "of the iteration"),
    )


def _print_times(output: Printer, description: Description) -> None:
    """Print the job's times as a job file states them, and how they follow from the throughput of a GPU."""
    from controller.workload.waits import not_overlapped_line

    timing, computing = description.timing, description.computing
    if "period_seconds" in timing:
        typer.echo(f"period_seconds: {timing['period_seconds']:.6g}")
    for phase, value in timing.get("compute_seconds", {}).items():
        typer.echo(f"compute_seconds before phase {phase}: {value:.6g}")
    if description.not_overlapped:
        typer.echo(not_overlapped_line(description.not_overlapped))
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
