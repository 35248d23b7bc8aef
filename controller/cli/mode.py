"""``fairspine mode``: the mode in which a running controller enforces plans."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described
from controller.cli.output import FormatOption, OutputFormat, moment, print_json, print_table
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption


class ModeName(StrEnum):
    """The modes of a controller."""

    PLANNED = "planned"
    ECMP = "ecmp"
    FROZEN = "frozen"


class EnforcementName(StrEnum):
    """The kinds of rules that can enforce a plan."""

    PER_FLOW = "per_flow"
    SEGMENT_ROUTING = "segment_routing"
    SOURCE_PORT = "source_port"


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
    enforcement: Annotated[
        EnforcementName | None,
        typer.Option("--enforcement", help="The kind of rules to follow plans by; without it, as it is."),
    ] = None,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Show how plans are enforced, or change it: the big switch for a bad night. It outlives restarts.

    planned: the newest plan is on the switches. ecmp: no plan is, all traffic is hashed. frozen: the switches keep
    what they hold; changes are taken and kept, and come into force with the return to planned.

    The enforcement is how switches follow a plan: by a rule a flow at its first leaf (per_flow), by MPLS labels
    (segment_routing), or by the UDP source port that hosts are told (source_port). It can be changed at any time.
    """
    client = Remote(url, token, ca_file).client()
    wanted = {"mode": mode, "enforcement": enforcement}
    form = {name: value for name, value in wanted.items() if value is not None}
    if form:
        answer = _mode(client.request("PUT", "mode", body=json.dumps(form).encode()).document)
    else:
        answer = current(client)
    if format is OutputFormat.JSON:
        print_json(json.dumps(answer).encode())
        return
    since = "-" if answer["since"] is None else moment(answer["since"])
    print_table(
        f"{answer['mode']}: {meaning(answer)}",
        ("mode", "enforcement", "since (UTC)", "by", "plan>"),
        [(answer["mode"], answer["enforcement"], since, answer["by"] or "-", str(answer["epoch"]))],
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
