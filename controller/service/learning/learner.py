"""Learning while the controller runs: takes sightings, looks for jobs in them, and keeps what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.desired_state import AdmittedJob, DesiredState
from controller.core.errors import ConflictError
from controller.core.ports.runtime import Runtime
from controller.core.requests.sighting_request import ReadSightings, SightingRequest
from controller.learning.infer import SOME_PORT, FlowKeys, infer
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LearnedLife
from controller.learning.nic_speed import within_speed
from controller.learning.odometer import Odometers
from controller.learning.qp_ports import OpenQps, as_open, is_open, with_ports
from controller.learning.sightings import QpKey, SightingBatch
from controller.model.choices.learning import Learning
from controller.model.errors import InputError, NotFoundError
from controller.model.fabric import Fabric
from controller.model.packets.flow_ports import ALL_TCP, CODES_OF_TCP, kind_of
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.traffic import Traffic
from controller.planning.drain import drain, without_drained
from controller.planning.live_traffic import live_traffic
from controller.service.tasks.fault_log import FaultLog
from controller.service.tasks.vital_tasks import VitalTasks
from controller.telemetry.instruments import Instruments
from controller.views.learned import address_finder, flow_identities, nic_speeds

LOOK_SECONDS = 2.0
"""Time between two looks at the sightings."""
REMEMBERED_SECONDS = 600.0
"""Age of sightings that are still looked at, and silence after which a QP is forgotten."""
CLOCKS_DIFFER = 60.0
"""Seconds by which a host's clock may differ from the controller's."""


class Learner:
    """Learned jobs of the present traffic."""

    def __init__(
        self,
        runtime: Runtime,
        read: ReadSightings,
        learning: Callable[[], Learning],
        instruments: Instruments,
        open_qps: Callable[[Fabric], OpenQps] = lambda fabric: {},
    ) -> None:
        """Begin without sightings.

        Args:
            runtime: tasks, threads and time.
            read: parses the body of a request, off the event loop.
            learning: returns what becomes of learned jobs at present.
            instruments: count sightings.
            open_qps: returns which QPs hosts have told of.
        """
        self._runtime, self._read, self._learning = runtime, read, learning
        self._instruments, self._open_qps = instruments, open_qps
        self.looked = runtime.signal()
        """Set after each look."""
        self._odometers, self._life = Odometers(), LearnedLife()
        self._open: OpenQps = {}
        # The QPs of jobs as feeders have seen them.
        self._seen: dict[str, frozenset[QpKey]] = {}
        # The flows of pushed jobs, and what they were collected from.
        self._pushed: FlowKeys = frozenset()
        self._known: tuple[Fabric | None, tuple[AdmittedJob, ...], frozenset[str]] = (None, (), frozenset())
        self._lock: Any = runtime.lock()
        self._fresh = runtime.signal()

    def start(self, tasks: VitalTasks, state: Callable[[], ControllerState]) -> None:
        """Look for jobs from now on; ``state()`` is the controller's newest state."""
        tasks.spawn("learning", lambda: self._run(state))

    # -- requests ------------------------------------------------------------------------------------------------

    def see(self, body: bytes, fabric: Fabric) -> int:
        """Take the sightings of a request and return the number of QPs that are known.

        Raises:
            ConflictError: learning is off.
            InputError: what is wrong with the body.
        """
        if self.learning == "off":
            raise ConflictError("learning is off; 'fairspine learning observe' turns it on")
        self.take("host", [self._runtime.offload(self._batch, self._read(body), fabric)])
        return len(self._odometers)

    def take(self, feeder: str, batches: Sequence[SightingBatch]) -> None:
        """Take the sightings of a feeder."""
        for batch in batches:
            with self._lock:
                self._runtime.offload(self._odometers.add, batch)
            self._instruments.seen(feeder, len(batch.qp))
        self._fresh.set()

    def _batch(self, request: SightingRequest, fabric: Fabric) -> SightingBatch:
        now = self._runtime.now()
        if len(request.at):
            far = int(np.argmax(np.abs(request.at - now)))
            if abs(request.at[far] - now) > CLOCKS_DIFFER:
                raise InputError(
                    f"is {abs(request.at[far] - now):.0f} s from the controller's time, more than {CLOCKS_DIFFER:.0f}",
                    field=f"at[{far}]",
                    value=float(request.at[far]),
                )
        keys = tuple(_keys(request, fabric))
        is_open = {keys[i]: state for i, state in request.open.items()}
        return SightingBatch(keys, request.qp, request.at, request.bytes, open=is_open)

    @property
    def learning(self) -> Learning:
        """The present setting ``learning``."""
        return self._learning()

    def forget_all(self) -> None:
        """Forget all sightings and jobs."""
        with self._lock:
            self._odometers, self._life = Odometers(), LearnedLife()
        self.looked.set()

    @property
    def known(self) -> tuple[int, int]:
        """Numbers of QPs that are known, and of sightings that were ignored."""
        return len(self._odometers), self._odometers.ignored

    @property
    def jobs(self) -> list[LearnedJob]:
        """The learned jobs, by name."""
        return list(self._life.jobs.values())

    def job(self, name: str) -> LearnedJob:
        """Return one.

        Raises:
            NotFoundError: there is no such learned job.
        """
        job = self._life.jobs.get(name)
        if job is None:
            raise NotFoundError("learned job", name)
        return job

    def is_open(self, job: LearnedJob) -> bool:
        """Return whether hosts have told at the last look that all QPs of a job are open."""
        return is_open(job, self._open)

    def drop(self, job: LearnedJob) -> None:
        """Forget a job, which may have gone meanwhile, until it is seen again, and the sightings of its QPs."""
        with self._lock:
            self._odometers.remove(self._seen.get(job.name, job.qps))
            self._life.forget(job.name)

    # -- looking -------------------------------------------------------------------------------------------------

    def _run(self, state: Callable[[], ControllerState]) -> None:
        faults = FaultLog("learning failed")

        def look() -> None:
            self.look(state())
            self.looked.set()

        while True:
            self._fresh.wait(None if not self._life.jobs else LOOK_SECONDS)
            self._fresh.clear()
            # All hosts report about once a second: one look for all of them.
            self._runtime.sleep(LOOK_SECONDS)
            if self.learning == "off":
                continue
            faults.run(look)

    def look(self, state: ControllerState) -> None:
        """Look at the sightings once."""
        with self._lock:
            known = {} if state.fabric is None else self._open_qps(state.fabric)
            self._runtime.offload(self._look, state.fabric, state.desired, known, self._runtime.now())

    def _look(self, fabric: Fabric | None, desired: DesiredState, open_qps: OpenQps, now: float) -> None:
        self._odometers.forget(now - REMEMBERED_SECONDS)
        known = (fabric, desired.jobs, desired.drained)
        if any(one is not other for one, other in zip(known, self._known, strict=True)):
            self._pushed = frozenset() if fabric is None else pushed_flows(fabric, _as_planned(fabric, desired))
            self._known = known
        # Packets of pushed flows have the ports that agents have found for them.
        pushed = frozenset(self._pushed) | {
            (*ends, each.port)
            for ends, qps in open_qps.items()
            for each in qps
            if (*ends, each.udp_src) in self._pushed
        }
        inference = infer(self._odometers, now - REMEMBERED_SECONDS, np.random.default_rng(0), pushed)
        speed = nic_speeds(fabric)
        self._seen, self._open = {job.name: job.qps for job in inference}, open_qps
        jobs = [with_ports(within_speed(job, speed), open_qps) for job in inference]
        jobs = [as_open(job, open_qps) for job in jobs] if desired.learns_ports else jobs
        self._life.step(jobs, now, self._odometers.activity)


