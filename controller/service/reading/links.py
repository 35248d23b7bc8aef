"""The list of links for many readers: made off the event loop, as a whole or what has changed since a version."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from controller.core.controller_state import ControllerState
from controller.core.ports.api import Document, Under
from controller.core.ports.runtime import Runtime
from controller.model.plan import Plan
from controller.model.switch_key import SwitchKey
from controller.service.learning.background_load import BackgroundLoad
from controller.service.measurements import Measurements
from controller.service.reading.link_changes import LinkChanges, LinkVersion
from controller.views.link_list import LinkTable, link_list, link_table


class LinkLists:
    """Answers with the list of links under the plan and under ECMP."""

    def __init__(self, runtime: Runtime, measurements: Measurements, background: BackgroundLoad) -> None:
        """Begin without a version that a client could have."""
        self._runtime, self._measurements, self._background = runtime, measurements, background
        run = f"{int(runtime.now() * 1e6):x}"
        self._changes: dict[Under, LinkChanges] = {"plan": LinkChanges(f"{run}-p"), "ecmp": LinkChanges(f"{run}-e")}
        self._lock: Any = runtime.lock()

    def read(
        self,
        state: ControllerState,
        under: Under,
        since: str | None,
        hashed: Plan | None,
        connected: Collection[SwitchKey],
    ) -> Document:
        """Return the links, or what has changed of them since a version.

        Args:
            state: with a fabric.
            under: whose loads are wanted.
            since: the version that the client has; ``None``, or one that is no longer known: the answer is complete.
            hashed: ECMP's plan where ``under`` is ``ecmp``.
            connected: keys of the connected switches.
        """
        # One at a time, so that versions follow each other.
        with self._lock:
            table, version = self._runtime.offload(self._update, state, under, hashed, connected)
        rows = version.rows_since(since)
        made: Document = self._runtime.offload(self._document, table, version, under, rows, since)
        return made

    def _update(
        self, state: ControllerState, under: Under, hashed: Plan | None, connected: Collection[SwitchKey]
    ) -> tuple[LinkTable, LinkVersion]:
        assert state.fabric is not None
        background = self._background.gbps(state.fabric)
        table = link_table(state, self._measurements.readings, background, hashed, connected=connected)
        return table, self._changes[under].update(table.ids, table.values)

    def _document(self, table: LinkTable, version: LinkVersion, under: Under, rows: Any, since: str | None) -> bytes:
        return link_list(
            table,
            rows,
            version=version.id,
            since=None if rows is None else since,
            under=under,
            measured=self._measurements.measured_at(self._runtime),
            period=self._measurements.period,
        )
