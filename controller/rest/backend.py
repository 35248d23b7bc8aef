"""What the HTTP interface needs from the controller behind it: the border to ``controller.service``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from controller.model.enforcement import Enforcement
from controller.model.errors import UnavailableError

Document = bytes | Mapping[str, Any]
"""An answer's JSON: encoded already (large ones come so from a worker), or values that orjson encodes, numpy included.

Its shape is the model of ``controller.rest.schemas`` that the resource declares.
"""

Mode = Literal["planned", "ecmp", "frozen"]
"""``planned``: the newest plan is on the switches. ``ecmp``: no plan is, all traffic is hashed. ``frozen``: the
switches keep what they hold until the mode is ``planned`` again."""

Under = Literal["plan", "ecmp"]
"""Whose paths loads are told for: the newest plan's, or those of the policy ``ecmp`` (seed 0) for the same traffic."""

EventKind = Literal["plan", "link", "job", "error", "mode", "reset"]


class Role(StrEnum):
    """What a caller may do; ``write`` includes ``read``."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Caller:
    """Who sent a request. ``name`` (a token's) goes into the record of whatever the request changes (``by``)."""

    name: str
    role: Role

    @property
    def may_write(self) -> bool:
        return self.role is Role.WRITE


ANONYMOUS = Caller("anonymous", Role.WRITE)
"""Whoever calls while no tokens are needed. No token can have this name."""


class PreconditionFailedError(Exception):
    """What the request was conditional on is not so. ``revision``: what the job has instead, ``None``: no such job."""

    def __init__(self, reason: str, *, revision: str | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.revision = revision


class ConflictError(Exception):
    """The request is fine, and the controller is in a state that excludes it: says which and what to do first."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StorageError(UnavailableError):
    """The change could not be kept, so it was not made: the disk is full or read-only, the database is away.

    ``reason`` is for people and holds no secret (never a database URL's password).
    """


@dataclass(frozen=True)
class Condition:
    """``If-Match`` and ``If-None-Match`` of a request (RFC 9110, section 13.1), in terms of revisions.

    Attributes:
        match: revisions of which the job must have one; empty: any, but the job must exist; ``None``: no condition.
        none_match: revisions of which the job must have none; empty: there must be no job; ``None``: no condition.
    """

    match: frozenset[str] | None = None
    none_match: frozenset[str] | None = None

    def check(self, revision: str | None) -> None:
        """Check against the present state; to be called where nothing can change it before the change is made.

        Args:
            revision: the job's; ``None``: there is no such job.

        Raises:
            PreconditionFailedError: it does not hold.
        """
        if self.match is not None and (revision is None or (self.match and revision not in self.match)):
            reason = "there is no such job" if revision is None else f"the job's ETag is {etag(revision)} now"
            raise PreconditionFailedError(f"If-Match: {reason}", revision=revision)
        if (
            self.none_match is not None
            and revision is not None
            and (not self.none_match or revision in self.none_match)
        ):
            raise PreconditionFailedError("If-None-Match: there is such a job already", revision=revision)


UNCONDITIONAL = Condition()


def etag(revision: str) -> str:
    """The entity tag of a revision (RFC 9110, section 8.8.3)."""
    return f'"{revision}"'


@dataclass(frozen=True)
class JobAnswer:
    """``revision``: changes with every change of what was pushed: 1 to 64 letters, digits, ``.``, ``_`` and ``-``.

    ``document``: the job with its part of the plan (``JobDocument``).
    """

    revision: str
    document: Document


@dataclass(frozen=True)
class Exposition:
    """Metrics as text of a type that the scraper takes."""

    body: bytes
    media_type: str


@dataclass(frozen=True)
class PutOutcome:
    """``created``: there was no job of that name before."""

    created: bool
    job: JobAnswer


@dataclass(frozen=True)
class Event:
    """Something that happened.

    Attributes:
        id: as in ``schemas.EventDocument``: grows within one run of the controller, never the same in another run.
        at: seconds since 1970.
        data: values that orjson encodes.
    """

    id: str
    at: float
    kind: EventKind
    data: Mapping[str, Any]


class Subscription(Protocol):
    """One reader's place in the events."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """The next events, in order; blocks the greenlet until there is one. Empty: none came within that time.

        A reader for whom some are lost (too slow, or resuming from an id that is not known any more) is told so by
        an event ``reset``, and goes on with the oldest that is there.
        """

    def close(self) -> None:
        """Give the place up; harmless when called twice."""


class Backend(Protocol):
    """The controller as the HTTP interface sees it.

    Every call comes from a greenlet of its own and may block that greenlet, never the event loop: what takes
    longer than a few milliseconds belongs on a worker. A call that is running when the server stops, or whose client
    has gone, may end by ``GreenletExit``.

    All may raise ``UnavailableError`` (answered 503 with Retry-After) where too little is known yet or too much is
    asked at once; all that change something may raise ``StorageError`` (503, too, of another type). Any exception that
    is not named here is answered 500, with its traceback in the log only.

    Whatever changes something is kept before the call returns, and says who wanted it.
    """

    # -- jobs ------------------------------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        """Parse and take a job, replacing any of that name; what fails changes nothing.

        Raises:
            InputError: with an empty ``field``, the body is no JSON document (400); else that field is wrong (422).
            PreconditionFailedError: by ``condition.check``.
        """

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        """Forget a job and its rules.

        Raises:
            NotFoundError: there is no such job.
            PreconditionFailedError: by ``condition.check``.
        """

    def job(self, name: str) -> JobAnswer:
        """One job with its part of the plan.

        Raises:
            NotFoundError: there is no such job.
        """

    def jobs(self) -> Document:
        """All jobs, without their flows (``JobList``)."""

    # -- the fabric ------------------------------------------------------------------------------------------

    def fabric(self) -> Document:
        """The fabric as it is now, and the cabling check (``FabricDocument``)."""

    def links(self, under: Under = "plan") -> Document:
        """Every directed link, its capacity, its load under the plan or under ECMP, and what its port counts
        (``LinkList``)."""

    def drainable(self, name: str) -> Document:
        """A cable, spine or leaf by its id, and whether it is drained (``DrainDocument``).

        Raises:
            NotFoundError: there is no such thing (kind ``link``).
        """

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        """Drain it or take it back into use (``DrainDocument``); nothing happens where that is so already.

        Raises:
            NotFoundError: there is no such thing (kind ``link``).
        """

    # -- plans -----------------------------------------------------------------------------------------------

    def plan(self, under: Under = "plan") -> Document:
        """The newest plan, which one is active, and since when (``PlanDocument``); or ECMP's in its place."""

    def plans(self, before: int | None, limit: int) -> Document:
        """At most ``limit`` kept plans, newest first, with epochs below ``before`` (``PlanHistory``)."""

    def plan_record(self, epoch: int) -> Document:
        """One kept plan with its paths (``PlanRecord``).

        Raises:
            NotFoundError: it is not kept, or there never was one (kind ``plan``).
        """

    def rollback(self, epoch: int, caller: Caller) -> Document:
        """Give the flows that there are now the paths of a kept plan, where those are live (``PlanSummary``, the new
        plan's).

        Raises:
            NotFoundError: it is not kept, or there never was one (kind ``plan``).
            ConflictError: the mode excludes it.
        """

    def preview(self, body: bytes) -> Document:
        """What a change would do (``PreviewDocument``); changes nothing.

        ``body`` may be large, so it is parsed (``controller.rest.forms.read_form`` with ``schemas.PreviewForm``) off
        the event loop.

        Raises:
            InputError: as ``put_job`` does.
            NotFoundError: a job to delete or a thing to drain that is not there.
        """

    def routes(self, host: str) -> Document:
        """What the agent on a host needs to know of the flows that the host sends (``Routes``).

        Raises:
            NotFoundError: the fabric has no such host.
        """

    def trace(self, job: str | None, compare: str | None) -> Document:
        """Where every flow (or every flow of one job) really goes (``TraceDocument``).

        Args:
            compare: ``ecmp``, to be told what that would do with the same flows.

        Raises:
            NotFoundError: there is no such job.
        """

    # -- the controller --------------------------------------------------------------------------------------

    def mode(self) -> Document:
        """How plans are enforced, since when, and who said so (``ModeDocument``)."""

    def set_mode(self, mode: Mode | None, enforcement: Enforcement | None, caller: Caller) -> Document:
        """Enforce plans otherwise (``ModeDocument``); nothing happens where that is so already.

        Args:
            mode, enforcement: ``None``: as it is.

        Raises:
            ConflictError: what is there now (a job, the fabric) cannot be enforced so.
        """

    def subscribe(self, after: str | None) -> Subscription:
        """A place in the events.

        Args:
            after: id of the last event that the reader has seen, any text; ``None``: it wants what comes from now on.
        """

    def health(self) -> Document:
        """Whether the controller does its work (``Health``). Answers at once, whatever else goes on."""

    def metrics(self, accept: str) -> Exposition:
        """What Prometheus scrapes.

        Args:
            accept: the types that it takes, as in the Accept header; empty: any.
        """
