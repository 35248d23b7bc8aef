"""The id of the last change, which the store keeps in the transaction of the change.

A single controller draws an id. The id of a change of a cluster begins with its number, ``TERM-NUMBER-``, so that
replicas can compare what they know.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import uuid4

import sqlalchemy as sa

from controller.core.change_number import ChangeNumber
from controller.store.schema import SETTINGS

LAST_CHANGE = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "last_change")
"""The id of the last change."""


def set_last_change(connection: sa.Connection, change: str) -> None:
    """Write the id of the last change."""
    connection.execute(sa.update(SETTINGS).where(SETTINGS.c.name == "last_change").values(value=change))


def id_after(last: str, term: int | None) -> str:
    """Return an id for the change that follows ``last``; ``term``: of the leader (``None``: a single controller)."""
    if term is None:
        return uuid4().hex
    known = number_of(last)
    return f"{ChangeNumber(term, 1 if known is None else known.number + 1)}-{uuid4().hex}"


def number_of(change: str) -> ChangeNumber | None:
    """Return the number of a change by its id; ``None``: it has none."""
    number, _, _ = change.rpartition("-")
    with suppress(ValueError):
        return ChangeNumber.parse(number)
    return None
