"""Detection of problems in logs: tracebacks and OpenFlow errors, on either side of the connection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

SUSPICIOUS = (
    r"Traceback \(most recent call last\)",
    r"Exception ignored in",
    r"OFPT_ERROR",
    r"EventOFPErrorMsg",
    r"OFPErrorMsg",
    r"\berror_msg\b",
    r"\berror reply to OFPT_",
    r"\|(ERR|EMER)\|",
    r"\b(ERROR|CRITICAL)\b",
    r"Segmentation fault|assertion .* failed",
)

HARMLESS: tuple[tuple[str, str], ...] = (
    (
        r"\|dpif_netdev\|ERR\|error receiving data from \S+: Network is down$",
        "an interface was set down, which is how a switch sees a failing cable",
    ),
)
"""Exact patterns of harmless lines that look like errors, each with its reason."""

DROPPED = re.compile(r"\|(?P<module>\w+)\|ERR\|Dropped \d+ log messages in last .* due to excessive rate$")
"""Open vSwitch's note that its rate limit suppressed lines; it precedes the next line of the same kind."""

NEAR = 3
"""Lines after such a note in which that line is looked for, since other threads may log in between."""


def problems(path: str | Path, *, harmless: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the lines of a log that report problems, as ``FILE:LINE: text``; empty if the log does not exist.

    ``harmless`` has additional (pattern, reason) pairs, for a test that provokes a certain error.
    """
    path = Path(path)
    if not path.exists():
        return []
    bad = re.compile("|".join(SUSPICIOUS))
    known: Sequence[re.Pattern[str]] = [re.compile(pattern) for pattern, _ in (*HARMLESS, *harmless)]
    lines = [line.rstrip() for line in path.read_text(errors="replace").split("\n")]

    def is_harmless(number: int) -> bool:
        dropped = DROPPED.search(lines[number])
        if dropped is None:
            return any(pattern.search(lines[number]) for pattern in known)
        # The suppressed lines were of the kind that follows, so they are as harmless as that.
        mark = f"|{dropped['module']}|ERR|"
        following = (n for n in range(number + 1, min(number + 1 + NEAR, len(lines))) if mark in lines[n])
        return any(is_harmless(n) for n in following)

    return [
        f"{path}:{number + 1}: {line}"
        for number, line in enumerate(lines)
        if bad.search(line) and not is_harmless(number)
    ]
