"""The exception with which a command reports that it cannot do its work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

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


def naming_file(failure: CommandError, files: Sequence[Path]) -> CommandError:
    """Return the failure of a preview of jobs with the name of the file that it refers to, if any.

    Args:
        failure: the controller's answer, which has ``put[0]`` for the first job.
        files: the file of each job.
    """
    place = re.search(r"\bput\[(\d+)\]", str(failure))
    if failure.exit_code != 2 or place is None or int(place[1]) >= len(files):
        return failure
    return CommandError(f"{files[int(place[1])]}: {failure}", exit_code=2)
