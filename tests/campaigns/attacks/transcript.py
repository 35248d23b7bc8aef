"""Transcript of an attack in a file: one line per send, with its time, its connection and its bytes in hex."""

from __future__ import annotations

import time
from pathlib import Path
from types import TracebackType

MOST_BYTES = 2_000_000
"""Largest number of an attack's bytes to write to the file; further bytes are only counted."""


class Transcript:
    """``+SECONDS CONNECTION HEX``; ``*N`` behind a line: the same again, so many times. A last line counts it all."""

    def __init__(self, path: Path) -> None:
        """Create the file and its folder, and start the clock."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w")
        self._start = time.monotonic()
        self._last: tuple[int, bytes] = (-1, b"")
        self._again = 0
        self.sends = self.bytes = 0

    def sent(self, connection: int, data: bytes) -> None:
        """Note bytes that went out on a connection (its number within the attack)."""
        self.sends += 1
        if self._last == (connection, data):
            self._again += 1
        elif self.bytes < MOST_BYTES:
            self._end_line()
            self._file.write(f"+{time.monotonic() - self._start:.4f} {connection} {data.hex()}")
            self._last = connection, data
        self.bytes += len(data)

    def _end_line(self) -> None:
        if self._last[0] >= 0:
            self._file.write(f" *{self._again + 1}\n" if self._again else "\n")
        self._again = 0

    def __enter__(self) -> Transcript:
        """Return the transcript."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write the totals and close the file."""
        self._end_line()
        self._file.write(f"total {self.sends} sends, {self.bytes} bytes\n")
        self._file.close()
