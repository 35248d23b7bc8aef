"""``fairspine learned``: the jobs that a running controller has learned from sightings of their traffic."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described, described_rows
from controller.cli.output import FormatOption, OutputFormat, moment, plural, print_json, print_table, share, size
from controller.cli.output import seconds as seconds_cell
from controller.cli.remote import (
    CaFileOption,
    InnerCaFileOption,
    InnerTokenOption,
    InnerUrlOption,
    Remote,
    TokenOption,
    UrlOption,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the learned job.", show_default=False)]

app = typer.Typer(rich_markup_mode=None, help="List, show, adopt or forget the learned jobs of a running controller.")

# Members that are read of the API's documents (controller.rest.schemas).
_LISTED = ("name", "hosts", "flows", "bytes", "period_seconds", "iterations", "confidence", "seen", "groups")
_GROUP = ("shape", "phase", "flows", "hosts", "bytes")


@app.callback(invoke_without_command=True, epilog="Example: fairspine learned show learned-1f0a2b3c")
def list_learned(
    ctx: typer.Context,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the learned jobs, unless a subcommand follows."""
    ctx.obj = Remote(url, token, ca_file)
    if ctx.invoked_subcommand is None:
        _print_list(ctx.obj.client(), format)


@app.command("list", epilog="Example: fairspine learned list --format json")
def list_too(
    ctx: typer.Context,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the learned jobs."""
    _print_list(Remote(url, token, ca_file).over(ctx.obj).client(), format)


@app.command("show", epilog="Example: fairspine learned show learned-1f0a2b3c --format json")
def show(
    ctx: typer.Context,
    name: NameArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show the groups of a learned job; as JSON, with the job document that would be pushed."""
    client = Remote(url, token, ca_file).over(ctx.obj).client()
    answer = described(client.request("GET", "learned", name).document, "summary", "job")
    if format is OutputFormat.JSON:
        print_json(json.dumps(answer).encode())
        return
    row = described(answer["summary"], *_LISTED)
    print_table(
        _title(row),
        ("shape", "phase>", "flows>", "hosts>", "bytes of each>"),
        (
            (group["shape"], str(group["phase"]), str(group["flows"]), str(group["hosts"]), size(group["bytes"]))
            for group in described_rows(row["groups"], *_GROUP)
        ),
    )


@app.command("adopt", epilog="Example: fairspine learned adopt learned-1f0a2b3c")
def adopt(
    ctx: typer.Context,
    name: NameArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
) -> None:
    """Push a learned job under its name, so that it is planned like any other."""
    client = Remote(url, token, ca_file).over(ctx.obj).client()
    answer = described(client.request("POST", "learned", f"{name}:adopt").document, "epoch")
    typer.echo(f"{name} created, plan {answer['epoch']}")


@app.command("forget", epilog="Example: fairspine learned forget learned-1f0a2b3c")
def forget(
    ctx: typer.Context,
    name: NameArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
) -> None:
    """Forget a learned job; it appears again if its traffic goes on."""
    Remote(url, token, ca_file).over(ctx.obj).client().request("DELETE", "learned", name)
    typer.echo(f"{name} forgotten")


def _title(row: dict[str, Any]) -> str:
    period = row["period_seconds"]
    repeats = f"every {seconds_cell(period)}" if period else "no period"
    return f"{row['name']}: {repeats}, confidence {share(row['confidence'])}, seen {moment(row['seen'])}"


def _print_list(client: Client, format: OutputFormat) -> None:
    answer = described(client.request("GET", "learned").document, "learning", "qps", "jobs")
    rows = described_rows(answer["jobs"], *_LISTED)
    if format is OutputFormat.JSON:
        print_json(json.dumps(answer).encode())
        return
    if answer["learning"] == "off":
        typer.echo("learning is off; the controller's option learning=observe starts it")
        return
    print_table(
        f"{plural(len(rows), 'learned job')}; {plural(answer['qps'], 'QP')} seen",
        ("job", "hosts>", "flows>", "bytes>", "period>", "iterations>", "confidence>", "groups"),
        (
            (
                row["name"],
                str(row["hosts"]),
                str(row["flows"]),
                size(row["bytes"]),
                seconds_cell(row["period_seconds"]),
                str(row["iterations"]),
                share(row["confidence"]),
                ", ".join(f"{group['flows']} {group['shape']}" for group in described_rows(row["groups"], *_GROUP)),
            )
            for row in rows
        ),
    )
