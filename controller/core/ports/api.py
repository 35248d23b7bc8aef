"""The operations that an interface (``controller.rest``) may call; ``controller.service.service`` implements them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from controller.core.caller import Caller
from controller.core.change_number import ChangeNumber
from controller.core.errors import PreconditionFailedError
from controller.core.events import Event
from controller.core.ports.host_agents import AgentHas, HostAnswers, HostReport, HostRequest
from controller.core.requests.preview_request import ReadPreview
from controller.core.requests.sighting_request import ReadSightings
from controller.core.requests.survival_request import ReadSurvival
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import Learning

Document = bytes | Mapping[str, Any]
"""An answer's JSON: encoded already (large ones come so from a worker), or values that orjson encodes, numpy included.

Its shape is the model of ``controller.rest.schemas`` that the resource declares.
"""

Under = Literal["plan", "ecmp"]
"""The paths behind the loads: the newest plan's, or those of the policy ``ecmp`` (seed 0) for the same traffic."""


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
            raise PreconditionFailedError("If-None-Match: the job exists already", revision=revision)


UNCONDITIONAL = Condition()


def etag(revision: str) -> str:
    """Return the entity tag of a revision (RFC 9110, section 8.8.3)."""
    return f'"{revision}"'


@dataclass(frozen=True)
class JobAnswer:
    """A job and its revision.

    ``revision``: changes with every change of the pushed document; 1 to 64 letters, digits, ``.``, ``_`` and ``-``.
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
    """The result of a push. ``created``: there was no job of that name before."""

    created: bool
    job: JobAnswer


@dataclass(frozen=True)
class BodyReaders:
    """The functions by which an interface reads the bodies of requests; they run off the event loop."""

    preview: ReadPreview
    survival: ReadSurvival
    sightings: ReadSightings
    host_report: Callable[[bytes], HostReport]


class Subscription(Protocol):
    """One reader's position in the sequence of events."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """Return the next events, in order; block the greenlet until there is one. Empty: none came within that time.

        A reader that has missed some (too slow, or resuming from an id that is no longer known) gets an event
        ``reset``,
        and continues with the oldest available event.
        """

    def close(self) -> None:
        """Give the place up; harmless when called twice."""


class Backend(Protocol):
    """The operations of the controller that the HTTP interface uses.

    Every call comes from a greenlet of its own and may block that greenlet, never the event loop: what takes
    longer than a few milliseconds belongs on a worker. A call that is running when the server stops, or whose client
    has disconnected, may end by ``GreenletExit``.

    All may raise ``UnavailableError`` (answered 503 with Retry-After) where too little is known yet or too much is
    asked at once; all that change something may raise ``StorageError`` (503, too, of another type). Any exception that
    is not named here is answered 500, with its traceback in the log only.

    Every change is saved, with its requester, before the call returns.
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
        """Return one job with its part of the plan.

        Raises:
            NotFoundError: there is no such job.
        """

    def job_shift(self, name: str) -> Document:
        """Return when the job's iterations begin (``JobShiftDocument``).

        Raises:
            NotFoundError: there is no such job.
        """

    def job_history(self, name: str) -> Document:
        """Return the speed of a job in the last 24 hours (``HistoryDocument``).

        Raises:
            NotFoundError: there is no such job.
        """

    def schedule(self) -> Document:
        """Return when all jobs' iterations begin (``ScheduleDocument``)."""

    def jobs(self) -> Document:
        """Return all jobs, without their flows (``JobList``)."""

    # -- the fabric ------------------------------------------------------------------------------------------

    def fabric(self) -> Document:
        """Return the observed fabric and the cabling check (``FabricDocument``)."""

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        """Return the directed links (``LinkList``).

        Each has its capacity, its load under the plan or under ECMP, and the counters of its port.

        Args:
            under: whose loads are wanted.
            since: ``version`` of an earlier list: only what has changed since then is told, unless that version is no
                longer known; ``None``: every link.
        """

    def link_history(self, name: str) -> Document:
        """Return the measured load of a directed link in the last 24 hours (``HistoryDocument``).

        Raises:
            NotFoundError: there is no such link.
        """

    def drainable(self, name: str) -> Document:
        """Return a cable, switch or pod by its id, and whether it is drained (``DrainDocument``).

        Raises:
            NotFoundError: no cable, switch or pod has this id (kind ``link``).
        """

    def drain(self, name: str, drained: bool, caller: Caller) -> Document:
        """Drain it, or use it again (``DrainDocument``); no effect if that is already so.

        Raises:
            NotFoundError: no cable, switch or pod has this id (kind ``link``).
        """

    def drains(self, names: Sequence[str], drained: bool, caller: Caller) -> Document:
        """Drain several by one plan, or use them again (``DrainList``); no effect on those that are so already.

        Raises:
            NotFoundError: no cable, switch or pod has one of the ids (kind ``link``): then nothing is changed.
        """

    # -- plans -----------------------------------------------------------------------------------------------

    def plan(self, under: Under = "plan") -> Document:
        """Return the newest plan, which one is active, and since when (``PlanDocument``); or ECMP's in its place."""

    def plans(self, before: int | None, limit: int) -> Document:
        """Return at most ``limit`` stored plans, newest first, with epochs below ``before`` (``PlanHistory``)."""

    def plan_record(self, epoch: int) -> Document:
        """Return one stored plan with its paths (``PlanRecord``).

        Raises:
            NotFoundError: it is not stored (kind ``plan``).
        """

    def rollback(self, epoch: int, caller: Caller) -> Document:
        """Give the present flows the live paths of a stored plan.

        Return the summary of the new plan (``PlanSummary``).

        Raises:
            NotFoundError: it is not stored (kind ``plan``).
            ConflictError: the mode excludes it.
        """

    def preview(self, body: bytes) -> Document:
        """Return the effect of a change (``PreviewDocument``) without making it.

        ``body`` may be large, so it is parsed (``controller.rest.forms.read_form`` with ``schemas.PreviewForm``) off
        the event loop.

        Raises:
            InputError: as ``put_job`` does.
            NotFoundError: a job to delete or a thing to drain that is not there.
        """

    def survive(self, body: bytes, gone: Callable[[], bool]) -> Document:
        """Return the effect of failures (``SurvivalDocument``) on the present jobs; ends early once ``gone()``.

        Raises:
            InputError: the body is wrong, or asks for too many failures.
            UnavailableError: there is no plan yet, or the client has disconnected.
        """

    def routes(self, host: str, round_trip_seconds: float | None = None) -> Document:
        """Return what the agent on a host needs to know of the flows that the host sends (``Routes``).

        Args:
            host: the host.
            round_trip_seconds: of a host that cannot pace, and is told windows; ``None``: it is told none.

        Raises:
            NotFoundError: the fabric has no such host.
        """

    def hosts(self) -> Document:
        """Return what is known of the agents of hosts (``HostList``)."""

    def segments(self, host: str, has: AgentHas, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return the plan of a host (``HostPlanDocument``) as soon as it is another one than its agent has.

        Blocks for so many seconds at most, and ends early once ``gone()``; then the result is ``None``.

        Raises:
            NotFoundError: the fabric has no such host.
            ConflictError: hosts are given no plans.
        """

    def host_table(self, host: str) -> Document:
        """Return the hosts that a host can reach (``HostTableDocument``).

        Raises:
            NotFoundError: the fabric has no such host.
            ConflictError: hosts are given no plans.
            UnavailableError: there is no plan yet.
        """

    def host_samples(self, host: str, after: int, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return what routers have sampled of the packets of a host (``HostSamplesDocument``), as soon as there is any.

        Blocks for so many seconds at most, and ends early once ``gone()``; then the result is ``None``.

        Raises:
            NotFoundError: the fabric has no such host.
            ConflictError: source ports do not select paths by the hash of routers.
        """

    def host_report(self, host: str, body: bytes) -> None:
        """Take a report of the agent of a host.

        Raises:
            InputError: with an empty ``field``, the body is no JSON document (400); else that field is wrong (422).
            NotFoundError: the fabric has no such host.
            ConflictError: hosts are given no plans.
        """

    def host_requests(self, requests: Sequence[HostRequest]) -> HostAnswers:
        """Take what many agents report and ask by way of a replica; answer at once.

        Raises:
            ConflictError: hosts are given no plans.
        """

    def plans_version(self, known: str, seconds: float, gone: Callable[[], bool]) -> str:
        """Return the version of the plans of all hosts when it is another one, or after so many seconds.

        Raises:
            ConflictError: hosts are given no plans.
        """

    def trace(self, job: str | None, compare: str | None) -> Document:
        """Return the measured path of every flow, or of every flow of one job (``TraceDocument``).

        Args:
            job: name of the job; ``None``: all jobs.
            compare: ``ecmp``, to add that policy's result for the same flows; ``None``: no comparison.

        Raises:
            NotFoundError: there is no such job.
        """

    def circuits(self) -> Document:
        """Return circuits, shards, panels and servers (``CircuitsDocument``).

        Raises:
            ConflictError: the fabric has packet switches.
        """

    def server_table(self, host: str, has: str, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return what a server forwards by (``ServerTableDocument``) as soon as it is not what its agent has.

        Blocks for so many seconds at most, and ends early once ``gone()``; then the result is ``None``.

        Args:
            host: name of the server.
            has: ``step`` of the table that its kernel holds; empty: none.
            seconds: how long to wait.
            gone: tells whether the agent has disconnected.

        Raises:
            NotFoundError: the fabric has no such server.
            ConflictError: the fabric has packet switches.
        """

    # -- learning --------------------------------------------------------------------------------------------

    def see(self, body: bytes) -> Document:
        """Take sightings of QPs from a host (``SightingsTaken``).

        Raises:
            InputError: with an empty ``field``, the body is no JSON document (400); else that field is wrong (422).
            ConflictError: learning is off.
        """

    def learning(self) -> Document:
        """Return whether jobs are learned and planned, since when, and by whom this was set (``LearningDocument``)."""

    def set_learning(self, learning: Learning, caller: Caller) -> Document:
        """Change what becomes of learned jobs (``LearningDocument``); do nothing if that is already so.

        Raises:
            StorageError: it could not be saved, so it was not done.
            UnavailableError: no plan could be made with it, so it was not done.
        """

    def learned(self) -> Document:
        """Return the jobs that were learned from sightings (``LearnedList``)."""

    def learned_job(self, name: str) -> Document:
        """Return a learned job with its job document (``LearnedDocument``).

        Raises:
            NotFoundError: there is no such learned job.
        """

    def forget_learned(self, name: str) -> None:
        """Forget a learned job; it appears again if its traffic goes on.

        Raises:
            NotFoundError: there is no such learned job.
        """

    def adopt(self, name: str, caller: Caller) -> PutOutcome:
        """Push a learned job under its name, as ``put_job`` does where there is no job of that name.

        Raises:
            NotFoundError: there is no such learned job.
            PreconditionFailedError: there is a job of that name.
        """

    # -- the controller --------------------------------------------------------------------------------------

    def mode(self) -> Document:
        """Return how plans are enforced, since when, and by whom this was set (``ModeDocument``)."""

    def set_mode(self, mode: Mode | None, enforcement: str | None, caller: Caller) -> Document:
        """Change how plans are enforced (``ModeDocument``); do nothing if that is already so.

        Args:
            mode: the new mode; ``None``: keep the present one.
            enforcement: the new enforcement; ``None``: keep the present one.
            caller: sender of the request, for the record.

        Raises:
            ConflictError: a present job or the fabric cannot be enforced so.
        """

    def subscribe(self, after: str | None, last: int = 0) -> Subscription:
        """Open a subscription to the events.

        Args:
            after: id of the last event that the reader has seen, any text; ``None``: it wants what comes from now on.
            last: without ``after``: begin with so many earlier events, as far as they are there.
        """

    def cluster(self) -> Document:
        """Return the cluster that this controller is a replica of (``ClusterDocument``)."""

    def step_down(self) -> None:
        """Let another replica of the cluster lead, soon.

        Raises:
            ConflictError: this controller does not lead a cluster.
        """

    @property
    def leader(self) -> str | None:
        """The URL of the replica that answers clients (empty: there is none now); ``None``: this one."""

    def confirms(self) -> bool:
        """Return whether this replica still answers clients, as the store says after this call.

        Raises:
            UnavailableError: the store does not answer. Not raised by a controller in no cluster, which does not ask.
        """

    @property
    def change(self) -> ChangeNumber | None:
        """The number of a change such that answers contain it and all before; ``None``: changes have no numbers."""

    def knows(self, change: ChangeNumber) -> bool:
        """Return whether answers of this replica contain a change, now or within a lease, for which it may block."""

    def health(self) -> Document:
        """Return whether the controller does its work (``Health``). Answers at once, even under load."""

    def metrics(self, accept: str) -> Exposition:
        """Return the metrics for Prometheus to scrape.

        Args:
            accept: the types that it takes, as in the Accept header; empty: any.
        """
