"""``fairspine schedule``: when the iterations of a running controller's jobs begin."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.output import Printer
from controller.cli.shared.plan_table import SHIFT, print_schedule, print_shifts


def schedule(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="A job; without it, all jobs.", show_default=False, autocompletion=completion.jobs
        ),
    ] = None,
    *,
    remote: Remote,
    output: Printer,
    watch: Watch,
) -> None:
    """Show when the iterations of jobs begin; the controller advises it with policy_options=shifts=advise."""
    client = remote.client()
    watch.show(lambda: _show(client, name, output))


def _show(client: Client, name: str | None, output: Printer) -> None:
    path = ("schedule",) if name is None else ("jobs", name, "schedule")
    field = "schedule" if name is None else "shift"
    document = described(client.request("GET", *path).document, "epoch", field)
    if not output.is_table:
        output.document(document)
        return
    planned = document[field]
    if planned is None:
        typer.echo("no shift is advised" if name is None else f"no shift is advised for {name}")
    elif name is None:
        described_rows(described(planned, "slowdown", "bound", "jobs")["jobs"], *SHIFT)
        print_schedule(output, planned)
    else:
        print_shifts(output, f"plan {document['epoch']}", [described(planned, *SHIFT)])
