"""The senders of requests, and their rights."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The rights of a caller; ``write`` includes ``read``."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Caller:
    """The sender of a request. ``name`` (a token's) goes into the record of each change that it makes (``by``)."""

    name: str
    role: Role

    @property
    def may_write(self) -> bool:
        """True if the caller may change something."""
        return self.role is Role.WRITE


ANONYMOUS = Caller("anonymous", Role.WRITE)
"""The caller when no tokens are needed. No token can have this name."""
