"""The exception with which a command reports that it cannot do its work."""

from __future__ import annotations

UNKNOWN = 3
"""Exit code of a command that found no fault, and could not see everything."""

NO_PATH = 4
"""Exit code of a trace in which some flow has no path."""

PARTLY = 5
"""Exit code of a drain that leaves some cables in use."""

NOT_POSSIBLE = 6
"""Exit code of a drain that leaves all cables in use."""

CHANGED_MEANWHILE = 7
"""Exit code of a change whose condition does not hold: the job was changed by someone else, or exists already."""


class CommandError(Exception):
    """One line for standard error, and the exit code: 1 if the input was fine, 2 if not, or one of those above."""

    def __init__(self, reason: str, *, exit_code: int = 1) -> None:
        """Store the reason, one line of text, and the exit code."""
        super().__init__(reason)
        self.exit_code = exit_code
