"""How many examples a law is tried on: a few in ``make test``, many in ``make laws``."""

from __future__ import annotations

import os

LONG = os.environ.get("FAIRSPINE_LAWS") == "long"


def examples(few: int, many: int) -> int:
    """Return ``many`` if FAIRSPINE_LAWS is ``long`` in the environment, else ``few``; each run draws other ones."""
    return many if LONG else few
