"""``fairspine learned``: the jobs that a running controller has learned from sightings of their traffic."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, moment, number, plural, share, size
from controller.cli.shared.output import seconds as seconds_cell

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the learned job.", show_default=False)]

app = typer.Typer(rich_markup_mode=None, help="List, show, adopt or forget the learned jobs of a running controller.")

# Members that are read of the API's documents (controller.rest.schemas).
_LISTED = (
    "name",
    "hosts",
    "flows",
    "bytes",
    "period_seconds",
    "iterations",
    "confidence",
    "planned",
    "planned_flows",
    "hashed_speed",
    "planned_speed",
    "seen",
    "groups",
)
_GROUP = ("shape", "phase", "flows", "hosts", "bytes")


@app.callback(invoke_without_command=True, epilog="Example: fairspine learned show learned-1f0a2b3c")
@with_groups
def list_learned(ctx: typer.Context, *, remote: Remote, output: Printer, watch: Watch) -> None:
    """List the learned jobs, unless a subcommand follows.

    'planned' tells whether all of a job's flows are in the plan, or how many of them are. 'hashed' and 'plan' are the
    speeds of its slowest group if its flows are hashed, and if they are planned.
    """
    if ctx.invoked_subcommand is None:
        client = remote.client()
        watch.show(lambda: _print_list(client, output))


@app.command("list", epilog="Example: fairspine learned list --format json")
@with_groups
def list_too(*, remote: Remote, output: Printer, watch: Watch) -> None:
    """List the learned jobs."""
    client = remote.client()
    watch.show(lambda: _print_list(client, output))


@app.command("show", epilog="Example: fairspine learned show learned-1f0a2b3c --format json")
@with_groups
def show(name: NameArgument, *, remote: Remote, output: Printer, watch: Watch) -> None:
    """Show the groups of a learned job; as JSON, with the job document that would be pushed."""
    client = remote.client()
    watch.show(lambda: _show(client, name, output))


def _show(client: Client, name: str, output: Printer) -> None:
    answer = described(client.request("GET", "learned", name).document, "summary", "job")
    if not output.is_table:
        output.document(answer)
        return
    row = described(answer["summary"], *_LISTED)
    output.table(
        _title(row),
        ("shape", "phase>", "flows>", "hosts>", "bytes of each>"),
        (
            (group["shape"], str(group["phase"]), str(group["flows"]), str(group["hosts"]), size(group["bytes"]))
            for group in described_rows(row["groups"], *_GROUP)
        ),
    )


@app.command("adopt", epilog="Example: fairspine learned adopt learned-1f0a2b3c")
@with_groups
def adopt(name: NameArgument, *, remote: Remote, change: ChangeOptions) -> None:
    """Push a learned job under its name, so that it is planned like any other."""
    answer = described(remote.client(change).request("POST", "learned", f"{name}:adopt").document, "epoch")
    typer.echo(f"{name} created, plan {answer['epoch']}")


@app.command("forget", epilog="Example: fairspine learned forget learned-1f0a2b3c")
@with_groups
def forget(name: NameArgument, *, remote: Remote, change: ChangeOptions) -> None:
    """Forget a learned job; it appears again if its traffic goes on."""
    remote.client(change).request("DELETE", "learned", name)
    typer.echo(f"{name} forgotten")


def _title(row: dict[str, Any]) -> str:
    period = row["period_seconds"]
    repeats = f"every {seconds_cell(period)}" if period else "no period"
    parts = [repeats, f"confidence {share(row['confidence'])}", f"seen {moment(row['seen'])}"]
    if row["hashed_speed"] is not None:
        parts.append(f"speed {row['hashed_speed']:.3f} hashed and {row['planned_speed']:.3f} planned")
    some = f"{row['planned_flows']} of {plural(row['flows'], 'flow')} planned"
    planned = " (planned)" if row["planned"] else f" ({some})" if row["planned_flows"] else ""
    return f"{row['name']}{planned}: {', '.join(parts)}"


def _planned_cell(row: dict[str, Any]) -> str:
    """Return whether the flows of a job are in the plan, and how many if only some are."""
    if row["planned"]:
        return "yes"
    return f"{row['planned_flows']} of {row['flows']}" if row["planned_flows"] else "no"


def _print_list(client: Client, output: Printer) -> None:
    answer = described(client.request("GET", "learned").document, "learning", "qps", "jobs")
    rows = described_rows(answer["jobs"], *_LISTED)
    if not output.is_table:
        output.document(answer)
        return
    if answer["learning"] == "off":
        typer.echo("learning is off; 'fairspine learning observe' turns it on")
        return
    output.table(
        f"{plural(len(rows), 'learned job')}; {plural(answer['qps'], 'QP')} seen",
        (
            "job",
            "hosts>",
            "flows>",
            "bytes>",
            "period>",
            "iterations>",
            "confidence>",
            "planned",
            "hashed>",
            "plan>",
            "groups",
        ),
        (
            (
                row["name"],
                str(row["hosts"]),
                str(row["flows"]),
                size(row["bytes"]),
                seconds_cell(row["period_seconds"]),
                str(row["iterations"]),
                share(row["confidence"]),
                _planned_cell(row),
                number(row["hashed_speed"]),
                number(row["planned_speed"]),
                ", ".join(f"{group['flows']} {group['shape']}" for group in described_rows(row["groups"], *_GROUP)),
            )
            for row in rows
        ),
        give_up=("hosts>", "iterations>", "confidence>", "bytes>", "groups"),
    )
