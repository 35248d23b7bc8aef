"""The running controller: collects changes, takes steps, and answers the HTTP interface.

Changes of the network and of the jobs meet in one task, which waits a moment for more (debounce) and then takes one
step at a time. Everything a reader sees belongs to one published ``Step``; a request that changes something is
answered when the step that holds its change is published.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from controller.config import Settings
from controller.model.errors import NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.rest.backend import Document, PutOutcome
from controller.service import documents
from controller.service.admission import Admission
from controller.service.runtime import Runtime, Signal
from controller.service.step import Admitted, Step, advance
from controller.southbound.cabling import Survey

LOG = logging.getLogger("fairspine.service")


class Service:
    """Implements ``controller.rest.backend.Backend``."""

    def __init__(
        self,
        settings: Settings,
        intended: Fabric | None,
        runtime: Runtime,
        *,
        observe: Callable[[], Observed],
        install: Callable[[Step], None],
        switches: Callable[[], Sequence[documents.SwitchReport]],
        admission: Admission,
    ) -> None:
        """
        Args:
            observe: a snapshot of the network.
            install: called with each new step; must not block.
            switches: the installer's state of each connected switch.
        """
        self._settings, self._intended, self._runtime = settings, intended, runtime
        self._observe, self._install, self._switches = observe, install, switches
        self._admission = admission
        self._dirty = runtime.signal()
        self._changing = runtime.lock()
        self._jobs: tuple[Admitted, ...] = ()
        self._waiting: list[tuple[tuple[Admitted, ...], Signal]] = []
        self._step = Step()
        self._computed_at: float | None = None
        self._active: tuple[int, float] | None = None
        self._failed = ""
        self._installed = -1
        self._reported = Survey(None, ())

    # -- what changes ---------------------------------------------------------------------------------------

    @property
    def step(self) -> Step:
        """The newest published step."""
        return self._step

    def start(self) -> None:
        """Begin to take steps."""
        self._runtime.spawn(self._run)
        self._dirty.set()

    def network_changed(self) -> None:
        """The next snapshot may differ."""
        self._dirty.set()

    def settled(self) -> None:
        """Some switch has reached its target, or has gone."""
        epoch = self._step.epoch
        active = bool(self._switches()) and all(state.epoch >= epoch for state in self._switches())
        if not active:
            if self._active is not None and self._active[0] == epoch:
                # A switch has come back (perhaps empty), or none is left: the plan is no longer what they hold.
                self._active = None
            return
        if self._active is None or self._active[0] != epoch:
            self._active = (epoch, self._runtime.now())
            LOG.info("plan %d is active on %d switches", epoch, len(self._switches()))

    def _run(self) -> None:
        while True:
            self._dirty.wait()
            self._runtime.sleep(self._settings.debounce_ms / 1e3)
            self._dirty.clear()
            jobs = self._jobs
            try:
                observed = self._observe()
                step = self._runtime.offload(
                    advance, self._settings, self._intended, observed, jobs, self._step, self._runtime.clock
                )
                # While switches have only begun to connect, most of the fabric seems to be missing. Whatever they hold
                # from before is better than rules for that, and no packet is lost while the controller is restarted.
                as_intended = self._intended is not None and step.survey.matches
                self._publish(step, install=as_intended or not observed.starting)
                self._failed = ""
            except Exception as error:
                # The old plan stays; whoever waits for this one is told. The next change tries again.
                LOG.exception("no new plan")
                self._failed = f"{type(error).__name__}: {error}"
                self._release(jobs)

    def _publish(self, step: Step, *, install: bool) -> None:
        old, self._step = self._step, step
        if step.epoch != old.epoch:
            self._computed_at = self._runtime.now()
        if install and step.epoch != self._installed:
            self._installed = step.epoch
            self._install(step)
        if install:
            self._report(step.survey)
        self.settled()
        self._release(step.jobs)

    def _report(self, found: Survey) -> None:
        """Log what is new in the cabling check."""
        for finding in found.findings:
            if finding not in self._reported.findings:
                LOG.warning("cabling: %s", finding.text)
        if found.matches and not self._reported.matches:
            LOG.info("cabling: as intended" if self._intended else "cabling: discovered without contradiction")
        self._reported = found

    def _release(self, tried: tuple[Admitted, ...]) -> None:
        """Wake the requests whose change has been tried, with or without success."""
        for jobs, signal in self._waiting:
            if jobs is tried:
                signal.set()
        self._waiting = [(jobs, signal) for jobs, signal in self._waiting if jobs is not tried]

    def _change_jobs(self, jobs: tuple[Admitted, ...]) -> Step:
        """Make these the jobs, and wait for the step that holds them.

        Raises:
            UnavailableError: no plan could be made; the jobs are what they were.
        """
        before, self._jobs = self._jobs, jobs
        signal = self._runtime.signal()
        self._waiting.append((jobs, signal))
        self._dirty.set()
        signal.wait()
        if self._step.jobs is not jobs:
            self._jobs = before
            self._dirty.set()
            raise UnavailableError(f"no plan could be made with it: {self._failed}")
        return self._step

    def _known_fabric(self) -> Fabric:
        if self._step.fabric is None:
            raise UnavailableError(f"the fabric is not known yet: {documents.unknown_because(self._intended)}")
        return self._step.fabric

    def _known_step(self) -> Step:
        self._known_fabric()
        return self._step

    # -- the HTTP interface's calls ---------------------------------------------------------------------------

    def put_job(self, name: str, body: bytes) -> PutOutcome:
        """Admit a job, or the new version of one; answers with its plan."""
        with self._changing:
            fabric = self._known_fabric()
            old = next((job for job in self._jobs if job.name == name), None)
            if old is not None and old.document == body:
                return PutOutcome(False, self._offload(documents.job, self._step, name, self._active))
            others = tuple(job for job in self._jobs if job.name != name)
            room = self._settings.max_flows - sum(job.traffic.n_flows for job in others)
            admitted = self._admission.admit(name, body, fabric, [job.traffic for job in others], room)
            # A new version keeps its job's place: ports of the jobs behind it do not change either way.
            jobs = tuple(admitted if job is old else job for job in self._jobs) if old else (*self._jobs, admitted)
            step = self._change_jobs(jobs)
            return PutOutcome(old is None, self._offload(documents.job, step, name, self._active))

    def delete_job(self, name: str) -> None:
        """Forget a job; its rules go with the next step."""
        with self._changing:
            if all(job.name != name for job in self._jobs):
                raise NotFoundError("job", name)
            self._change_jobs(tuple(job for job in self._jobs if job.name != name))

    def job(self, name: str) -> Document:
        step = self._step
        if all(job.name != name for job in step.jobs):
            raise NotFoundError("job", name)
        return self._offload(documents.job, step, name, self._active)

    def jobs(self) -> Document:
        return documents.jobs(self._step, self._active)

    def plan(self) -> Document:
        step = self._known_step()
        return self._offload(documents.plan, step, self._computed_at, self._active)

    def routes(self, host: str) -> Document:
        step = self._known_step()
        if host not in self._known_fabric().host_index:
            raise NotFoundError("host", host)
        return self._offload(documents.routes, step, host)

    def links(self) -> Document:
        return self._offload(documents.links, self._known_step())

    def fabric(self) -> Document:
        self._known_fabric()
        return self._offload(documents.fabric, self._step, self._intended is not None, self._switches())

    def health(self) -> Document:
        return documents.health(self._step, self._switches(), self._intended, self._active, self._failed)

    def _offload(self, function: Callable[..., Document], *args: Any) -> Document:
        document: Document = self._runtime.offload(function, *args)
        return document
