"""``fairspine events``: what happens at a running controller, as it happens."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from enum import StrEnum
from time import sleep
from typing import Annotated, Any

import typer

from controller.cli.connection.client import Client, NoAnswer, ServerEvent
from controller.cli.connection.remote import Remote
from controller.cli.shared.output import Printer, moment
from controller.model.errors import one_line

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.5, 5.0
"""Pause before each new try while the controller is unreachable; it doubles with every try."""


class Kind(StrEnum):
    """Values of ``--kind``."""

    PLAN = "plan"
    LINK = "link"
    JOB = "job"
    MODE = "mode"
    DRIFT = "drift"
    SCHEDULE = "schedule"
    LEARNING = "learning"
    ERROR = "error"
    RESET = "reset"


def events(
    after: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="ID",
            help="Begin after this event (begin: with the oldest that is kept); default: with new ones.",
        ),
    ] = None,
    kind: Annotated[
        list[Kind] | None, typer.Option("--kind", help="Only events of this kind; may be given several times.")
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", min=1, help="Stop after this number of events; default: at Ctrl-C."),
    ] = None,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Print events as they happen: plans, links, jobs, the mode, errors. As JSON, each event is a document on one line.

    If the controller is not reachable, the command tries again until it is, and continues after the last event.
    """
    left = count
    try:
        for event in follow(remote.client(), after):
            if kind and event.kind not in kind:
                if event.kind == Kind.RESET:
                    typer.echo("fairspine: events before the next one are lost", err=True)
                continue
            _print(event, output)
            if left is not None:
                left -= 1
                if left == 0:
                    return
    except KeyboardInterrupt:
        # The user ends the command with Ctrl-C.
        return


def follow(client: Client, after: str | None) -> Iterator[ServerEvent]:
    """Yield events, reconnecting as often as needed; report lost connections on standard error.

    Raises:
        CommandError: the first request had no answer, or the controller refuses the request.
    """
    known, away = False, False
    pause = FIRST_PAUSE_SECONDS

    def opened() -> None:
        nonlocal known, away, pause
        if away:
            since = "" if after is not None else "; events of the meantime are not known"
            typer.echo(f"fairspine: {client.url}: answers again{since}", err=True)
        known, away, pause = True, False, FIRST_PAUSE_SECONDS

    while True:
        try:
            for event in client.events(after, opened=opened):
                after = event.id
                yield event
        except NoAnswer as failure:
            if not known:
                raise
            if not away:
                typer.echo(f"fairspine: {one_line(str(failure))}; trying again", err=True)
            away = True
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_SECONDS)


def _print(event: ServerEvent, output: Printer) -> None:
    document = event.document
    if not output.is_table:
        output.document(document)
    else:
        text = f"{moment(str(document['at']))}  {event.id}  {event.kind:5}  {_text(document['data'])}"
        typer.echo(one_line(text.rstrip()))
    # A reader at the end of a pipe needs each event at once.
    sys.stdout.flush()


def _text(data: Any) -> str:
    """Return the data of an event as one line."""
    if not isinstance(data, dict):
        return json.dumps(data)
    if set(data) == {"text"}:
        return str(data["text"])
    return " ".join(f"{name}={_value(value)}" for name, value in data.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    plain = isinstance(value, str) and value and " " not in value
    return value if plain else json.dumps(value, ensure_ascii=False)
