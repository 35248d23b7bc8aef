"""``fairspine status``: the state of a running controller on one screen, and as an exit code."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from controller.cli.command_error import CommandError
from controller.cli.output import FormatOption, OutputFormat, print_json
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption
from controller.cli.top import document_of, look_at, print_look


def status(
    count: Annotated[int, typer.Option("--links", metavar="N", min=1, max=10_000, help="Links that are shown.")] = 5,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show the health, the switches, the plan, the jobs and the busiest links once.

    Exits 1 unless the health is ok; degraded service is shown and is no fault.
    """
    look = look_at(Remote(url, token, ca_file).client(), None)
    if format is OutputFormat.JSON:
        print_json(json.dumps(document_of(look)).encode())
    else:
        print_look(look, count)
    if look.health["status"] != "ok":
        first = next(iter(look.health["reasons"]), "no switch has confirmed the newest plan yet")
        raise CommandError(f"the health is {look.health['status']}: {first}")
