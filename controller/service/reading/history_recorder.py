"""Records the loads of links and the speeds of jobs of the last 24 hours, in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson

from controller.core.controller_state import ControllerState
from controller.core.ports.api import Document
from controller.core.ports.runtime import Runtime
from controller.core.speeds.speeds_now import SpeedsNow
from controller.model.errors import NotFoundError
from controller.service.measurements import Measurements
from controller.service.tasks.fault_log import FaultLog
from controller.telemetry.falling_series import LOADS, RESOLUTIONS, SPEEDS, FallingSeries
from controller.views.times import when

PERIOD = float(RESOLUTIONS[0].step)
"""Seconds between two samples: one for each of the shortest slots."""


class HistoryRecorder:
    """Takes samples, and answers with series."""

    def __init__(
        self,
        runtime: Runtime,
        measurements: Measurements,
        state: Callable[[], ControllerState],
        speeds: Callable[[ControllerState], SpeedsNow],
    ) -> None:
        """Begin without samples.

        Args:
            runtime: tasks and time.
            measurements: the newest counters.
            state: returns the newest state.
            speeds: returns the present speeds of jobs.
        """
        self._runtime, self._measurements = runtime, measurements
        self._state, self._speeds_now = state, speeds
        self._loads, self._speeds = FallingSeries(LOADS, np.fmax), FallingSeries(SPEEDS, np.fmin)
        self._pause, self._lock = runtime.signal(), runtime.lock()

    def start(self) -> None:
        """Begin to take samples."""
        self._runtime.spawn(self._run)

    def _run(self) -> None:
        faults = FaultLog("the history could not be recorded")
        while True:
            self._pause.wait(until_sample(self._runtime.clock()))
            faults.run(self.sample)

    def sample(self) -> None:
        """Take one sample of all links and jobs."""
        state = self._state()
        speeds = self._speeds_now(state)
        with self._lock:
            self._runtime.offload(self._add, state, speeds, self._runtime.clock())

    def _add(self, state: ControllerState, speeds: SpeedsNow, at: float) -> None:
        fabric = state.fabric
        if fabric is not None:
            rates = self._measurements.readings.link_rates(fabric)
            self._loads.add(at, fabric.link_ids, rates.gbps / fabric.link_gbps)
        jobs = [job.name for job in state.jobs]
        values = [np.nan if (speed := speeds.jobs.get(job)) is None else speed for job in jobs]
        self._speeds.add(at, jobs, np.array(values, dtype=np.float64))

    def link(self, name: str) -> Document:
        """Return the history of a directed link (``HistoryDocument``).

        Raises:
            NotFoundError: there is no such link.
        """
        fabric = self._state().fabric
        if fabric is None or name not in fabric.link_index:
            raise NotFoundError("link", name)
        return self._read(self._loads, name)

    def job(self, name: str) -> Document:
        """Return the history of a job (``HistoryDocument``).

        Raises:
            NotFoundError: there is no such job.
        """
        if self._state().desired.job(name) is None:
            raise NotFoundError("job", name)
        return self._read(self._speeds, name)

    def _read(self, series: FallingSeries, name: str) -> Document:
        with self._lock:
            made: Document = self._runtime.offload(self._document, series, name, self._runtime.clock())
        return made

    def _document(self, series: FallingSeries, name: str, clock: float) -> bytes:
        now = self._runtime.now()
        return orjson.dumps(
            {
                "id": name,
                "at": when(now),
                "series": [
                    {
                        "step_seconds": one.step,
                        "end": when(now - one.ends),
                        "mean": _known(one.mean),
                        "worst": _known(one.worst),
                    }
                    for one in series.read(name, clock)
                ],
            }
        )


def until_sample(clock: float) -> float:
    """Return the seconds until the middle of a slot: a fixed pause would drift, and at times leave a slot empty."""
    return PERIOD - (clock - PERIOD / 2) % PERIOD


def _known(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else round(value, 4) for value in values.tolist()]
