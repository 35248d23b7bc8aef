"""Where libfairspine-verbs is: a substitute of ``libibverbs.so.1`` (docs/how-to/verbs.md)."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
"""For ``LD_LIBRARY_PATH`` of programs."""
