"""``fairspine drain`` and ``fairspine undrain``: cables, spines and leaves out of use, and back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from controller.cli.client import Client, described, not_understood
from controller.cli.command_error import CommandError
from controller.cli.history import kept_plan
from controller.cli.mode import ModeName, current, meaning
from controller.cli.output import FormatOption, OutputFormat, print_json, print_table
from controller.cli.remote import CaFileOption, Remote, TokenOption, UrlOption

IdsArgument = Annotated[
    list[str],
    typer.Argument(metavar="ID...", help="Cables (leaf1-spine2, leaf1-spine2:2), spines, leaves.", show_default=False),
]


def drain(
    ids: IdsArgument,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Take all traffic off cables, spines or leaves, one after the other, before somebody works on them.

    What nothing else can carry stays where it is: draining is never an outage, and the cables that stay in use are
    named. Where an ID is wrong, nothing is drained.
    """
    _set(Remote(url, token, ca_file).client(), ids, True, format)


def undrain(
    ids: IdsArgument,
    url: UrlOption = None,
    token: TokenOption = None,
    ca_file: CaFileOption = None,
    format: FormatOption = OutputFormat.TABLE,
) -> None:
    """Take cables, spines or leaves back into use."""
    _set(Remote(url, token, ca_file).client(), ids, False, format)


def _set(client: Client, ids: list[str], drained: bool, format: OutputFormat) -> None:
    names = list(dict.fromkeys(ids))
    # All are requested first, so that an unknown ID is reported before anything has changed.
    to_do = [name for name in names if _thing(client.request("GET", *_path(name)).document)["drained"] != drained]
    moved = _change(client, to_do, drained)
    rows = [
        {**_thing(client.request("GET", *_path(name)).document), "changed": name in moved, "moved": moved.get(name, 0)}
        for name in names
    ]
    if format is OutputFormat.JSON:
        print_json(json.dumps({"links": rows}).encode())
    else:
        _print(rows, drained)
        mode = current(client)
        if mode["mode"] != ModeName.PLANNED:
            typer.echo(f"mode {mode['mode']}: {meaning(mode)}")


def _change(client: Client, names: list[str], drained: bool) -> dict[str, int | None]:
    """Drain or undrain each name in turn; return the number of moved flows by name (``None``: not known)."""
    moved: dict[str, int | None] = {}
    body = json.dumps({"drained": drained}).encode()
    for name in names:
        try:
            epoch = _thing(client.request("PUT", *_path(name), body=body).document)["epoch"]
            plan = kept_plan(client, epoch)
        except CommandError as failure:
            if not moved:
                raise
            raise CommandError(
                f"{failure} (done before that: {', '.join(moved)})", exit_code=failure.exit_code
            ) from None
        moved[name] = None if plan is None else plan["moved"]
    return moved


def _print(rows: list[dict[str, Any]], drained: bool) -> None:
    state = "drained" if drained else "in use"
    print_table(
        "drained" if drained else "back in use",
        ("id", "kind", "", "cables>", "still used>", "flows moved>", "plan>"),
        (
            (
                row["id"],
                row["kind"],
                state if row["changed"] else f"{state} before",
                str(len(row["cables"])),
                str(len(row["still_used"])),
                "-" if row["moved"] is None else str(row["moved"]),
                str(row["epoch"]),
            )
            for row in rows
        ),
    )
    still_used = dict.fromkeys(cable for row in rows for cable in row["still_used"])
    if still_used:
        typer.echo(f"still in use, because nothing else joins two leaves: {', '.join(still_used)}")


def _path(name: str) -> tuple[str, str, str]:
    return "fabric", "links", name


def _thing(document: Any) -> dict[str, Any]:
    """Return the document after checking that it is a ``DrainDocument``."""
    thing = described(document, "id", "kind", "drained", "epoch", "cables", "still_used")
    if not isinstance(thing["cables"], list) or not isinstance(thing["still_used"], list):
        raise not_understood(thing)
    return thing
