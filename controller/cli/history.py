"""``fairspine history``: the plans that a running controller has made, and rollback to one of them."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described, described_rows
from controller.cli.output import FormatOption, OutputFormat, moment, number, plural, print_json, print_table
from controller.cli.remote import (
    CaFileOption,
    InnerCaFileOption,
    InnerTokenOption,
    InnerUrlOption,
    Remote,
    TokenOption,
    UrlOption,
)

app = typer.Typer(
    rich_markup_mode=None,
    help="Show the plans that were made, newest first, and why; or one of them; or go back to one.",
)

EpochArgument = Annotated[
    int, typer.Argument(metavar="EPOCH", help="The plan's number.", min=0, max=2**53 - 1, show_default=False)
]

# Members that are read of the API's documents (controller.rest.schemas.PlanSummary).
_PLAN = (
    *(
        "epoch",
        "at",
        "cause",
        "by",
        "policy",
        "seed",
        "mode",
        "enforcement",
        "links_down",
        "drained",
        "jobs",
        "min_speed",
        "gap",
    ),
    *("min_speed", "gap", "flows", "moved", "unroutable", "rollback_of"),
)


@app.callback(invoke_without_command=True, epilog="Example: fairspine history --limit 20")
def list_plans(
    ctx: typer.Context,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="EPOCH", min=0, max=2**53 - 1, help="Only plans with a smaller number."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=500, help="Plans at most.")] = 20,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """List the plans that were made, newest first, unless a subcommand follows."""
    ctx.obj = Remote(url, token, ca_file)
    if ctx.invoked_subcommand is not None:
        return
    page = _page(ctx.obj.client(), before, limit)
    if format is OutputFormat.JSON:
        print_json(json.dumps(page).encode())
        return
    _print_plans(plural(len(page["plans"]), "plan"), page["plans"])
    if page["next_before"] is not None:
        typer.echo(f"there are older ones: fairspine history --before {page['next_before']}")


@app.command("show", epilog="Example: fairspine history show 41 --format json")
def show(
    ctx: typer.Context,
    epoch: EpochArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show a plan that was made: why, for which jobs, on which links, and how its flows were spread.

    The JSON has the path of every flow.
    """
    client = Remote(url, token, ca_file).over(ctx.obj).client()
    plan = described(client.request("GET", "plans", str(epoch)).document, *_PLAN, "paths")
    paths = None if plan["paths"] is None else described_rows(plan["paths"], "path")
    if format is OutputFormat.JSON:
        print_json(json.dumps(plan).encode())
        return
    _print_plans(f"plan {epoch}", [plan])
    for name, title in (("jobs", "jobs"), ("links_down", "links that were down"), ("drained", "drained")):
        typer.echo(f"{title}: {', '.join(plan[name]) or 'none'}")
    if paths is None:
        typer.echo("its paths are not kept")
        return
    print_table(
        "flows between leaves, and pieces of them, by path",
        ("path", "flows>"),
        ((path, str(count)) for path, count in sorted(Counter(row["path"] for row in paths).items())),
    )


@app.command("rollback", epilog="Example: fairspine history rollback 41")
def rollback(
    ctx: typer.Context,
    epoch: EpochArgument,
    url: InnerUrlOption = None,
    token: InnerTokenOption = None,
    ca_file: InnerCaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Give the flows that there are now the paths of an old plan, where those are live; a new plan, so undone likewise.

    Jobs, drains and the mode stay as they are.
    """
    client = Remote(url, token, ca_file).over(ctx.obj).client()
    plan = described(client.request("POST", "plans", f"{epoch}:rollback").document, *_PLAN)
    if format is OutputFormat.JSON:
        print_json(json.dumps(plan).encode())
    else:
        _print_plans(f"plan {plan['epoch']}: {plan['moved']} flows moved to their paths of plan {epoch}", [plan])


def kept_plan(client: Client, epoch: int) -> dict[str, Any] | None:
    """Return the stored summary of a plan, without its paths; ``None`` if the plan is not stored.

    Raises:
        CommandError: the controller does not answer.
    """
    return next((plan for plan in _page(client, epoch + 1, 1)["plans"] if plan["epoch"] == epoch), None)


def _page(client: Client, before: int | None, limit: int) -> dict[str, Any]:
    query = {"limit": limit} | ({} if before is None else {"before": before})
    page = described(client.request("GET", "plans", query=query).document, "plans", "next_before")
    described_rows(page["plans"], *_PLAN)
    return page


def _print_plans(title: str, plans: list[dict[str, Any]]) -> None:
    print_table(
        title,
        (
            "plan>",
            "at (UTC)",
            "cause",
            "by",
            "mode",
            "enforcement",
            "policy",
            "flows>",
            "moved>",
            "unroutable>",
            "min speed>",
            "gap>",
        ),
        (
            (
                str(plan["epoch"]),
                moment(plan["at"]),
                plan["cause"],
                plan["by"] or "-",
                plan["mode"],
                plan["enforcement"],
                plan["policy"],
                str(plan["flows"]),
                str(plan["moved"]),
                str(plan["unroutable"]),
                number(plan["min_speed"]),
                number(plan["gap"]),
            )
            for plan in plans
        ),
    )
