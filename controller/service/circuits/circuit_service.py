"""The running controller of an optical fabric as an interface sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import orjson

from controller.circuits.control.job_plans import POLICY, NamedJob
from controller.circuits.demand import shards_of
from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import plan_shard
from controller.config import Settings
from controller.core.caller import Caller
from controller.core.change_number import ChangeNumber
from controller.core.desired_state import AdmittedJob, revision
from controller.core.ports.api import Condition, Document, Exposition, JobAnswer, PutOutcome, Subscription, Under
from controller.core.ports.panels import Panels
from controller.core.ports.runtime import Runtime
from controller.core.ports.store import Persistence
from controller.core.saved.saved_state import StateChange
from controller.model.errors import InputError, NotFoundError
from controller.model.job import Job
from controller.service.circuits.conductor import Conductor
from controller.service.circuits.no_packet_switches import NoPacketSwitches
from controller.service.circuits.server_agents import ServerAgents
from controller.service.reconciling.event_log import EventLog
from controller.service.tasks.vital_tasks import VitalTasks
from controller.telemetry.instruments import exposition
from controller.views import circuits as documents
from controller.views import cluster
from controller.workload.job_file import parse_job


class CircuitService(NoPacketSwitches):
    """Implements ``controller.core.ports.api.Backend`` for jobs on circuits."""

    def __init__(
        self,
        settings: Settings,
        fabric: OpticalFabric,
        runtime: Runtime,
        persistence: Persistence,
        panels: Panels,
        events: EventLog,
    ) -> None:
        """Continue with the jobs of the store; ``start`` begins to follow panels."""
        self._settings, self._fabric, self._runtime, self._events = settings, fabric, runtime, events
        self._store, self._panels = persistence.store, panels
        self._changing = runtime.lock()
        self._tasks = VitalTasks(runtime)
        self._agents = ServerAgents(fabric, runtime)
        self._parsed: dict[tuple[str, str], Job] = {}
        options = {"seed": settings.seed, "effort": settings.circuit_effort, "paths": settings.circuit_paths}
        self._conductor = Conductor(
            fabric,
            runtime,
            panels,
            self._agents,
            events,
            self._named,
            options,
            persistence.saved.jobs,
            settings.circuit_dead_seconds,
        )

    def start(self) -> None:
        """Begin."""
        self._conductor.start(self._tasks)

    def close(self) -> None:
        """Circuits and routes stay as they are."""

    @property
    def ended(self) -> Sequence[str]:
        """The vital tasks that have ended, now and later: one list, which is empty while the controller works."""
        return self._tasks.ended

    # -- jobs ----------------------------------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes, condition: Condition, caller: Caller) -> PutOutcome:
        """Admit a job, or a new version of it, and return once it is saved; its circuits are planned after that."""
        parsed = self._runtime.offload(_job_of, body, name)
        with self._changing:
            old = self._conductor.state.job(name)
            condition.check(None if old is None else old.revision)
            if old is not None and old.document == body:
                return PutOutcome(False, self._answer(old))
            jobs = self._conductor.state.jobs
            if old is None and len(jobs) >= self._settings.max_jobs:
                raise InputError(f"at most {self._settings.max_jobs} jobs are allowed", field="name", value=name)
            others = [(job.name, self._named(job).job) for job in jobs if job.name != name]
            self._runtime.offload(_check, self._fabric, others, parsed)
            job = AdmittedJob(
                name=name,
                document=body,
                revision=revision("" if old is None else old.revision, body),
                position=1 + max((each.position for each in jobs), default=-1) if old is None else old.position,
                changed=self._runtime.now(),
                by=caller.name,
                ports=np.zeros(0, dtype=np.int32),
                traffic=None,
            )
            self._runtime.offload(self._store.commit, StateChange(put=(job,)))
            self._parsed[name, job.revision] = parsed
            kept = [each for each in jobs if each.name != name]
            self._desire(sorted([*kept, job], key=lambda each: each.position))
            self._events.append("job", job=name, change="pushed" if old is None else "replaced", revision=job.revision)
            return PutOutcome(old is None, self._answer(job))

    def delete_job(self, name: str, condition: Condition, caller: Caller) -> None:
        """Remove a job and return once this is saved. Its circuits stay until others need their ports."""
        with self._changing:
            old = self._conductor.state.job(name)
            condition.check(None if old is None else old.revision)
            if old is None:
                raise NotFoundError("job", name)
            self._runtime.offload(self._store.commit, StateChange(deleted=(name,)))
            self._desire([job for job in self._conductor.state.jobs if job.name != name])
            self._events.append("job", job=name, change="deleted")

    def _desire(self, jobs: Sequence[AdmittedJob]) -> None:
        """Plan these jobs, and keep nothing of others."""
        self._conductor.desire(tuple(jobs))
        keys = {(job.name, job.revision) for job in jobs}
        self._parsed = {key: job for key, job in self._parsed.items() if key in keys}

    def _named(self, job: AdmittedJob) -> NamedJob:
        key = job.name, job.revision
        if key not in self._parsed:
            self._parsed[key] = _job_of(job.document, job.name)
        return NamedJob(job.revision, self._parsed[key])

    def job(self, name: str) -> JobAnswer:
        """Return one job."""
        job = self._conductor.state.job(name)
        if job is None:
            raise NotFoundError("job", name)
        return self._answer(job)

    def _answer(self, job: AdmittedJob) -> JobAnswer:
        return JobAnswer(job.revision, documents.job(self._view(), job))

    def jobs(self) -> Document:
        """Return all jobs."""
        return self._read(documents.jobs)

    # -- circuits ------------------------------------------------------------------------------------------------

    def circuits(self) -> Document:
        """Return circuits, shards, panels and servers."""
        return self._read(documents.circuits)

    def server_table(self, host: str, has: str, seconds: float, gone: Callable[[], bool]) -> Document | None:
        """Return the table of a server as soon as it is another one than its agent has; ``None``: not in time."""
        server = self._fabric.server_index.get(host)
        if server is None:
            raise NotFoundError("host", host)
        return self._agents.document(server, has, seconds, gone)

    def fabric(self) -> Document:
        """Return panels, and NICs as hosts."""
        return self._read(documents.fabric)

    def links(self, under: Under = "plan", since: str | None = None) -> Document:
        """Return the circuits of the plan as links."""
        return self._read(documents.links)

    def _view(self) -> documents.CircuitView:
        state, panels = self._conductor.state, self._panels
        return documents.CircuitView(
            self._fabric,
            state,
            panels.enforcer.switches(),
            self._conductor.ports_down(),
            self._agents.states(state.served),
            [*panels.observer.notices(), *panels.enforcer.notices()],
        )

    def _read(self, function: Callable[[documents.CircuitView], Any]) -> Document:
        document: Document = self._runtime.offload(function, self._view())
        return document

    # -- the controller ------------------------------------------------------------------------------------------

    def subscribe(self, after: str | None, last: int = 0) -> Subscription:
        """Open a subscription to the events after an id, or from now on with some before."""
        return self._events.subscribe(after, last)

    def health(self) -> Document:
        """Return whether the controller does its work, and the reasons if not."""
        return documents.health(self._view())

    def metrics(self, accept: str) -> Exposition:
        """Return the metrics in the format that the scraper accepts."""
        families = list(documents.metrics(self._view()))
        return Exposition(*self._runtime.offload(exposition, families, accept, self._runtime.rest))

    def cluster(self) -> Document:
        """Return that this controller is in no cluster."""
        return cluster.cluster(None)

    @property
    def leader(self) -> str | None:
        """None: this controller answers clients."""
        return None

    def confirms(self) -> bool:
        """Return that this controller answers clients."""
        return True

    @property
    def change(self) -> ChangeNumber | None:
        """None: changes have no numbers."""
        return None

    def knows(self, change: ChangeNumber) -> bool:
        """Return that nobody can know of a change here."""
        return False


def _check(fabric: OpticalFabric, others: Sequence[tuple[str, Job]], job: Job) -> None:
    """Refuse a job that does not fit beside others, of which the names are given.

    Raises:
        InputError: names the field of this job.
    """
    try:
        shards = shards_of(fabric, [*others, ("", job)])
    except InputError as error:
        if not error.source:
            raise
        reason = f"the job {error.source} does not fit beside this one: {error.field}: {error.reason}"
        raise InputError(reason, field="hosts", value=error.value) from None
    if not fabric.forwarding:
        # Which pairs get circuits is clear at once.
        for shard in shards:
            if job.name in shard.jobs:
                plan_shard(fabric, shard, POLICY, 0, 0.0, 1)


def _job_of(body: bytes, name: str) -> Job:
    """Read the document of a job.

    Raises:
        InputError: with an empty field: the body is not JSON; else that field is wrong.
    """
    try:
        document = orjson.loads(body)
    except ValueError as error:
        raise InputError(f"is not JSON: {error}") from None
    return parse_job(document, name=name)
