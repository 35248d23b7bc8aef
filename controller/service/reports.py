"""What is reported to the service: by the cabling check, and by whatever speaks to the switches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from controller.southbound.cabling import Survey
from controller.southbound.rollout import Refusal
from controller.telemetry.held import Reading

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
    @property
    def missing(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class SouthboundCounts:
    """Since the start: changes that switches have confirmed, plans that one has refused, connections turned away, and
    OpenFlow errors by type."""

    edits: int = 0
    refusals: int = 0
    refused: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Southbound:
    """What can be asked of whatever speaks to the switches, at any time.

    Attributes:
        switches: each connected one.
        refusal: why the newest rules are not on the switches, if one of them does not take them.
        notices: what else is wrong with connections, for people.
        counts: what has happened since the start.
        read: what the switches hold and have counted, as they say themselves; blocks the calling task.
    """

    switches: Callable[[], Sequence[SwitchReport]]
    refusal: Callable[[], Refusal | None] = lambda: None
    notices: Callable[[], Sequence[str]] = tuple
    counts: Callable[[], SouthboundCounts] = SouthboundCounts
    read: Callable[[], Reading] = lambda: Reading(0.0)


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


class ToldOnce:
    """Remembers what has been told."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def new(self, texts: Sequence[str]) -> list[str]:
        """Those that were not there the last time."""
        fresh = [text for text in texts if text not in self._told]
        self._told = frozenset(texts)
        return fresh
