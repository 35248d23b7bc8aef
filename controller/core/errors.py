"""Errors of a change: the condition does not hold, the state excludes it, or it cannot be saved."""

from __future__ import annotations

from controller.model.errors import UnavailableError


class PreconditionFailedError(Exception):
    """A condition of the request does not hold. ``revision``: the job's present one; ``None``: there is no such job."""

    def __init__(self, reason: str, *, revision: str | None) -> None:
        """Keep the reason, for people, and the job's present revision."""
        super().__init__(reason)
        self.reason = reason
        self.revision = revision


class ConflictError(Exception):
    """The controller is in a state that excludes a valid request; the reason names the state and what to do first."""

    def __init__(self, reason: str) -> None:
        """Keep the reason, for people."""
        super().__init__(reason)
        self.reason = reason


class NotAllowedError(Exception):
    """The caller may change things, and not this one."""

    def __init__(self, reason: str) -> None:
        """Keep the reason, for people."""
        super().__init__(reason)
        self.reason = reason


class TakenOverError(UnavailableError):
    """The store is in use by another controller, which decides now what switches hold."""


class StorageError(UnavailableError):
    """The change could not be saved and was not made: the disk is full or read-only, the database is unreachable.

    ``reason`` is for people and holds no secret (never a database URL's password).
    """
