"""Clocks of single processes that can be set, as those of machines are: the time of day, and no other clock."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from emulation.errors import LabError

SOURCE = Path(__file__).with_name("shifted_clock.c")
_FORMAT = "l"


def shift_library(folder: Path) -> Path:
    """Compile the library that shifts clocks into a folder, and return its path.

    Raises:
        LabError: there is no C compiler.
    """
    made = folder / "shifted_clock.so"
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LabError("a C compiler is needed: apt-get install gcc libc6-dev") from None
    if done.returncode:
        raise LabError(f"{SOURCE.name} cannot be compiled: {done.stderr.strip()}")
    return made


class ShiftedClock:
    """The time of day of the processes that are started with ``environment``.

    Args:
        library: by ``shift_library``.
        file: made here; every user can read it.
    """

    def __init__(self, library: Path, file: Path) -> None:
        """Start with the machine's time of day."""
        self._library, self._file = library, file
        file.write_bytes(struct.pack(_FORMAT, 0))
        file.chmod(0o644)

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables for new processes."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_SHIFT_FILE": str(self._file)}

    def set(self, seconds: int) -> None:
        """Set it to this number of seconds after the machine's (negative: before)."""
        with self._file.open("r+b") as file:
            file.write(struct.pack(_FORMAT, seconds))


class ShiftedClocks:
    """The clocks of a campaign, in a temporary folder that every user can read."""

    def __init__(self) -> None:
        """Compile the library.

        Raises:
            LabError: there is no C compiler.
        """
        self._folder = TemporaryDirectory(prefix="fsclocks")
        folder = Path(self._folder.name)
        folder.chmod(0o755)
        self._library = shift_library(folder)

    def __enter__(self) -> ShiftedClocks:
        """Use them."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the folder."""
        self._folder.cleanup()

    def add(self, name: str) -> ShiftedClock:
        """Make a clock that shows the machine's time of day."""
        return ShiftedClock(self._library, Path(self._folder.name) / name)
