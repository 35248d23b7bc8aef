"""Rows of the table of rules in the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).parents[4] / "docs" / "explanation" / "enforcement.md"


def rows(first: str) -> Iterator[list[str]]:
    """The cells of each line of the table whose head begins so."""
    lines = DOCS.read_text().splitlines()
    for line in lines[lines.index(next(line for line in lines if line.startswith(first))) + 2 :]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]