def _as_planned(fabric: Fabric, desired: DesiredState) -> Traffic:
    """Return the flows of pushed jobs from the ports that plans give them."""
    aside = drain(fabric, desired.drained)
    return live_traffic(without_drained(fabric, aside), desired.traffic, aside.ports)


def pushed_flows(fabric: Fabric, traffic: Traffic) -> FlowKeys:
    """Return the flows of pushed jobs, as packets show them."""
    flows = flow_identities(fabric, traffic)
    tcp = {(src, dst) for src, dst, code in flows if kind_of(code) in CODES_OF_TCP}
    of_roce = {(src, dst, SOME_PORT) for src, dst, code in flows if code <= MAX_PORT}
    return flows | of_roce | {(*ends, ALL_TCP) for ends in tcp}


def _keys(request: SightingRequest, fabric: Fabric) -> list[QpKey]:
    address = address_finder(fabric)
    keys = []
    for i, (src, dst, udp_src, dst_qp) in enumerate(request.qps):
        ends = []
        for field, name in (("src", src), ("dst", dst)):
            end = address(name)
            if end is None:
                bond = any(name == host.ip for host in fabric.hosts)
                why = "several ports have this address: name one" if bond else "the fabric has no such host"
                raise InputError(why, field=f"qps[{i}].{field}", value=name)
            ends.append(end)
        keys.append(QpKey(ends[0], ends[1], udp_src, dst_qp))
    return keys
