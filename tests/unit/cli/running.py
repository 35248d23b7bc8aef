"""Commands on the examples, and what running one returns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

EXAMPLES = Path(__file__).parents[3] / "examples"
FABRIC = ["--fabric", str(EXAMPLES / "clos-4x4x4.yaml")]


class Outcome(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    code: object
    out: str
    err: str


Run = Callable[..., Outcome]
"""Runs a command with these arguments."""
