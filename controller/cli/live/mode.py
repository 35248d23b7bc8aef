"""``fairspine mode``: the mode in which a running controller enforces plans."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described
from controller.cli.connection.remote import Remote
from controller.cli.connection.watch import Watch
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.enforcement_help import ENFORCEMENTS_TEXT
from controller.cli.shared.output import Printer, moment
from controller.model.errors import InputError


class ModeName(StrEnum):
    """The modes of a controller."""

    PLANNED = "planned"
    ECMP = "ecmp"
    FROZEN = "frozen"


MEANING = {
    ModeName.PLANNED: "the newest plan is enforced",
    ModeName.ECMP: "no plan is enforced; all traffic is hashed",
    ModeName.FROZEN: "the rules on the switches do not change; changes take effect with 'fairspine mode planned'",
}


def mode(
    mode: Annotated[
        ModeName | None,
        typer.Argument(metavar="MODE", help="The mode to set; default: show the present mode.", show_default=False),
    ] = None,
    enforcement: Annotated[
        str | None,
        typer.Option(
            "--enforcement",
            metavar="NAME",
            help=f"How switches follow plans: {ENFORCEMENTS_TEXT}; default: unchanged.",
            autocompletion=completion.enforcements,
        ),
    ] = None,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
    watch: Watch,
) -> None:
    """Show or set the operating mode and the enforcement. The setting survives restarts.

    planned: switches (or hosts) follow the newest plan. ecmp: there is no plan, and all traffic is hashed. frozen: the
    rules on the switches do not change; changes are accepted and stored, and take effect when the mode is planned
    again.

    The enforcement is the way in which switches follow a plan, such as one rule per flow at its first leaf, MPLS
    labels, or the UDP source ports of hosts (docs/explanation/enforcement.md). It can be changed at any time.
    """
    client = remote.client(change)
    wanted = {"mode": mode, "enforcement": enforcement}
    form = {name: value for name, value in wanted.items() if value is not None}
    if not form:
        watch.show(lambda: _show(current(client), output))
        return
    if watch.watch:
        raise InputError("shows the present mode; it cannot be set at the same time", field="--watch")
    _show(_mode(client.request("PUT", "mode", body=json.dumps(form).encode()).document), output)


def _show(answer: dict[str, Any], output: Printer) -> None:
    if not output.is_table:
        output.document(answer)
        return
    since = "-" if answer["since"] is None else moment(answer["since"])
    output.table(
        f"{answer['mode']}: {meaning(answer)}",
        ("mode", "enforcement", "since (UTC)", "by", "plan>"),
        [(answer["mode"], answer["enforcement"], since, answer["by"] or "-", str(answer["epoch"]))],
        shorten=("by",),
    )


def current(client: Client) -> dict[str, Any]:
    """Return the current mode (``ModeDocument``).

    Raises:
        CommandError: the controller does not answer.
    """
    return _mode(client.request("GET", "mode").document)


def meaning(document: dict[str, Any]) -> str:
    """Return the description of a mode in words."""
    return next((text for name, text in MEANING.items() if name == document["mode"]), "a mode of a later version")


def _mode(document: Any) -> dict[str, Any]:
    return described(document, "mode", "enforcement", "since", "by", "epoch")
