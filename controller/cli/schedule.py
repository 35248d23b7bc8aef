"""``fairspine schedule``: when the iterations of a running controller's jobs begin."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from controller.cli.client import described, described_rows
from controller.cli.output import FormatOption, OutputFormat, print_json
from controller.cli.plan_table import SHIFT, print_schedule, print_shifts
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption


def schedule(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A job; without it, all jobs.", show_default=False)
    ] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show when the iterations of jobs begin; the controller advises it with policy_options=shifts=advise."""
    client = Remote(url, token, ca_file).client()
    path = ("schedule",) if name is None else ("jobs", name, "schedule")
    field = "schedule" if name is None else "shift"
    document = described(client.request("GET", *path).document, "epoch", field)
    if format is OutputFormat.JSON:
        print_json(json.dumps(document).encode())
        return
    found = document[field]
    if found is None:
        typer.echo("no shift is advised" if name is None else f"no shift is advised for {name}")
    elif name is None:
        described_rows(described(found, "slowdown", "bound", "jobs")["jobs"], *SHIFT)
        print_schedule(found)
    else:
        print_shifts(f"plan {document['epoch']}", [described(found, *SHIFT)])
