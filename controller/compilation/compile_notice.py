"""A line in the log when kernels are compiled: the program is silent meanwhile, for seconds or a minute.

Numba tells listeners of compilations, but not of code that it loads from its cache on disk. So the line appears at the
first use after an installation or an upgrade, whichever command, worker process or program that is. A command without
logging of its own shows it on standard error.
"""

from __future__ import annotations

import logging

from numba.core import event

TEXT = "compiling numerical kernels: once for this installation, a minute or more ('fairspine warm-up' does it before)"


class CompileNotice(event.Listener):
    """Logs a line at the first compilation of a kernel in this process."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        """Begin without a compilation of a module of these packages."""
        self._packages = tuple(f"{package}." for package in packages)
        self._announced = False

    def on_start(self, happened: event.Event) -> None:
        """Log the line if this is the first compilation of a kernel."""
        function = happened.data["dispatcher"].py_func
        if not self._announced and function.__module__.startswith(self._packages):
            self._announced = True
            logging.getLogger("fairspine").warning(TEXT)

    def on_end(self, happened: event.Event) -> None:
        """Do nothing: Numba requires the method."""


def announce_compilation(packages: tuple[str, ...]) -> None:
    """Begin to listen, for the life of the process; ``packages`` are those that have kernels."""
    event.register("numba:compile", CompileNotice(packages))  # type: ignore[no-untyped-call]
