"""What is told once: what the cabling check finds, and what switches refuse."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from controller.southbound.cabling import Survey

LOG = logging.getLogger("fairspine.service")


class SwitchReport(Protocol):
    """What the installer knows of a connected switch."""

    @property
    def dpid(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def epoch(self) -> int: ...
    @property
    def error(self) -> str: ...


class CablingReport:
    """Logs what is new in the cabling check."""

    def __init__(self, intended: bool) -> None:
        """``intended``: whether a fabric file says how it should be."""
        self._well = "as intended" if intended else "discovered without contradiction"
        self._reported = Survey(None, ())

    def report(self, found: Survey) -> None:
        """The newest findings."""
        for finding in found.findings:
            if finding not in self._reported.findings:
                LOG.warning("cabling: %s", finding.text)
        if found.matches and not self._reported.matches:
            LOG.info("cabling: %s", self._well)
        self._reported = found


class SwitchErrors:
    """Remembers which error of which switch has been told."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def new(self, switches: Sequence[SwitchReport]) -> list[str]:
        """Errors that were not there the last time."""
        now = [f"{report.name}: {report.error}" for report in switches if report.error]
        fresh = [text for text in now if text not in self._told]
        self._told = frozenset(now)
        return fresh
