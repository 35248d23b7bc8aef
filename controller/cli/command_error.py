"""The exception with which a command reports that it cannot do its work."""

from __future__ import annotations


class CommandError(Exception):
    """One line for standard error, and the exit code: 1 where the input was fine, 2 where it was not."""

    def __init__(self, reason: str, *, exit_code: int = 1) -> None:
        """Store the reason, one line of text, and the exit code."""
        super().__init__(reason)
        self.exit_code = exit_code
