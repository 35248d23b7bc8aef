"""``fairspine push`` and ``fairspine jobs``: the jobs of a running controller."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described, described_rows, not_understood
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.live.servers import hosts_by_server
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import (
    COLLECTIVE,
    EXPECTED,
    TENANT,
    Printer,
    activity,
    expected_cells,
    number,
    plural,
    print_collectives,
    print_tenants,
    size,
)
from controller.model.errors import InputError

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the job.", show_default=False, autocompletion=completion.jobs)
]

app = typer.Typer(rich_markup_mode=None, help="List, show or delete the jobs of a running controller.")

_POLL_SECONDS = 0.1

_GIVE_UP = ("weight>", "collectives>", "plan>", "bytes>", "duty>", "flows>", "iteration>")

# Members that are read of the API's documents (controller.rest.schemas).
_JOB = ("name", "weight", "bytes", "speed", "min_speed", "epoch", "active", "unroutable", "collectives", "flows")
_LISTED = ("name", "weight", "collectives", "flows", "bytes", "speed", "min_speed", "active")


def push(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job file (JSON or YAML).", show_default=False)],
    name: Annotated[
        str | None, typer.Option("--name", help="The name of the job.  [default: as in its file]", show_default=False)
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(
            "--servers",
            metavar="NAMES",
            help="Place the ranks on the hosts of these servers, in order: names separated by commas, or a host list "
            "of Slurm, such as node[01-16].",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the switches enforce the plan of the job.")] = False,
    wait_timeout: Annotated[
        float, typer.Option("--wait-timeout", metavar="SECONDS", min=0, help="Maximum time to wait, with --wait.")
    ] = 30.0,
    if_match: Annotated[
        str | None,
        typer.Option(
            "--if-match",
            metavar="REVISION",
            help="Replace the job only if this is its present revision ('fairspine jobs show').",
            show_default=False,
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Only create a job: fail if the name is taken.")] = False,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Push a job to a running controller; a job of the same name is replaced, unless an option says otherwise."""
    import orjson

    from controller.model.files.fabric_file import read_document
    from controller.workload.job_file import parse_job
    from controller.workload.placement.host_lists import read_names
    from controller.workload.placement.server_placement import hosts_of_servers, on_hosts

    if create and if_match is not None:
        raise InputError("cannot be used with --create, which needs that there is no such job", field="--if-match")
    document = read_document(job)
    client = remote.client(change)
    if isinstance(document, dict):
        document |= {} if name is None else {"name": name}
        if servers is not None:
            hosts = hosts_of_servers(hosts_by_server(client), read_names(servers, "--servers"))
            document = on_hosts(document, hosts, str(job))
    name = parse_job(document, source=str(job)).name
    try:
        taken = client.request(
            "PUT",
            "jobs",
            name,
            body=orjson.dumps(document, option=orjson.OPT_SORT_KEYS),
            if_match=if_match,
            if_none_match="*" if create else None,
        )
    except CommandError as failure:
        if failure.exit_code != 2:
            raise
        raise CommandError(f"{job}: {failure}", exit_code=2) from None
    answer = _job(taken.document)
    if wait and answer["flows"]:
        # The answer is of before: its speed was not known yet.
        answer |= {key: value for key, value in _wait(client, name, wait_timeout).items() if key in ("active", "speed")}
    if not output.is_table:
        output.document(answer)
    else:
        typer.echo(f"{name} {'created' if taken.status == 201 else 'replaced'}, plan {answer['epoch']}")
        _print_job(output, answer)


