"""Errors between the controller and its store."""

from __future__ import annotations

from controller.core.errors import TakenOverError
from controller.model.errors import UnavailableError


class StoreError(UnavailableError):
    """The store cannot be opened, read or written now; ``reason`` is one line for people and holds no secret.

    A change whose commit raised this is not kept, with one exception that no database can rule out: where a server
    went away while it was acknowledging, the change may be found again after a restart (docs/reference/store.md).
    """


class StoreTakenError(StoreError, TakenOverError):
    """The store is in use by another controller."""


class OvertakenError(StoreError):
    """The database holds changes that this controller does not know of, or not all that it made."""
