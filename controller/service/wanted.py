"""What people want of the controller: jobs, drains, and how plans are enforced. One immutable value, which is kept.

What is wanted can be more than what is possible now: a job whose hosts the fabric does not have is wanted and left out
of the plan, a drained cable may have to stay in use.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from controller.model.enforcement import Enforcement
from controller.model.fabric import IntArray
from controller.rest.backend import Mode
from controller.workload.expand import JobTraffic

UNPLACED = "its hosts are not known yet"


@dataclass(frozen=True, eq=False)
class Admitted:
    """A job that was accepted.

    Attributes:
        document: as pushed.
        revision: of the document; the job's ETag.
        position: jobs are planned in this order; a new version keeps its job's.
        changed: when it was pushed, seconds since 1970.
        by: whose token it was pushed with.
        ports: [F] UDP source port of each of its flows: hosts were told, so they stay.
        traffic: its flows on the fabric; ``None``: the fabric does not have what it needs.
        left_out: why it has no traffic.
    """

    name: str
    document: bytes
    revision: str
    position: int
    changed: float
    by: str
    ports: IntArray
    traffic: JobTraffic | None
    left_out: str = ""


@dataclass(frozen=True)
class Wanted:
    """``jobs``: by position. ``drained``: ids of cables, spines and leaves. ``enforcement``: of mode ``planned``."""

    jobs: tuple[Admitted, ...] = ()
    drained: frozenset[str] = frozenset()
    mode: Mode = "planned"
    enforcement: Enforcement = "per_flow"

    @property
    def traffic(self) -> list[JobTraffic]:
        """That of all jobs that have some, in order."""
        return [job.traffic for job in self.jobs if job.traffic is not None]

    @property
    def left_out(self) -> list[Admitted]:
        """Jobs that are kept and not in the plan."""
        return [job for job in self.jobs if job.traffic is None]

    @property
    def n_flows(self) -> int:
        """Flows of all jobs, those that are left out included: they may come back."""
        return sum(len(job.ports) for job in self.jobs)

    def job(self, name: str) -> Admitted | None:
        """The job of that name."""
        return next((job for job in self.jobs if job.name == name), None)

    def with_job(self, job: Admitted) -> Wanted:
        """With a new job, or a new version of one."""
        rest = (other for other in self.jobs if other.name != job.name)
        return dataclasses.replace(self, jobs=tuple(sorted((*rest, job), key=lambda one: one.position)))

    def without_job(self, name: str) -> Wanted:
        return dataclasses.replace(self, jobs=tuple(job for job in self.jobs if job.name != name))

    def draining(self, name: str, drained: bool) -> Wanted:
        """With a cable, spine or leaf drained, or no longer."""
        return dataclasses.replace(self, drained=self.drained | {name} if drained else self.drained - {name})

    def in_mode(self, mode: Mode | None, enforcement: Enforcement | None) -> Wanted:
        """With plans enforced otherwise; ``None``: as before."""
        return dataclasses.replace(self, mode=mode or self.mode, enforcement=enforcement or self.enforcement)

    @property
    def steered(self) -> bool:
        """Whether the source port of a flow says its path, so that the controller must be free to choose it."""
        return self.enforcement == "source_port"

    @property
    def next_position(self) -> int:
        return max((job.position for job in self.jobs), default=-1) + 1


Change = Callable[[Wanted], Wanted]
"""A change that somebody asked for, to be made to whatever is wanted when it is its turn."""


def revision(before: str, document: bytes) -> str:
    """The revision of a document that replaces one of revision ``before`` (empty: none): never the same as that."""
    return hashlib.blake2b(before.encode() + b"\n" + document, digest_size=8).hexdigest()
