"""``fairspine cluster``: the replicas of a cluster of controllers, and a change of its leader."""

from __future__ import annotations

from typing import Any

import typer

from controller.cli.connection.client import described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.option_groups import with_groups
from controller.cli.shared.output import Printer, moment, plural

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Show the replicas of a cluster, or let another one lead."
)


@app.command("status", epilog="Example: fairspine cluster status --watch")
@with_groups
def status(*, remote: Remote, output: Printer, watch: Watch) -> None:
    """Show the replicas of the cluster as one of them knows it. The leader has a star."""
    client = remote.client()
    watch.show(lambda: _print(client.request("GET", "cluster").document, output))


@app.command("step-down", epilog="Example: fairspine cluster step-down")
@with_groups
def step_down(*, remote: Remote) -> None:
    """Let another replica of the cluster lead, for example before the leader's machine is upgraded."""
    client = remote.client()
    client.request("POST", "cluster:step-down")
    typer.echo("the leader steps down; 'fairspine cluster status' shows the next one")


def _print(document: Any, output: Printer) -> None:
    answer: dict[str, Any] = described(document, "name", "role", "term", "leader", "since", "replicas")
    if not output.is_table:
        output.document(answer)
        return
    if answer["role"] == "single":
        output.line("this controller is in no cluster")
        return
    rows = described_rows(answer["replicas"], "url", "version", "live", "leads", "heard")
    leads = (
        "no replica leads" if answer["leader"] is None else f"{answer['leader']} leads since {moment(answer['since'])}"
    )
    output.table(
        f"cluster {answer['name']}, {plural(len(rows), 'replica')}, term {answer['term']}: {leads}",
        ("", "replica", "state", "switches>", "version", "heard of (UTC)"),
        (
            (
                "*" if row["leads"] else "",
                row["url"],
                "works" if row["live"] else "missing",
                str(row.get("switches", "-")),
                row["version"],
                moment(row["heard"]),
            )
            for row in rows
        ),
        give_up=("version",),
        shorten=("replica",),
    )
