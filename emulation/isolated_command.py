"""What commands that run in private namespaces have in common: checks before, files and an exit status after."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from controller.model.errors import InputError
from controller.whole_file import write_bytes
from emulation import isolate, needs
from emulation.errors import LabError
from emulation.interrupts import ending_by_exception

INTERRUPTED = 130

Output = Literal["table", "json", "none"]
"""Content of standard output besides the files: a table for people, the document, or nothing."""


class IsolatedRequest(Protocol):
    """What is to be run, and where its files go."""

    @property
    def out(self) -> Path:
        """Return the folder of the files."""

    @property
    def name(self) -> str:
        """Return the first part of the names of the files."""

    def to_json(self) -> str:
        """Return what the command inside reads."""


@dataclass(frozen=True)
class IsolatedCommand:
    """A command and its part in private namespaces.

    Attributes:
        program: the command, as people type it.
        module: run inside as ``python -m MODULE REQUEST table|json|none``.
    """

    program: str
    module: str

    def run_isolated(self, request: IsolatedRequest, output: Output, check: Callable[[], object]) -> int:
        """Run the part inside; return 0, or 1 if it failed, 130 if it was interrupted.

        Args:
            request: what is to be run.
            output: content of standard output.
            check: reads the files of the request: errors in them are reported first, and without root.

        Raises:
            InputError: the request is invalid; nothing was created.
        """
        try:
            check()
            lacking = needs.missing()
            if lacking:
                raise LabError(lacking)
            with _folder_of_our_own(request.out, request.name):
                return isolate.run([sys.executable, "-m", self.module, request.to_json(), output])
        except LabError as error:
            return self.complain(str(error))

    def inside(self, run: Callable[[], int], failures: tuple[type[Exception], ...] = (LabError, InputError)) -> int:
        """Return the exit status of the part inside: that of ``run``, 1 after a failure, 130 after an interrupt."""
        try:
            with ending_by_exception():
                return run()
        except failures as error:
            return self.complain(str(error))
        except KeyboardInterrupt:
            self.complain("interrupted; everything has been cleaned up")
            return INTERRUPTED

    def complain(self, text: str) -> int:
        """Print one line on standard error; return the exit status of a failure."""
        print(f"{self.program}: {text}", file=sys.stderr, flush=True)
        return 1

    def report(
        self,
        request: IsolatedRequest,
        values: Mapping[str, Any],
        output: str,
        show: Callable[[], None],
        say: Callable[[str], None],
        failures: Sequence[str],
        *,
        draw: Callable[[Path], None] | None = None,
        notes: Sequence[str] = (),
    ) -> int:
        """Write the files of a result and tell what came of it; return the exit status.

        Args:
            request: has the folder and the name of the files.
            values: the document.
            output: content of standard output (``Output``).
            show: prints the table.
            say: tells of the progress.
            failures: what is not as it should be.
            draw: writes a picture to this file; ``None``: there is none.
            notes: what else is to be told.
        """
        numbers, drawing = request.out / f"{request.name}.json", request.out / f"{request.name}.png"
        if draw is not None:
            draw(drawing)
        # The numbers last: who finds them finds the picture, too.
        write_bytes(numbers, [f"{json.dumps(values, indent=1)}\n".encode()])
        if output == "json":
            print(json.dumps(values))
        elif output == "table":
            show()
        say(f"wrote {numbers}" if draw is None else f"wrote {drawing} and {numbers}")
        for note in notes:
            say(f"note: {note}")
        for failure in failures:
            self.complain(failure)
        return 1 if failures else 0


def timed_lines() -> Callable[[str], None]:
    """Return what prints lines on standard error, each with the seconds since now."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.1f} s  {text}", file=sys.stderr, flush=True)

    return say


@contextmanager
def _folder_of_our_own(out: Path, name: str) -> Iterator[None]:
    """Make the folder of an experiment, and keep a second one from writing into the same logs meanwhile.

    Raises:
        InputError: it cannot be made.
        LabError: another experiment is running there.
    """
    path = out / name
    try:
        path.mkdir(parents=True, exist_ok=True)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(error.strerror or str(error), field="--out", value=str(path)) from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LabError(f"another experiment is running in {path}; choose another --out or --name") from None
    finally:
        os.close(folder)
