"""What the HTTP interface needs from the controller behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

Document = bytes | Mapping[str, Any]
"""An answer's JSON: encoded already (large ones come so from a worker), or values that orjson encodes, numpy included.

Its shape is the model of ``controller.rest.schemas`` that the resource declares.
"""


@dataclass(frozen=True)
class PutOutcome:
    """``created``: there was no job of that name before. ``document``: the job with its plan (``JobDocument``)."""

    created: bool
    document: Document


class Backend(Protocol):
    """The controller as the HTTP interface sees it.

    Every call comes from a greenlet of its own and may block that greenlet, never the event loop: what takes
    longer than a few milliseconds belongs on a worker. A call that is running when the server stops ends by
    ``GreenletExit``.

    All may raise ``UnavailableError`` (answered 503 with Retry-After) where too little is known yet. Any exception
    that is not named here is answered 500, with its traceback in the log only.
    """

    def put_job(self, name: str, body: bytes) -> PutOutcome:
        """Parse and take a job, replacing any of that name; what fails changes nothing.

        Raises:
            InputError: with an empty ``field``, the body is no JSON document (400); else that field is wrong (422).
        """

    def delete_job(self, name: str) -> None:
        """Forget a job and its rules.

        Raises:
            NotFoundError: there is no such job.
        """

    def job(self, name: str) -> Document:
        """One job with its part of the plan (``JobDocument``).

        Raises:
            NotFoundError: there is no such job.
        """

    def jobs(self) -> Document:
        """All jobs, without their flows (``JobList``)."""

    def plan(self) -> Document:
        """The newest plan, which one is active, and since when (``PlanDocument``)."""

    def routes(self, host: str) -> Document:
        """What the agent on a host needs to know of the flows that the host sends (``Routes``).

        Raises:
            NotFoundError: the fabric has no such host.
        """

    def links(self) -> Document:
        """Every directed link, its capacity and its planned load (``LinkList``)."""

    def fabric(self) -> Document:
        """The fabric as it is now, and the cabling check (``FabricDocument``)."""

    def health(self) -> Document:
        """Whether the controller does its work (``Health``). Answers at once, whatever else goes on."""
