"""``fairspine history``: the plans that a running controller has made, and rollback to one of them."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import typer

from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, moment, number, plural, screen
from controller.model.units import LARGEST_EXACT

app = typer.Typer(
    rich_markup_mode=None,
    help="List plans with their causes, newest first; show one; or roll back to one.",
)

EpochArgument = Annotated[
    int, typer.Argument(metavar="EPOCH", help="The number of the plan.", min=0, max=LARGEST_EXACT, show_default=False)
]

_PLANS = 20  # plans of a page for programs
_BESIDE = 9  # lines of the screen beside the rows of the table, the prompt among them

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
    *("slowest", "flows", "moved", "unroutable", "rollback_of"),
)


@app.callback(invoke_without_command=True, epilog="Example: fairspine history --limit 20")
@with_groups
def list_plans(
    ctx: typer.Context,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="EPOCH", min=0, max=LARGEST_EXACT, help="Only plans with a smaller number."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            metavar="N",
            min=1,
            max=500,
            help=f"Plans at most.  [default: as many as fit on the screen; {_PLANS} as JSON, YAML or with --wide]",
            show_default=False,
        ),
    ] = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """List previous plans, newest first, unless a subcommand follows."""
    if ctx.invoked_subcommand is not None:
        return
    client = remote.client()
    fitting = max(screen().lines - _BESIDE, 1) if output.is_table and not output.wide else _PLANS
    watch.show(lambda: _show_page(client, before, limit or fitting, output))


def _show_page(client: Client, before: int | None, limit: int, output: Printer) -> None:
    page = _page(client, before, limit)
    if not output.is_table:
        output.document(page)
        return
    _print_plans(output, plural(len(page["plans"]), "plan"), page["plans"])
    if page["next_before"] is not None:
        output.line(f"for older plans: fairspine history --before {page['next_before']}")


@app.command("show", epilog="Example: fairspine history show 41 --format json")
@with_groups
def show(
    epoch: EpochArgument,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Show a previous plan: its cause, its jobs, its links, and how its flows were spread.

    The JSON has the path of every flow.
    """
    client = remote.client()
    plan = described(client.request("GET", "plans", str(epoch)).document, *_PLAN, "paths")
    paths = None if plan["paths"] is None else described_rows(plan["paths"], "path")
    if not output.is_table:
        output.document(plan)
        return
    _print_plans(output, f"plan {epoch}", [plan])
    for name, title in (("jobs", "jobs"), ("links_down", "links that were down"), ("drained", "drained")):
        output.line(f"{title}: {', '.join(plan[name]) or 'none'}")
    if paths is None:
        typer.echo("its paths are not stored")
        return
    output.table(
        "flows between leaves, and pieces of them, by path",
        ("path", "flows>"),
        ((path, str(count)) for path, count in sorted(Counter(row["path"] for row in paths).items())),
    )


@app.command("rollback", epilog="Example: fairspine history rollback 41")
@with_groups
def rollback(
    epoch: EpochArgument,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Make a new plan that gives the present flows the live paths of an earlier plan.

    Jobs, drains and the mode do not change. To undo a rollback, roll back to the plan before it.
    """
    client = remote.client(change)
    plan = described(client.request("POST", "plans", f"{epoch}:rollback").document, *_PLAN)
    if not output.is_table:
        output.document(plan)
    else:
        _print_plans(
            output,
            f"plan {plan['epoch']}: {plural(plan['moved'], 'flow')} moved to their paths of plan {epoch}",
            [plan],
        )


def _page(client: Client, before: int | None, limit: int) -> dict[str, Any]:
    query = {"limit": limit} | ({} if before is None else {"before": before})
    page = described(client.request("GET", "plans", query=query).document, "plans", "next_before")
    described_rows(page["plans"], *_PLAN)
    return page


def _print_plans(output: Printer, title: str, plans: list[dict[str, Any]]) -> None:
    output.table(
        title,
        (
            "plan>",
            "at (UTC)",
            "cause",
            "by",
            "reason",
            "mode",
            "enforcement",
            "policy",
            "flows>",
            "moved>",
            "unroutable>",
            "slowest job>",
            "planned>",
            "gap>",
        ),
        (
            (
                str(plan["epoch"]),
                moment(plan["at"]),
                plan["cause"],
                plan["by"] or "-",
                plan.get("reason") or "-",
                plan["mode"],
                plan["enforcement"],
                plan["policy"],
                str(plan["flows"]),
                str(plan["moved"]),
                str(plan["unroutable"]),
                number(plan["slowest"]),
                number(plan["min_speed"]),
                number(plan["gap"]),
            )
            for plan in plans
        ),
        give_up=("reason", "enforcement", "policy", "mode", "by", "flows>", "planned>", "unroutable>"),
        shorten=("cause", "by", "reason"),
    )
