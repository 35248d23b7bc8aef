"""What outlives the agent: the last plan, and the settings that it has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.errors import HostAgentError
from agent.plans.host_plan import HostPlan, read_plan
from controller.model.errors import InputError


class SavedFiles:
    """Files in a folder that lasts as long as the kernel runs."""

    def __init__(self, folder: Path) -> None:
        """Make the folder.

        Raises:
            HostAgentError: it cannot be made or written.
        """
        self._plan, self._settings = folder / "plan.json", folder / "settings.json"
        self._changes = folder / "plan.changes"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise HostAgentError(f"--state {folder}: {error.strerror}", exit_code=2) from None

    def plan(self, host: str) -> HostPlan | None:
        """Return the last plan of this host; ``None``: there is none that can be read."""
        try:
            plan = read_plan(read_saved(self._plan))
        except InputError:
            return None
        for document in read_lines(self._changes):
            # Changes of other plans than this one have been saved before it; or some before them were not.
            with suppress(InputError):
                if isinstance(document, dict) and document.get("changes_of") is not None:
                    plan = replace(read_plan(document, plan), changes=None)
        return plan if plan.host == host else None

    def save_plan(self, document: Any) -> None:
        """Save the document of a plan: of a whole one, or the changes of the last one.

        Raises:
            HostAgentError: it cannot be written.
        """
        if document.get("changes_of") is not None:
            append_line(self._changes, document)
            return
        write_saved(self._plan, document)
        self._changes.unlink(missing_ok=True)

    def settings(self) -> dict[str, str]:
        """Return the values before of settings that were changed."""
        document = read_saved(self._settings)
        return {str(name): str(value) for name, value in document.items()} if isinstance(document, dict) else {}

    def save_settings(self, before: dict[str, str]) -> None:
        """Save the values before."""
        write_saved(self._settings, before)

    def remove(self) -> None:
        """Remove the files."""
        for path in (self._plan, self._changes, self._settings):
            path.unlink(missing_ok=True)


def read_saved(path: Path) -> Any:
    """Return the JSON document of a file; ``None``: there is none that can be read."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def read_lines(path: Path) -> Iterator[Any]:
    """Yield the JSON documents in the lines of a file; other lines are passed over, and there may be no file."""
    with suppress(OSError):
        for line in path.read_bytes().split(b"\n"):
            with suppress(ValueError):
                yield json.loads(line)


def append_line(path: Path, document: Any) -> None:
    """Add a line with a JSON document to a file.

    Raises:
        HostAgentError: it cannot be written.
    """
    try:
        with path.open("a") as file:
            # The line before may have been written in part.
            file.write(f"\n{json.dumps(document)}\n")
    except OSError as error:
        raise HostAgentError(f"--state {path.parent}: {error.strerror}") from None


def write_saved(path: Path, document: Any) -> None:
    """Write a JSON document, whole or not at all.

    Raises:
        HostAgentError: it cannot be written.
    """
    new = path.with_suffix(".new")
    try:
        new.write_text(json.dumps(document))
        os.replace(new, path)
    except OSError as error:
        raise HostAgentError(f"--state {path.parent}: {error.strerror}") from None
