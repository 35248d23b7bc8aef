"""``--watch``: the output of a command, made anew at intervals."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Annotated

import typer

from controller.cli.connection.client import NoAnswer
from controller.cli.shared.command_error import CommandError
from controller.model.errors import one_line


class _Page(io.StringIO):
    """Collects what a command prints for the terminal."""

    def isatty(self) -> bool:
        return True


@dataclass(frozen=True)
class Watch:
    """Options with which a command prints again and again."""

    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="SECONDS", min=0.2, max=3600, help="Seconds between two refreshes."),
    ] = 2.0

    def show(self, once: Callable[[], None]) -> None:
        """Call ``once``, which prints; with ``--watch`` at intervals, until Ctrl-C.

        On a terminal each output replaces the one before; else they follow each other. While the controller is not
        reachable, the last output stays, with a note. Failures are shown and do not end the watch.

        Raises:
            CommandError: without ``--watch``, that of ``once``; else, the controller was not reachable at first.
        """
        if not self.watch:
            once()
            return
        page, failure = _printed(once)
        if isinstance(failure, NoAnswer):
            raise failure
        try:
            if sys.stdout.isatty():
                self._on_screen(once, page, failure)
            else:
                self._in_sequence(once, page, failure)
        except KeyboardInterrupt:
            # The user ends the command with Ctrl-C.
            return

    def _on_screen(self, once: Callable[[], None], page: str, failure: CommandError | None) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.text import Text

        with Live(console=Console(highlight=False), screen=True, auto_refresh=False) as live:
            while True:
                lines = [Text(_said(failure), style="bold red")] if failure else []
                live.update(Group(*lines, Text.from_ansi(page)), refresh=True)
                time.sleep(self.interval)
                text, failure = _printed(once)
                # What was known stays on the screen while the controller does not answer.
                page = text or page

    def _in_sequence(self, once: Callable[[], None], page: str, failure: CommandError | None) -> None:
        while True:
            sys.stdout.write(page)
            sys.stdout.flush()
            if failure is not None:
                typer.echo(f"fairspine: {_said(failure)}", err=True)
            time.sleep(self.interval)
            page, failure = _printed(once)


def _said(failure: CommandError) -> str:
    again = "out of date; trying again: " if isinstance(failure, NoAnswer) else ""
    return one_line(f"{again}{failure}")


def _printed(once: Callable[[], None]) -> tuple[str, CommandError | None]:
    """Return what a command printed, and its failure."""
    page = _Page() if sys.stdout.isatty() else io.StringIO()
    failure = None
    with redirect_stdout(page):
        try:
            once()
        except CommandError as error:
            failure = error
    return page.getvalue(), failure
