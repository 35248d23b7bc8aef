"""Commands and examples in the documents, for the tests that run them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]


def pages() -> list[Path]:
    """Return every page that users read: at the top level, in docs/ and beside the examples."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/README.md")]
    return sorted(found)


def fences_of(page: Path) -> list[tuple[str, str]]:
    """Return (language, text) of each fenced block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands_of(page: Path) -> list[str]:
    """Return the commands of a page: lines of its bash blocks, with continued lines joined."""
    blocks = [block.replace("\\\n", " ") for language, block in fences_of(page) if language == "bash"]
    lines = [line.split(" # ")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def outputs_of(page: Path) -> list[tuple[str, str]]:
    """Return (command, output) for each text block of a page: it shows the last command of the bash block before it."""
    found, fences = [], fences_of(page)
    for before, (language, block) in pairwise(fences):
        if language == "text" and before[0] == "bash":
            found.append((before[1].strip().splitlines()[-1], block))
    return found
