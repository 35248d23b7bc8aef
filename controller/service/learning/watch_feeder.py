"""The feeder of watch windows: what leaves count of flows in no plan, by OpenFlow alone, given to learning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.ports.observer import Observer
from controller.core.ports.runtime import Runtime
from controller.learning.late_counters import LateCounters
from controller.learning.sightings import QpKey, SightingBatch
from controller.service.learning.learner import Learner
from controller.service.tasks.fault_log import FaultLog
from controller.service.tasks.vital_tasks import VitalTasks
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.rollout.watch_rules import FlowCount
from controller.views.learned import address_finder

STEP_SECONDS = 0.5
"""Between two readings of a leaf's counters."""


class WatchFeeder:
    """Feeds a learner with what leaves count."""

    def __init__(self, runtime: Runtime, learner: Learner, observer: Observer, *, wanted: bool) -> None:
        """Connect the parts; ``wanted`` is the option."""
        self._runtime, self._learner, self._observer, self._wanted = runtime, learner, observer, wanted
        self._late = LateCounters()

    def start(self, tasks: VitalTasks, state: Callable[[], ControllerState]) -> None:
        """Watch while learning is not off, if it is wanted; ``state()`` is the controller's newest state."""
        if self._wanted:
            tasks.spawn("watch", lambda: self._run(state))

    def _run(self, state: Callable[[], ControllerState]) -> None:
        watching, faults = False, FaultLog("watching flows failed")

        def step() -> None:
            nonlocal watching
            if self._may_watch(state()):
                watching = True
                self._step(state())
            elif watching:
                self._observer.stop_watching()
                watching = False

        while True:
            faults.run(step)
            self._runtime.sleep(STEP_SECONDS)

    def _may_watch(self, state: ControllerState) -> bool:
        """Return whether rules may be written, and the enforcement allows that they count flows in no plan."""
        desired = state.desired
        watchable = ENFORCEMENTS.named(desired.enforcement).watchable
        return self._learner.learning != "off" and desired.mode != "frozen" and watchable

    def _step(self, state: ControllerState) -> None:
        fabric = state.fabric
        if fabric is None or not state.network_known:
            return
        address = address_finder(fabric)
        hosts = {ip for host in fabric.hosts if (ip := address(host.name)) is not None}
        counts = self._observer.watch_flows([leaf.key for leaf in fabric.leaves], hosts)
        if counts:
            self._learner.take("watch", [self._runtime.offload(self._batch, counts)])

    def _batch(self, counts: Sequence[FlowCount]) -> SightingBatch:
        return self._late.certain(batch_of(counts))


def batch_of(counts: Sequence[FlowCount]) -> SightingBatch:
    """Return the sightings that counters are."""
    keys = {QpKey(*each.flow, each.dst_qp): None for each in counts}
    index = {key: i for i, key in enumerate(keys)}
    return SightingBatch(
        tuple(keys),
        np.array([index[QpKey(*each.flow, each.dst_qp)] for each in counts], dtype=np.int32),
        np.array([each.at for each in counts], dtype=np.float64),
        np.array([each.octets for each in counts], dtype=np.int64),
    )
