"""What in a log means that something went wrong: tracebacks and OpenFlow errors, on either side of the connection."""

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
        "somebody set the interface down: what a failing cable looks like from inside a switch",
    ),
)
"""Exact patterns of lines that look bad and are not, each with its reason."""


def problems(path: str | Path, *, harmless: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The lines of a log that mean trouble, as ``FILE:LINE: text``; empty for a log that is clean or not there.

    ``harmless``: more (pattern, reason) pairs, for a test that provokes a certain error.
    """
    path = Path(path)
    if not path.exists():
        return []
    bad = re.compile("|".join(SUSPICIOUS))
    known: Sequence[re.Pattern[str]] = [re.compile(pattern) for pattern, _ in (*HARMLESS, *harmless)]
    with path.open(errors="replace") as lines:
        return [
            f"{path}:{number}: {line.rstrip()}"
            for number, line in enumerate(lines, start=1)
            if bad.search(line) and not any(pattern.search(line) for pattern in known)
        ]
