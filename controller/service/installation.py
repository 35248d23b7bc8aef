"""What the switches have of the plans: which one is active, who is not there yet, and what was refused."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

from controller.config import Settings
from controller.model.enforcement import ENFORCEMENTS
from controller.model.errors import InputError
from controller.service.enforcement import enforced_rules, wire_for
from controller.service.events import EventLog
from controller.service.reports import Southbound, ToldOnce
from controller.service.runtime import Runtime
from controller.service.step import Step
from controller.southbound.rollout import Refusal
from controller.telemetry.instruments import Instruments

LOG = logging.getLogger("fairspine.service")


class Installation:
    """Follows what the installer reports.

    Attributes:
        active: the plan whose rules every connected switch has confirmed, and since when.
    """

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        events: EventLog,
        southbound: Southbound,
        instruments: Instruments,
    ) -> None:
        self._instruments = instruments
        self._settings, self._runtime, self._events, self._southbound = settings, runtime, events, southbound
        self.active: tuple[int, float] | None = None
        self._told = ToldOnce()
        self._refused: Refusal | None = None
        self._on_the_way: tuple[int, float] | None = None
        self._instead: Mapping[str, int] = {}

    def begins(self, epoch: int, began: float) -> None:
        """Rules are on their way. ``began``: when work on their plan did, by the clock."""
        # Where no switch is there yet, it is not the rules that take their time.
        self._on_the_way = (epoch, began) if self._southbound.switches() else None

    def settled(self, step: Step) -> None:
        """Some switch has reached its target, or lost it, or refused it, or has gone."""
        switches = self._southbound.switches()
        texts = [f"{report.name}: {report.error}" for report in switches if report.error]
        for text in self._told.new([*texts, *self._southbound.notices()]):
            self._events.append("error", text=text)
        self._see_refusal(step)
        oldest, newest = (f(report.epoch for report in switches) for f in (min, max)) if switches else (-1, -1)
        if self.active is not None and oldest < self.active[0]:
            # A switch has come back (perhaps empty), or none is left: the plan is no longer what they hold.
            self.active = None
        if oldest == newest and oldest >= 0 and (self.active is None or self.active[0] != oldest):
            self.active = (oldest, self._runtime.now())
            LOG.info("plan %d is active on %d switches", oldest, len(switches))
            self._events.append("plan", epoch=oldest, state="active")
            if self._on_the_way is not None and self._on_the_way[0] == oldest:
                self._instruments.active(self._runtime.clock() - self._on_the_way[1])
                # A switch that comes back later takes the same rules again, and that is no change of the plan.
                self._on_the_way = None

    def waits_for(self, step: Step) -> list[str]:
        """Connected switches that do not have the newest rules."""
        return [report.name for report in self._southbound.switches() if report.epoch < step.enforced]

    def reasons(self) -> list[str]:
        """What is wrong besides errors of single switches, for people."""
        refused = [] if self._refused is None else [self._text(self._refused)]
        missing = [
            f"{report.name} lacks port {', '.join(map(str, report.missing))}: what its rules send there is dropped"
            for report in self._southbound.switches()
            if report.missing
        ]
        return [*refused, *missing, *self._southbound.notices()]

    def refused(self) -> dict[str, Any] | None:
        """The refusal of the newest plan, for a document."""
        found = self._refused
        if found is None:
            return None
        return {
            "epoch": found.epoch,
            "switch": found.switch,
            "kind": found.kind,
            "table": found.table,
            "short": found.short if found.is_full else None,
            "text": self._text(found),
            "instead": [{"enforcement": name, "rules": rules} for name, rules in self._instead.items()],
        }

    def _see_refusal(self, step: Step) -> None:
        found, before = self._southbound.refusal(), self._refused
        if found == before:
            return
        self._refused, self._instead = found, {}
        if found is not None:
            self._runtime.spawn(lambda: self._propose(found, step))

    def _propose(self, refusal: Refusal, step: Step) -> None:
        """Find out which other enforcement would need fewer rules, and tell of the refusal."""
        instead: Mapping[str, int] = {}
        if refusal.is_full and refusal.table is not None:
            try:
                instead = self._runtime.offload(fewer_rules, self._settings, step, refusal.dpid)
            except Exception:
                # The refusal is told in any case.
                LOG.exception("no other enforcement could be tried")
        if self._refused is refusal:
            self._instead = instead
        self._events.append(
            "error", text=_with(refusal, instead), switch=refusal.switch, refused=refusal.kind, epoch=refusal.epoch,
            short=refusal.short if refusal.is_full else None, instead=dict(instead),
        )  # fmt: skip
        if instead:
            LOG.warning("%s", _with(refusal, instead))

    def _text(self, refusal: Refusal) -> str:
        return _with(refusal, self._instead)


def _with(refusal: Refusal, instead: Mapping[str, int]) -> str:
    if not instead:
        return refusal.text
    others = " and ".join(f"{name} {rules}" for name, rules in instead.items())
    return f"{refusal.text}; of all its rules {others} would do"


def fewer_rules(settings: Settings, step: Step, dpid: int) -> dict[str, int]:
    """How many rules a switch would need by those other enforcements of the same plan that need fewer, fewest first."""
    fabric, draft = step.fabric, step.draft
    if fabric is None or draft is None or step.rules is None or step.wanted.mode != "planned":
        return {}
    found = {}
    for enforcement in ENFORCEMENTS:
        wanted = dataclasses.replace(step.wanted, enforcement=enforcement)
        try:
            wire = wire_for(fabric, wanted, draft, step.memory)
            rules = enforced_rules(settings, fabric, wanted, draft, wire, step.unknown, learn=False)
        except InputError:
            # It cannot carry these jobs.
            continue
        found[enforcement] = len(rules[dpid])
    now = len(step.rules[dpid])
    return dict(sorted(((name, n) for name, n in found.items() if n < now), key=lambda each: each[1]))
