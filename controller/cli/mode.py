"""``fairspine mode``: how a running controller's plans are enforced."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described
from controller.cli.output import Format, FormatOption, moment, print_json, print_table
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption


class ModeName(StrEnum):
    """What the mode may be."""

    PLANNED = "planned"
    ECMP = "ecmp"
    FROZEN = "frozen"


MEANING = {
    ModeName.PLANNED: "the newest plan is on the switches",
    ModeName.ECMP: "no plan is on the switches, all traffic is hashed",
    ModeName.FROZEN: "the switches keep what they hold; changes come into force with 'fairspine mode planned'",
}


def mode(
    mode: Annotated[
        ModeName | None,
        typer.Argument(
            metavar="MODE", help="The mode to set; without it, the present one is shown.", show_default=False
        ),
    ] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Show how plans are enforced, or change it: the big switch for a bad night. It outlives restarts.

    planned: the newest plan is on the switches. ecmp: no plan is, all traffic is hashed. frozen: the switches keep
    what they hold; changes are taken and kept, and come into force with the return to planned.
    """
    client = Remote(url, token, ca_file).client()
    if mode is None:
        answer = current(client)
    else:
        answer = _mode(client.request("PUT", "mode", body=json.dumps({"mode": mode}).encode()).document)
    if format is Format.JSON:
        print_json(json.dumps(answer).encode())
        return
    since = "-" if answer["since"] is None else moment(answer["since"])
    print_table(
        f"{answer['mode']}: {meaning(answer)}",
        ("mode", "since (UTC)", "by", "plan>"),
        [(answer["mode"], since, answer["by"] or "-", str(answer["epoch"]))],
    )


def current(client: Client) -> dict[str, Any]:
    """The mode that is set (``ModeDocument``).

    Raises:
        Failure: the controller does not say.
    """
    return _mode(client.request("GET", "mode").document)


def meaning(document: dict[str, Any]) -> str:
    """What a mode means, in words."""
    return next((text for name, text in MEANING.items() if name == document["mode"]), "a mode of a later version")


def _mode(document: Any) -> dict[str, Any]:
    return described(document, "mode", "since", "by", "epoch")
