"""``fairspine topology``: circuits, next hops and rings of jobs on optical switches or patch panels."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli.local.planning import FabricOption, JobOption
from controller.cli.shared.files import naming_the_fabric, write_document, write_text
from controller.cli.shared.output import Printer, number, plural, seconds
from controller.model.errors import InputError

if TYPE_CHECKING:
    from controller.circuits.planning.circuit_plan import CircuitPlan
    from controller.circuits.planning.stages import CircuitStage


def topology(
    fabric: FabricOption,
    job: JobOption,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            help="search; totient: TotientPerms with coin change (TopoOpt); ring: one ring on every NIC; or now: only "
            "routes, over the circuits of now.",
        ),
    ] = "search",
    seed: Annotated[int, typer.Option("--seed", min=0, max=2**31 - 1, help="Seed of the search.")] = 0,
    effort: Annotated[
        float,
        typer.Option(
            "--effort",
            min=0.0,
            max=1000.0,
            help="Factor of the number of steps of the search; 0 tries the starts only.",
        ),
    ] = 1.0,
    paths: Annotated[
        int,
        typer.Option(
            "--paths",
            min=1,
            max=16,
            help="Most paths from a server to another one, each with an address and a part of the bytes.",
        ),
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Output file of the whole plan (YAML or JSON by suffix).", show_default=False
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="SVG", help="Output file of a drawing of the circuits.", show_default=False),
    ] = None,
    nccl_graphs: Annotated[
        Path | None,
        typer.Option(
            "--nccl-graphs",
            metavar="DIR",
            help="Folder for a file for NCCL_GRAPH_FILE for each job and server.",
            show_default=False,
        ),
    ] = None,
    host_files: Annotated[
        Path | None,
        typer.Option(
            "--host-files",
            metavar="DIR",
            help="Folder for two files for each server: SERVER.ip for ip -batch, and SERVER.csv, the bytes of its QPs.",
            show_default=False,
        ),
    ] = None,
    interfaces: Annotated[
        str, typer.Option("--interfaces", help="Names of the interfaces in these files; {nic} is the number of a NIC.")
    ] = "eth{nic}",
    stages: Annotated[
        bool,
        typer.Option(
            "--stages",
            help="Plan a change from the circuits of now in stages, in which all servers still reach each other.",
        ),
    ] = False,
    *,
    output: Printer,
) -> None:
    """Plan circuits of optical switches or patch panels for jobs, with next hops and ring orders.

    Times are those of one iteration's bytes: each phase takes as long as its fullest circuit sends. The bound holds for
    any circuits and any routes.
    """
    from controller.circuits.fabric.optical_file import load_optical_fabric
    from controller.circuits.planning.circuit_plan import plan_circuits
    from controller.circuits.planning.picture import circuits_svg
    from controller.circuits.planning.plan_document import circuit_plan_document
    from controller.circuits.planning.stages import staged_plan
    from controller.workload.job_file import load_job

    check_interfaces(interfaces)
    place = load_optical_fabric(fabric)
    jobs = [(str(path), load_job(path)) for path in job]
    options: dict[str, Any] = {"policy": policy, "seed": seed, "effort": effort, "paths": paths}
    with naming_the_fabric(fabric):
        if stages:
            plan, steps = staged_plan(place, jobs, **options, clock=time.perf_counter)
            document = circuit_plan_document(plan, steps)
        else:
            plan, steps = plan_circuits(place, jobs, **options, clock=time.perf_counter), ()
            document = circuit_plan_document(plan)
    if out is not None:
        write_document(out, document)
    if picture is not None:
        write_text(picture, circuits_svg(plan))
    if nccl_graphs is not None:
        _write_graphs(nccl_graphs, plan)
    if host_files is not None:
        write_host_files(host_files, plan, interfaces)
        write_stage_files(host_files, plan, steps, interfaces)
    if not output.is_table:
        output.document(document)
    else:
        _print_circuits(output, document)


def check_interfaces(pattern: str) -> None:
    """Check the names of interfaces.

    Raises:
        InputError: the pattern has no ``{nic}``, or other braces.
    """
    if pattern.count("{nic}") != 1 or set("{}") & set(pattern.replace("{nic}", "")) or not pattern.isprintable():
        raise InputError("must have {nic} once, and no other braces", field="--interfaces", value=pattern)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be made: {error.strerror or error}", source=str(folder)) from None
    return folder


def write_host_files(folder: Path, plan: CircuitPlan, interfaces: str) -> None:
    """Write what each server needs to send and forward, and the settings of all servers.

    Raises:
        InputError: a file cannot be written.
    """
    from controller.circuits.southbound.host_files import SYSCTLS, ip_batch, qp_table

    write_text(_made(folder) / "forwarding.conf", [f"{line}\n" for line in SYSCTLS])
    for each in plan.shards:
        for i, server in enumerate(each.shard.servers):
            name = plan.fabric.servers[server]
            write_text(folder / f"{name}.ip", ip_batch(each, i, interfaces))
            write_text(folder / f"{name}.csv", qp_table(plan.fabric, each, i, interfaces))


def write_stage_files(folder: Path, plan: CircuitPlan, stages: Sequence[CircuitStage], interfaces: str) -> None:
    """Write what servers need before each stage, and after the last one, in rounds (``ip_rounds``).

    Raises:
        InputError: a file cannot be written.
    """
    from controller.circuits.southbound.host_files import ip_rounds, qp_table

    steps = [(f"stage-{i}", each.during) for i, each in enumerate(stages, 1)]
    for step, shards in [*steps, ("last", plan.shards)] if stages else ():
        for each in shards:
            for i, server in enumerate(each.shard.servers):
                table = qp_table(plan.fabric, each, i, interfaces)
                write_text(_made(folder / step) / f"{plan.fabric.servers[server]}.csv", table)
            for turn, lines in enumerate(ip_rounds(each, interfaces)):
                place = _made(folder / step / f"round-{turn}")
                for server, own in zip(each.shard.servers, lines, strict=True):
                    if own:
                        write_text(place / f"{plan.fabric.servers[server]}.ip", own)


def _write_graphs(folder: Path, plan: CircuitPlan) -> None:
    from controller.circuits.planning.nccl_graph import nccl_graph

    _made(folder)
    for each in plan.shards:
        for job in each.shard.jobs:
            for i, server in enumerate(each.shard.servers):
                name = f"{job}-{plan.fabric.servers[server]}.xml"
                write_text(folder / name, [nccl_graph(each, job, i, plan.fabric.gbps)])


def _print_circuits(output: Printer, document: dict[str, Any]) -> None:
    output.table(
        f"{document['policy']}, planned in {seconds(document['planning_seconds'])}",
        (
            "jobs",
            "servers>",
            "time>",
            "÷ ideal switch>",
            "÷ bound>",
            "tax>",
            "mean hops>",
            "most hops>",
            "rules a server>",
        ),
        (
            (
                ", ".join(row["jobs"]),
                str(len(row["servers"])),
                seconds(row["seconds"]),
                number(row["over_ideal"]),
                number(row["over_bound"]),
                number(row["tax"]),
                number(row["mean_hops"]),
                str(row["most_hops"]),
                str(row["rules_per_server"]),
            )
            for row in document["shards"]
        ),
        give_up=("most hops>", "rules a server>", "mean hops>", "tax>"),
        shorten=("jobs",),
    )
    changes = document["changes"]
    output.line(
        f"{plural(len(changes['added']), 'new circuit')}, {len(changes['removed'])} removed, {changes['kept']} kept: "
        f"{seconds(changes['seconds_at_once'])} at once, {seconds(changes['seconds_by_nic'])} NIC by NIC"
    )
    if "stages" in document:
        _print_stages(output, document["stages"])


def _print_stages(output: Printer, stages: Sequence[dict[str, Any]]) -> None:
    idle: list[dict[str, Any]] = [{"jobs": ["-"], "seconds": None, "over_plan": None}]
    output.table(
        "stages",
        ("stage>", "NICs", "removed>", "added>", "dark>", "jobs", "time>", "÷ plan>"),
        (
            (
                str(i),
                ", ".join(map(str, stage["nics"])),
                str(len(stage["removed"])),
                str(len(stage["added"])),
                seconds(stage["seconds"]),
                ", ".join(row["jobs"]),
                seconds(row["seconds"]),
                number(row["over_plan"]),
            )
            for i, stage in enumerate(stages, 1)
            for row in stage["during"] or idle
        ),
        shorten=("jobs",),
    )
