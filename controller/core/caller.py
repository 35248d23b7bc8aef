"""The senders of requests, and their rights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Role(StrEnum):
    """The rights of a caller; ``write`` includes all others. ``host``: those of the agent of a host."""

    READ = "read"
    WRITE = "write"
    HOST = "host"


def _stays() -> bool:
    return False


@dataclass(frozen=True)
class Quota:
    """What a caller may have and do; ``None``: no limit of its own.

    Attributes:
        jobs: stored jobs whose present document it pushed.
        changes: requests for changes within a minute.
    """

    jobs: int | None = None
    changes: int | None = None


NO_QUOTA = Quota()


@dataclass(frozen=True)
class Caller:
    """The sender of a request.

    Attributes:
        name: a token's, or that of a user of this machine; goes into the record of each change that it makes (``by``).
        reason: why it wants the change, in its own words; goes into the same records. Empty: it gave none.
        request_id: identifies the request in the answer, the log and the events. Empty: it was made by no request.
        hosts: the hosts of whose agents it is; only with the role ``host``.
        certified: it has a certificate, and no token that could be passed on for it.
        quota: what it may have and do.
        tenant: whose jobs alone it may change, and nothing else; ``None``: it belongs to no tenant.
        gone: tells whether it has closed its connection, so that nobody waits for the answer.
    """

    name: str
    role: Role
    reason: str = ""
    request_id: str = ""
    hosts: tuple[str, ...] = ()
    certified: bool = False
    quota: Quota = NO_QUOTA
    tenant: str | None = None
    gone: Callable[[], bool] = field(default=_stays, compare=False, repr=False)

    @property
    def may_write(self) -> bool:
        """True if the caller may change something."""
        return self.role is Role.WRITE


ANONYMOUS = Caller("anonymous", Role.WRITE)
"""The caller when no tokens are needed, and nothing is known of it. No token can have this name."""
