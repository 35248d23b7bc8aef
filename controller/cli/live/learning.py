"""``fairspine learning``: whether a running controller learns jobs from their traffic, and plans them."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.connection.client import described
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.output import Printer, moment
from controller.model.errors import InputError


class LearningName(StrEnum):
    """The values of the setting ``learning``."""

    OFF = "off"
    OBSERVE = "observe"
    ACT = "act"


MEANING = {
    LearningName.OFF: "no traffic is looked at",
    LearningName.OBSERVE: "learned jobs are shown, and not planned",
    LearningName.ACT: "learned jobs are planned",
}


def learning(
    learning: Annotated[
        LearningName | None,
        typer.Argument(metavar="LEARNING", help="The value to set; default: show it.", show_default=False),
    ] = None,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
    watch: Watch,
) -> None:
    """Show or set whether jobs are learned from their traffic, and planned. The setting survives restarts.

    off: no traffic is looked at. observe: jobs are learned from their traffic and shown ('fairspine learned'). act:
    learned jobs are planned, too, without a change for pushed jobs.
    """
    client = remote.client(change)
    if learning is None:
        watch.show(lambda: _show(client.request("GET", "learning").document, output))
        return
    if watch.watch:
        raise InputError("shows the present setting; it cannot be set at the same time", field="--watch")
    _show(client.request("PUT", "learning", body=json.dumps({"learning": learning}).encode()).document, output)


def _show(document: Any, output: Printer) -> None:
    answer: dict[str, Any] = described(document, "learning", "since", "by")
    if not output.is_table:
        output.document(answer)
        return
    name = answer["learning"]
    since = "-" if answer["since"] is None else moment(answer["since"])
    meaning = next((text for known, text in MEANING.items() if known == name), "a setting of a later version")
    output.table(
        f"{name}: {meaning}",
        ("learning", "since (UTC)", "by"),
        [(name, since, answer["by"] or "-")],
        shorten=("by",),
    )
