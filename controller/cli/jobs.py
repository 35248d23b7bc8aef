"""``fairspine push`` and ``fairspine jobs``: the jobs of a running controller."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described, described_rows, not_understood
from controller.cli.command_error import CommandError
from controller.cli.output import (
    COLLECTIVE,
    EXPECTED,
    FormatOption,
    OutputFormat,
    expected_cells,
    number,
    plural,
    print_collectives,
    print_json,
    print_table,
    size,
)
from controller.cli.remote import (
    CaFileOption,
    InnerCaFileOption,
    InnerTokenOption,
    InnerUrlOption,
    Remote,
    TokenOption,
    UrlOption,
)
from controller.cli.servers import hosts_of, on_servers

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.", show_default=False)]

app = typer.Typer(rich_markup_mode=None, help="Show or delete the jobs of a running controller; without more: list.")

_POLL_SECONDS = 0.1

# Members that are read of the API's documents (controller.rest.schemas).
_JOB = ("name", "weight", "bytes", "speed", "min_speed", "epoch", "active", "unroutable", "collectives", "flows")
_LISTED = ("name", "weight", "collectives", "flows", "bytes", "speed", "min_speed", "active")


def push(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job's file (JSON or YAML).", show_default=False)],
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    name: Annotated[
        str | None, typer.Option("--name", help="The job's name.  [default: as in its file]", show_default=False)
    ] = None,
    servers: Annotated[
        str | None,
        typer.Option(
            "--servers",
            metavar="NAMES",
            help="Put the ranks on the hosts of these servers of the fabric, in order; commas between.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the switches enforce the job's plan.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 30.0,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Push a job to a running controller, in place of any of that name."""
    import orjson

    from controller.model.fabric_file import read_document
    from controller.workload.job_file import parse_job

    document = read_document(job)
    client = Remote(url, token, ca_file).client()
    if isinstance(document, dict):
        document |= {} if name is None else {"name": name}
        if servers is not None:
            document = on_servers(document, hosts_of(client, servers.split(",")), str(job))
    name = parse_job(document, source=str(job)).name
    try:
        taken = client.request("PUT", "jobs", name, body=orjson.dumps(document))
    except CommandError as failure:
        if failure.exit_code != 2:
            raise
        raise CommandError(f"{job}: {failure}", exit_code=2) from None
    answer = _job(taken.document)
    if wait:
        _wait(client, name, timeout)
        answer["active"] = True
    if format is OutputFormat.JSON:
        print_json(orjson.dumps(answer))
    else:
        typer.echo(f"{name} {'created' if taken.status == 201 else 'replaced'}, plan {answer['epoch']}")
        _print_job(answer)


@app.callback(invoke_without_command=True, epilog="Example: fairspine jobs show gpt3-a")
def list_jobs(
    ctx: typer.Context,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the jobs, unless a subcommand follows."""
    ctx.obj = Remote(url, token, ca_file)
    if ctx.invoked_subcommand is None:
        _print_jobs(ctx.obj.client(), format)


@app.command("list", epilog="Example: fairspine jobs list --format json")
def list_too(
    ctx: typer.Context,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the jobs."""
    _print_jobs(Remote(url, token, ca_file).over(ctx.obj).client(), format)


def _print_jobs(client: Client, format: OutputFormat) -> None:
    rows = _listed(client)
    timed = any(row.get("times") for row in rows)
    if format is OutputFormat.JSON:
        print_json(json.dumps({"jobs": rows}).encode())
        return
    print_table(
        plural(len(rows), "job"),
        ("job", "weight>", "collectives>", "flows>", "bytes>", "speed>", "planned>", *(EXPECTED * timed), "active"),
        (
            (
                row["name"],
                f"{row['weight']:g}",
                str(row["collectives"]),
                str(row["flows"]),
                size(row["bytes"]),
                number(row["speed"]),
                number(row["min_speed"]),
                *(expected_cells(row.get("times")) if timed else ()),
                "yes" if row["active"] else "not yet",
            )
            for row in rows
        ),
    )


@app.command("show", epilog="Example: fairspine jobs show gpt3-a --format json")
def show(
    ctx: typer.Context,
    name: NameArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show a job with its part of the plan."""
    client = Remote(url, token, ca_file).over(ctx.obj).client()
    answer = _job(client.request("GET", "jobs", name).document)
    if format is OutputFormat.JSON:
        print_json(json.dumps(answer).encode())
    else:
        _print_job(answer)


@app.command("delete", epilog="Example: fairspine jobs delete gpt3-a")
def delete(
    ctx: typer.Context,
    name: NameArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
) -> None:
    """Delete a job; its rules go with it."""
    Remote(url, token, ca_file).over(ctx.obj).client().request("DELETE", "jobs", name)
    typer.echo(f"{name} deleted")


def _wait(client: Client, name: str, timeout: float) -> None:
    """Wait until the newest plan, which contains the job, is active.

    Raises:
        CommandError: the job was deleted meanwhile, or its plan is not active after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        row = next((row for row in _listed(client) if row["name"] == name), None)
        if row is None:
            raise CommandError(f"{name} was deleted before its plan was active")
        if row["active"]:
            return
        if time.monotonic() >= deadline:
            raise CommandError(f"{name} was taken, but its plan is not active on every switch after {timeout:g} s")
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


def _print_job(answer: dict[str, Any]) -> None:
    times = answer.get("times")
    print_table(
        answer["name"],
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
                "yes" if answer["active"] else "not yet",
            )
        ],
    )
    flows = Counter(flow["collective"] for flow in answer["flows"])
    print_collectives(answer["collectives"], [flows[row["name"]] for row in answer["collectives"]])
    if answer["unroutable"]:
        typer.echo(f"unroutable: {', '.join(answer['unroutable'])}")