@app.callback(invoke_without_command=True, epilog="Example: fairspine jobs show gpt3-a")
@with_groups
def list_jobs(
    ctx: typer.Context,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """List the jobs, unless a subcommand follows."""
    if ctx.invoked_subcommand is None:
        client = remote.client()
        watch.show(lambda: _print_jobs(client, output))


@app.command("list", epilog="Example: fairspine jobs list --format json")
@with_groups
def list_too(
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """List the jobs."""
    client = remote.client()
    watch.show(lambda: _print_jobs(client, output))


def _print_jobs(client: Client, output: Printer) -> None:
    document = described(client.request("GET", "jobs").document, "jobs")
    rows, tenants = described_rows(document["jobs"], *_LISTED), document.get("tenants")
    timed, owned = any(row.get("times") for row in rows), any(row.get("tenant") for row in rows)
    if not output.is_table:
        output.document({"jobs": rows} | ({"tenants": tenants} if tenants else {}))
        return
    output.table(
        plural(len(rows), "job"),
        (
            "job",
            *(("tenant",) * owned),
            "weight>",
            "collectives>",
            "flows>",
            "bytes>",
            "speed>",
            "planned>",
            *(EXPECTED * timed),
            "active",
        ),
        (
            (
                row["name"],
                *((str(row.get("tenant") or "-"),) * owned),
                f"{row['weight']:g}",
                str(row["collectives"]),
                str(row["flows"]),
                size(row["bytes"]),
                number(row["speed"]),
                number(row["min_speed"]),
                *(expected_cells(row.get("times")) if timed else ()),
                activity(row["active"], row["flows"]),
            )
            for row in rows
        ),
        give_up=_GIVE_UP,
    )
    if tenants:
        print_tenants(output, described_rows(tenants, *TENANT))


@app.command("show", epilog="Example: fairspine jobs show gpt3-a --format json")
@with_groups
def show(
    name: NameArgument,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show a job with its part of the plan."""
    client = remote.client()
    watch.show(lambda: _show_job(client, name, output))


def _show_job(client: Client, name: str, output: Printer) -> None:
    answer = _job(client.request("GET", "jobs", name).document)
    if not output.is_table:
        output.document(answer)
    else:
        _print_job(output, answer)


@app.command("delete", epilog="Example: fairspine jobs delete gpt3-a")
@with_groups
def delete(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names of jobs.", show_default=False, autocompletion=completion.jobs),
    ],
    *,
    remote: Remote,
    change: ChangeOptions,
) -> None:
    """Delete jobs and their rules.

    If the controller does not have one of them, none is deleted.
    """
    client = remote.client(change)
    chosen = list(dict.fromkeys(names))
    if len(chosen) > 1:
        present = {row["name"] for row in _listed(client)}
        missing = [name for name in chosen if name not in present]
        if missing:
            raise CommandError(f"{client.url}: no such job: {', '.join(missing)}; nothing was deleted")
    for n_deleted, name in enumerate(chosen):
        try:
            client.request("DELETE", "jobs", name)
        except CommandError as failure:
            if len(chosen) == 1:
                raise
            done = f" (already deleted: {', '.join(chosen[:n_deleted])})" if n_deleted else ""
            raise CommandError(f"{name}: {failure}{done}", exit_code=failure.exit_code) from None
        typer.echo(f"{name} deleted")


def _wait(client: Client, name: str, timeout: float) -> dict[str, Any]:
    """Wait until the newest plan, which contains the job, is active, and return the row of the job in the list then.

    Raises:
        CommandError: the job was deleted meanwhile, or its plan is not active after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        row = next((row for row in _listed(client) if row["name"] == name), None)
        if row is None:
            raise CommandError(f"{name} was deleted before its plan was active")
        if row["active"]:
            return row
        if time.monotonic() >= deadline:
            raise CommandError(f"{name} was accepted, but its plan is not active on every switch after {timeout:g} s")
        time.sleep(_POLL_SECONDS)


def _listed(client: Client) -> list[dict[str, Any]]:
    """Return the controller's jobs as the list of the API describes them."""
    return described_rows(described(client.request("GET", "jobs").document, "jobs")["jobs"], *_LISTED)


def _job(answer: Any) -> dict[str, Any]:
    """Return the answer after checking that it is a job document."""
    job = described(answer, *_JOB)
    described_rows(job["collectives"], *COLLECTIVE)
    described_rows(job["flows"], "collective")
    if not isinstance(job["unroutable"], list):
        raise not_understood(job["unroutable"])
    return job


def _print_job(output: Printer, answer: dict[str, Any]) -> None:
    times, tenant = answer.get("times"), answer.get("tenant")
    output.table(
        answer["name"] if tenant is None else f"{answer['name']}, of tenant {tenant}",
        ("weight>", "flows>", "bytes>", "speed>", "planned>", *(EXPECTED if times else ()), "plan>", "active"),
        [
            (
                f"{answer['weight']:g}",
                str(len(answer["flows"])),
                size(answer["bytes"]),
                number(answer["speed"]),
                number(answer["min_speed"]),
                *(expected_cells(times) if times else ()),
                str(answer["epoch"]),
                activity(answer["active"], len(answer["flows"])),
            )
        ],
        give_up=_GIVE_UP,
    )
    if answer.get("left_out"):
        output.line(f"{answer['name']}: {answer['left_out']}", "yellow")
    flows = Counter(flow["collective"] for flow in answer["flows"])
    print_collectives(output, answer["collectives"], [flows[row["name"]] for row in answer["collectives"]])
    if answer["unroutable"]:
        output.line(f"unroutable: {', '.join(answer['unroutable'])}")
