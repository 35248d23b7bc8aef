"""Labs and controllers of one test, which end with it and whose logs are read."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from controller.model.fabric import Fabric
from emulation import logs
from emulation.lab import Lab
from tests.rig.controller import Controller


class Bench:
    """Makes labs and controllers for one test, takes them down, and reads all logs."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.harmless: list[tuple[str, str]] = []
        """(pattern, reason) of errors that the test provokes."""
        self._undo = ExitStack()
        self._numbers = itertools.count()

    def lab(self, fabric: Fabric, **options: Any) -> Lab:
        """Start a lab; the options are ``Lab``'s."""
        options.setdefault("out", self.out)
        return self._undo.enter_context(Lab(fabric, **options))

    def controller(self, *argv: str, http_port: int = 8080, wait: bool = True, name: str = "") -> Controller:
        """A running ``ryu-manager ARGV``, with a store of its own that lasts as long as the test.

        ``name``: of the folder of its log, where there are several.
        """
        if "--store" not in argv:
            self.out.mkdir(parents=True, exist_ok=True)
            argv = ("--store", f"sqlite:///{self.out.resolve()}/store-{next(self._numbers)}.db", *argv)
        made = Controller(argv, self.out / name, http_port=http_port)
        self._undo.callback(made.close)
        return made.start(wait=wait)

    def problems(self) -> list[str]:
        """Tracebacks and OpenFlow errors in every log so far."""
        found = []
        for log in sorted(self.out.glob("**/*.log")):
            found += logs.problems(log, harmless=self.harmless)
        return found

    def close(self) -> None:
        self._undo.close()
