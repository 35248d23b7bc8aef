"""Completion of names by the shell: jobs, switches, cables and hosts of the controller, policies, enforcements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import typer

from controller.cli.connection.remote import Remote
from controller.cli.shared.command_error import CommandError
from controller.model.errors import InputError

LONGEST_SECONDS = 1.0
"""Limit on the wait for a controller: a person waits with the cursor in the line."""

Complete = Callable[[typer.Context, str], list[str]]


def policies() -> list[str]:
    """Return the names of the policies."""
    from controller.routing import POLICIES

    return list(POLICIES)


def enforcements() -> list[str]:
    """Return the names of the enforcements of this machine; a controller on another one may have other plug-ins."""
    from controller.southbound.enforcement.registry import ENFORCEMENTS

    return list(ENFORCEMENTS)


def _asking(names: Callable[[Any], Iterable[str]], *path: str) -> Complete:
    """Return a function that completes names of a document of the controller; nothing if it does not answer."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from controller.cli.shared.option_groups import chosen

        try:
            document = chosen(ctx, Remote).client(timeout=LONGEST_SECONDS).request("GET", *path).document
            return [name for name in names(document) if name.startswith(incomplete)]
        except (CommandError, InputError, KeyError, TypeError, AttributeError):
            # Nothing may be written while a line is edited, and no completion is the answer to every problem.
            return []

    return complete


def _switches(fabric: Any) -> list[str]:
    return [row["name"] for row in fabric["switches"]]


def _cables(fabric: Any) -> list[str]:
    return [row["id"] for row in fabric["links"]]


def _groups(fabric: Any) -> list[str]:
    """Return the names of pods and planes."""
    rows = fabric["switches"]
    pods = [row["pod"] for row in rows if row.get("pod")]
    return list(dict.fromkeys([*pods, *(f"plane{row['plane']}" for row in rows if row.get("plane"))]))


def _hosts(fabric: Any) -> list[str]:
    nics = [row["nic"] for row in fabric["hosts"] if row.get("nic")]
    return list(dict.fromkeys([*nics, *(row["name"] for row in fabric["hosts"])]))


jobs = _asking(lambda document: [row["name"] for row in document["jobs"]], "jobs")
switches_and_cables = _asking(lambda fabric: [*_switches(fabric), *_groups(fabric), *_cables(fabric)], "fabric")
hosts = _asking(_hosts, "fabric")
links = _asking(lambda fabric: [*_switches(fabric), *_groups(fabric), *_cables(fabric), *_hosts(fabric)], "fabric")
