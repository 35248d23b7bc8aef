"""``fairspine drain`` and ``fairspine undrain``: cables, switches, pods and planes out of use, and back."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described, not_understood
from controller.cli.connection.remote import Remote
from controller.cli.live.history import kept_plan
from controller.cli.live.mode import ModeName, current, meaning
from controller.cli.shared.command_error import CommandError
from controller.cli.shared.output import Printer

IdsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help="Cables (leaf1-spine2; leaf1-spine2:1, the second of parallel ones), switches, pods (pod1), or planes "
        "(plane2).",
        show_default=False,
        autocompletion=completion.switches_and_cables,
    ),
]


def drain(
    ids: IdsArgument,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Drain cables, switches, pods or planes: move all traffic to other paths before maintenance.

    A drain never disconnects hosts: cables that are the only path between two leaves stay in use and are listed. If an
    id is wrong, nothing is drained.
    """
    _set(remote.client(), ids, True, output)


def undrain(
    ids: IdsArgument,
    *,
    remote: Remote,
    output: Printer,
) -> None:
    """Use drained cables, switches, pods or planes again."""
    _set(remote.client(), ids, False, output)


def _set(client: Client, ids: list[str], drained: bool, output: Printer) -> None:
    names = list(dict.fromkeys(ids))
    # All are requested first, so that an unknown ID is reported before anything has changed.
    to_do = [name for name in names if _thing(client.request("GET", *_path(name)).document)["drained"] != drained]
    moved = _change(client, to_do, drained)
    rows = [
        {**_thing(client.request("GET", *_path(name)).document), "changed": name in moved, "moved": moved.get(name, 0)}
        for name in names
    ]
    if not output.is_table:
        output.document({"links": rows})
    else:
        _print(output, rows, drained)
        mode = current(client)
        if mode["mode"] != ModeName.PLANNED:
            output.line(f"mode {mode['mode']}: {meaning(mode)}")


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
            raise CommandError(f"{failure} (already done: {', '.join(moved)})", exit_code=failure.exit_code) from None
        moved[name] = None if plan is None else plan["moved"]
    return moved


def _print(output: Printer, rows: list[dict[str, Any]], drained: bool) -> None:
    state = "drained" if drained else "in use"
    output.table(
        "drained" if drained else "back in use",
        ("id", "kind", "", "cables>", *(("still used>",) * drained), "flows moved>", "plan>"),
        (
            (
                row["id"],
                row["kind"],
                state if row["changed"] else f"{state} before",
                str(len(row["cables"])),
                *((str(len(row["still_used"])),) * drained),
                "-" if row["moved"] is None else str(row["moved"]),
                str(row["epoch"]),
            )
            for row in rows
        ),
        give_up=("plan>", "kind"),
    )
    still_used = dict.fromkeys(cable for row in rows for cable in row["still_used"])
    if drained and still_used:
        output.line(f"still in use because no other path connects two leaves: {', '.join(still_used)}")


def _path(name: str) -> tuple[str, str, str]:
    return "fabric", "links", name


def _thing(document: Any) -> dict[str, Any]:
    """Return the document after checking that it is a ``DrainDocument``."""
    thing = described(document, "id", "kind", "drained", "epoch", "cables", "still_used")
    if not isinstance(thing["cables"], list) or not isinstance(thing["still_used"], list):
        raise not_understood(thing)
    return thing
