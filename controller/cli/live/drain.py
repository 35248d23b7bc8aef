"""``fairspine drain`` and ``fairspine undrain``: cables, switches, pods and planes out of use, and back."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from controller.cli.connection import completion
from controller.cli.connection.client import Client, described, described_rows
from controller.cli.connection.remote import Remote
from controller.cli.live.mode import ModeName, current, meaning
from controller.cli.shared.change_options import ChangeOptions
from controller.cli.shared.command_error import NOT_POSSIBLE, PARTLY, CommandError
from controller.cli.shared.output import Printer, number, plural

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
WaitOption = Annotated[bool, typer.Option("--wait", help="Wait until the switches have confirmed the new paths.")]
TimeoutOption = Annotated[
    float, typer.Option("--wait-timeout", metavar="SECONDS", min=0, help="Maximum time to wait, with --wait.")
]

_POLL_SECONDS = 0.1
_DRAIN = ("id", "kind", "outcome", "cables", "still_used")


def drain(
    ids: IdsArgument,
    wait: WaitOption = False,
    wait_timeout: TimeoutOption = 30.0,
    check: Annotated[bool, typer.Option("--check", help="Change nothing: show how the drain would end.")] = False,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Drain cables, switches, pods or planes: move all traffic to other paths before maintenance.

    A drain never disconnects hosts: cables that are the only path between two leaves stay in use and are listed.
    Several ids are one change, with one new plan. If an id is wrong, nothing is drained.
    """
    client = remote.client(change)
    if check:
        if wait:
            raise CommandError("--wait cannot be used with --check, which changes nothing", exit_code=2)
        _print_check(_previewed(client, list(dict.fromkeys(ids))), output)
        return
    answer = _set(client, ids, True, output, wait_timeout if wait else None)
    _fail_unless_drained(answer["links"])


def undrain(
    ids: IdsArgument,
    wait: WaitOption = False,
    wait_timeout: TimeoutOption = 30.0,
    *,
    remote: Remote,
    change: ChangeOptions,
    output: Printer,
) -> None:
    """Use drained cables, switches, pods or planes again. Several ids are one change, with one new plan."""
    _set(remote.client(change), ids, False, output, wait_timeout if wait else None)


def _set(client: Client, ids: list[str], drained: bool, output: Printer, wait: float | None) -> dict[str, Any]:
    body = json.dumps({"ids": list(dict.fromkeys(ids)), "drained": drained}).encode()
    answer = client.request("POST", "fabric", "links:drain", body=body).document
    described(answer, "epoch", "changed", "moved", "links")
    rows = described_rows(answer["links"], *_DRAIN)
    # The rows are shown before the wait, which may fail.
    mode = current(client)
    if not output.is_table:
        output.document(answer)
    else:
        _print(output, answer, rows, drained)
        if mode["mode"] != ModeName.PLANNED:
            output.line(f"mode {mode['mode']}: {meaning(mode)}")
    if wait is not None:
        _wait(client, int(answer["epoch"]), wait)
    return dict(answer)


def _wait(client: Client, epoch: int, timeout: float) -> None:
    """Wait until every connected switch has confirmed the rules for a plan.

    Raises:
        CommandError: the mode keeps the rules as they are, or they are not confirmed in time.
    """
    deadline = time.monotonic() + timeout
    while True:
        health = described(client.request("GET", "health").document, "mode", "active_epoch")
        if health["mode"] == ModeName.FROZEN:
            raise CommandError("the mode is frozen, so the switches keep their rules until it is planned again")
        if health["active_epoch"] is not None and health["active_epoch"] >= epoch:
            return
        if time.monotonic() >= deadline:
            raise CommandError(f"plan {epoch} is not active on every switch after {timeout:g} s")
        time.sleep(_POLL_SECONDS)


def _print(output: Printer, answer: dict[str, Any], rows: list[dict[str, Any]], drained: bool) -> None:
    head = f"plan {answer['epoch']}, {plural(answer['moved'], 'flow')} moved"
    output.table(
        f"{'drain' if drained else 'back in use'}: {head}",
        ("id", "kind", "outcome", "cables>", *(("still used>",) * drained)),
        (
            (
                row["id"],
                row["kind"],
                f"{row['outcome']}{'' if row['id'] in answer['changed'] else ' before'}",
                str(len(row["cables"])),
                *((str(len(row["still_used"])),) * drained),
            )
            for row in rows
        ),
        give_up=("kind",),
    )
    still_used = dict.fromkeys(cable for row in rows for cable in row["still_used"])
    if drained and still_used:
        output.line(f"still in use because no other path connects two leaves: {', '.join(still_used)}")


def _previewed(client: Client, ids: list[str]) -> dict[str, Any]:
    body = json.dumps({"drain": ids}).encode()
    answer = client.request("POST", "plans:preview", body=body).document
    answer = described(answer, "before", "after", "moved_count", "drains")
    described_rows(answer["drains"], "id", "outcome", "cables", "still_used")
    for side in ("before", "after"):
        described(answer[side], "slowest")
    return answer


def _print_check(answer: dict[str, Any], output: Printer) -> None:
    """Print how a drain would end.

    Raises:
        CommandError: some cable would stay in use.
    """
    rows = answer["drains"]
    if not output.is_table:
        output.document(answer)
    else:
        output.table(
            f"would move {plural(answer['moved_count'], 'flow')}; slowest job "
            f"{number(answer['before']['slowest'])} before, {number(answer['after']['slowest'])} after",
            ("id", "outcome", "cables>", "still used>"),
            ((row["id"], row["outcome"], str(len(row["cables"])), str(len(row["still_used"]))) for row in rows),
        )
    _fail_unless_drained(rows, checking=True)


def _fail_unless_drained(rows: list[dict[str, Any]], *, checking: bool = False) -> None:
    """Raise the error of a drain that leaves cables in use."""
    stay = "would stay" if checking else "stay"
    for outcome, which, code in (("not possible", "all", NOT_POSSIBLE), ("partly", "some", PARTLY)):
        names = ", ".join(row["id"] for row in rows if row["outcome"] == outcome)
        if names:
            raise CommandError(
                f"{outcome}: {which} cables of {names} {stay} in use, because no other path connects two leaves",
                exit_code=code,
            )
