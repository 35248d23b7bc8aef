"""``fairspine push`` and ``fairspine jobs``: the jobs of a running controller."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from controller.cli.client import Client
from controller.cli.failure import Failure
from controller.cli.output import Format, FormatOption, number, print_collectives, print_json, print_table, size

DEFAULT_URL = "http://127.0.0.1:8080"

UrlOption = Annotated[
    str, typer.Option("--url", envvar="FAIRSPINE_URL", metavar="URL", help="Where the controller listens.")
]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The job's name.", show_default=False)]

app = typer.Typer(rich_markup_mode=None, help="Show or delete the jobs of a running controller; without more: list.")

_POLL_SECONDS = 0.1


def push(
    job: Annotated[Path, typer.Argument(metavar="JOB", help="The job's file (JSON or YAML).", show_default=False)],
    url: UrlOption = DEFAULT_URL,
    wait: Annotated[bool, typer.Option("--wait", help="Return when the switches enforce the job's plan.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait at most.")] = 30.0,
    format: FormatOption = Format.TABLE,
) -> None:
    """Push a job to a running controller, in place of any of that name."""
    import orjson

    from controller.model.fabric_file import read_document
    from controller.workload.job_file import parse_job

    document = read_document(job)
    name = parse_job(document, source=str(job)).name
    client = Client(url)
    status, answer = client.request("PUT", "jobs", name, body=orjson.dumps(document))
    if wait:
        _wait(client, name, timeout)
        answer["active"] = True
    if format is Format.JSON:
        print_json(orjson.dumps(answer))
    else:
        typer.echo(f"{name} {'created' if status == 201 else 'replaced'}, plan {answer['epoch']}")
        _print_job(answer)


@app.callback(invoke_without_command=True, epilog="Example: fairspine jobs show gpt3-a")
def list_jobs(ctx: typer.Context, url: UrlOption = DEFAULT_URL, format: FormatOption = Format.TABLE) -> None:
    ctx.obj = url
    if ctx.invoked_subcommand is not None:
        return
    _, answer = Client(url).request("GET", "jobs")
    if format is Format.JSON:
        print_json(json.dumps(answer).encode())
        return
    print_table(
        f"{len(answer['jobs'])} jobs",
        ("job", "weight>", "collectives>", "flows>", "bytes>", "min speed>", "active"),
        (
            (
                row["name"],
                f"{row['weight']:g}",
                str(row["collectives"]),
                str(row["flows"]),
                size(row["bytes"]),
                number(row["min_speed"]),
                "yes" if row["active"] else "not yet",
            )
            for row in answer["jobs"]
        ),
    )


OuterUrlOption = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where the controller listens.", show_default=False)
]


@app.command("show", epilog="Example: fairspine jobs show gpt3-a --format json")
def show(
    ctx: typer.Context, name: NameArgument, url: OuterUrlOption = None, format: FormatOption = Format.TABLE
) -> None:
    """Show a job with its part of the plan."""
    _, answer = Client(url or ctx.obj).request("GET", "jobs", name)
    if format is Format.JSON:
        print_json(json.dumps(answer).encode())
    else:
        _print_job(answer)


@app.command("delete", epilog="Example: fairspine jobs delete gpt3-a")
def delete(ctx: typer.Context, name: NameArgument, url: OuterUrlOption = None) -> None:
    """Delete a job; its rules go with it."""
    Client(url or ctx.obj).request("DELETE", "jobs", name)
    typer.echo(f"{name} deleted")


def _wait(client: Client, name: str, timeout: float) -> None:
    """Until the newest plan, which holds the job, is active."""
    deadline = time.monotonic() + timeout
    while True:
        _, answer = client.request("GET", "jobs")
        row = next((row for row in answer["jobs"] if row["name"] == name), None)
        if row is None:
            raise Failure(f"{name} was deleted before its plan was active")
        if row["active"]:
            return
        if time.monotonic() >= deadline:
            raise Failure(f"{name} was taken, but its plan is not active on every switch after {timeout:g} s")
        time.sleep(_POLL_SECONDS)


def _print_job(answer: dict[str, Any]) -> None:
    print_table(
        answer["name"],
        ("weight>", "flows>", "bytes>", "min speed>", "plan>", "active"),
        [
            (
                f"{answer['weight']:g}",
                str(len(answer["flows"])),
                size(answer["bytes"]),
                number(answer["min_speed"]),
                str(answer["epoch"]),
                "yes" if answer["active"] else "not yet",
            )
        ],
    )
    flows = Counter(flow["collective"] for flow in answer["flows"])
    print_collectives(answer["collectives"], [flows[row["name"]] for row in answer["collectives"]])
    if answer["unroutable"]:
        typer.echo(f"unroutable: {', '.join(answer['unroutable'])}")
