"""The progress of plans on the switches: the active plan, the switches that lack it, and refusals."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from controller.config import Settings
from controller.core.controller_state import ControllerState
from controller.core.hindrance import hindrance
from controller.core.mode_rules import flow_encoding_for, rules_for_mode
from controller.core.ports.runtime import Runtime
from controller.core.ports.southbound import Southbound, SwitchReport
from controller.core.speeds_now import Hindrance, SpeedsNow, speeds_now
from controller.model.errors import InputError
from controller.service.reconciling.event_log import EventLog
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.rollout.rollout import Refusal
from controller.southbound.rules.rule_set import Rule
from controller.telemetry.instruments import Instruments
from controller.views.times import when

LOG = logging.getLogger("fairspine.service")


class InstallationStatus:
    """Follows what the installer reports.

    Attributes:
        active: the plan whose rules every connected switch has confirmed, and since when.
        first_active: when a plan was active for the first time, by the runtime's clock; ``None``: none was yet.
    """

    def __init__(
        self,
        settings: Settings,
        runtime: Runtime,
        events: EventLog,
        southbound: Southbound,
        instruments: Instruments,
    ) -> None:
        """Begin with no active plan."""
        self._instruments = instruments
        self._settings, self._runtime, self._events, self._southbound = settings, runtime, events, southbound
        self.active: tuple[int, float] | None = None
        self.first_active: float | None = None
        self._reported_texts = _ReportedTexts()
        self._refused: Refusal | None = None
        self._on_the_way: tuple[int, float] | None = None
        self._instead: Mapping[str, int] = {}
        self._hindrance = Hindrance()
        self._subject: tuple[ControllerState, Mapping[int, tuple[Rule, ...]]] | None = None
        self._is_examined = False

    def begins(self, epoch: int, began: float) -> None:
        """Note that rules are being sent. ``began``: when work on their plan began, by the clock."""
        # Without switches, a delay is not caused by the rules.
        self._on_the_way = (epoch, began) if self._southbound.switches() else None

    def update(self, state: ControllerState) -> None:
        """Update after a switch has reached its target, lost it, refused it, or disconnected."""
        switches = self._southbound.switches()
        texts = [f"{report.name}: {report.error}" for report in switches if report.error]
        for text in self._reported_texts.new([*texts, *self._southbound.notices()]):
            self._events.append("error", text=text)
        self._see_refusal(state)
        epochs = [report.epoch for report in switches if _takes_part(report, state)]
        oldest, newest = (min(epochs), max(epochs)) if epochs else (-1, -1)
        if self.active is not None and oldest < self.active[0]:
            # A switch has come back (perhaps empty), or none is left: the plan is no longer what they hold.
            self.active = None
        if oldest == newest and oldest >= 0 and (self.active is None or self.active[0] != oldest):
            self.active = (oldest, self._runtime.now())
            if self.first_active is None:
                self.first_active = self._runtime.clock()
            LOG.info("plan %d is active on %d switches", oldest, len(epochs))
            self._events.append("plan", epoch=oldest, state="active")
            if self._on_the_way is not None and self._on_the_way[0] == oldest:
                self._instruments.active(self._runtime.clock() - self._on_the_way[1])
                # A switch that comes back later takes the same rules again, and that is no change of the plan.
                self._on_the_way = None

    def waits_for(self, state: ControllerState) -> list[str]:
        """Return the connected switches of the fabric that do not have the newest rules."""
        reports = self._southbound.switches()
        return [report.name for report in reports if report.epoch < state.enforced and _takes_part(report, state)]

    def speeds(self, state: ControllerState) -> SpeedsNow:
        """Return the present speeds of jobs. Does not block."""
        unconfirmed = self._unconfirmed_because(state)
        return speeds_now(
            state,
            connected=bool(self._southbound.switches()),
            unconfirmed=unconfirmed,
            # It is that of confirmed rules.
            hindrance=Hindrance() if unconfirmed else self._hindrance,
        )

    def _unconfirmed_because(self, state: ControllerState) -> str:
        """Return why the rules that switches hold are not known; empty: they hold those of the state."""
        if not self.confirmed(state):
            return "some switch has not confirmed its rules, or is not connected"
        if self._southbound.refusal is not None:
            return "a switch refuses the newest rules"
        for report in self._southbound.switches():
            if _takes_part(report, state) and (report.error or report.missing):
                return report.error or f"{report.name} does not have all ports that rules lead to"
        deviations = self._southbound.deviations()
        drifted = [state.names.get(dpid, str(dpid)) for dpid, each in deviations.items() if each.drifted]
        if drifted:
            return f"the rules of {drifted[0]} are not those that it confirmed"
        foreign = {dpid: each.foreign for dpid, each in deviations.items() if each.foreign and dpid in state.names}
        return "" if self._examined(state, foreign) else "rules of others are being examined"

    def _examined(self, state: ControllerState, foreign: Mapping[int, tuple[Rule, ...]]) -> bool:
        """Return whether the effect of these rules is known; else begin to compute it."""
        subject = (state, foreign)
        if not foreign:
            self._hindrance, self._subject = Hindrance(), None
            return True
        if self._subject is not None and self._subject[0] is state and self._subject[1] == foreign:
            return self._is_examined
        self._subject, self._is_examined, self._hindrance = subject, False, Hindrance()

        def examine() -> None:
            try:
                effect: Hindrance = self._runtime.offload(hindrance, state, foreign)
            except Exception:
                # What is not known is shown as such.
                LOG.exception("the effect of rules of others could not be computed")
                effect = Hindrance(diverted=True)
            if self._subject is subject:
                self._hindrance, self._is_examined = effect, True

        self._runtime.spawn(examine)
        return False

    def confirmed(self, state: ControllerState) -> bool:
        """Return whether every switch that forwards is connected and has the newest rules.

        A switch above leaves without a live cable carries nothing. A leaf that is not connected forwards by rules that
        may be old.
        """
        fabric = state.fabric
        if fabric is None:
            return False
        live = {name for cable in fabric.cables if cable.up for name in (cable.lower, cable.upper)}
        there = {report.dpid for report in self._southbound.switches() if report.epoch >= state.enforced}
        needed = (switch for switch in fabric.switches if switch.name in fabric.leaf_index or switch.name in live)
        return all(switch.dpid in there for switch in needed)

    def reasons(self) -> list[str]:
        """Return the faults besides errors of single switches, for people."""
        refused = [] if self._refused is None else [self._text(self._refused) + self._when()]
        missing = [
            f"{report.name} does not have port {', '.join(map(str, report.missing))}: packets that rules send there "
            "are dropped"
            for report in self._southbound.switches()
            if report.missing
        ]
        return [*refused, *missing, *self._southbound.notices()]

    def refused(self) -> dict[str, Any] | None:
        """Return the refusal of the newest plan as a document, or ``None``."""
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
            "next_try": None if self._next_try is None else when(self._next_try),
            "bare": list(found.bare),
            "instead": [{"enforcement": name, "rules": rules} for name, rules in self._instead.items()],
        }

    def _see_refusal(self, state: ControllerState) -> None:
        found, before = self._southbound.refusal, self._refused
        if found == before:
            return
        self._refused, self._instead = found, {}
        if found is not None:
            self._runtime.spawn(lambda: self._propose(found, state))

    def _propose(self, refusal: Refusal, state: ControllerState) -> None:
        """Find other enforcements that would need fewer rules, and report the refusal."""
        instead: Mapping[str, int] = {}
        if refusal.is_full and refusal.table is not None:
            try:
                instead = self._runtime.offload(fewer_rules, self._settings, state, refusal.dpid)
            except Exception:
                # The refusal is reported in any case.
                LOG.exception("the rules of other enforcements could not be counted")
        if self._refused is refusal:
            self._instead = instead
        self._events.append(
            "error",
            text=_with(refusal, instead),
            switch=refusal.switch,
            refused=refusal.kind,
            epoch=refusal.epoch,
            short=refusal.short if refusal.is_full else None,
            instead=dict(instead),
        )
        if instead:
            LOG.warning("%s", _with(refusal, instead))

    @property
    def _next_try(self) -> float | None:
        """The time of the next attempt, in seconds since 1970."""
        seconds = self._southbound.next_try
        return None if seconds is None else self._runtime.now() + seconds

    def _when(self) -> str:
        seconds = self._southbound.next_try
        return "; it is being retried" if seconds is None else f"; it is retried in {seconds:.0f} s"

    def _text(self, refusal: Refusal) -> str:
        return _with(refusal, self._instead)


class _ReportedTexts:
    """Remembers the texts that were reported."""

    def __init__(self) -> None:
        """Begin with no texts reported."""
        self._texts: frozenset[str] = frozenset()

    def new(self, texts: Sequence[str]) -> list[str]:
        """Return the texts that were not there in the last call."""
        fresh = [text for text in texts if text not in self._texts]
        self._texts = frozenset(texts)
        return fresh


def _takes_part(report: SwitchReport, state: ControllerState) -> bool:
    """Return whether a plan needs this switch to be active; switches outside the fabric do not count."""
    return not state.names or report.dpid in state.names


def _with(refusal: Refusal, instead: Mapping[str, int]) -> str:
    if not instead:
        return refusal.text
    others = " and ".join(f"{name} {rules}" for name, rules in instead.items())
    return f"{refusal.text}; rules needed with other enforcements: {others}"


def fewer_rules(settings: Settings, state: ControllerState, dpid: int) -> dict[str, int]:
    """Return how many rules a switch would need by each other enforcement that needs fewer, fewest first."""
    fabric, candidate = state.fabric, state.candidate
    if fabric is None or candidate is None or state.rules is None or state.desired.mode != "planned":
        return {}
    found = {}
    for enforcement in ENFORCEMENTS:
        desired = dataclasses.replace(state.desired, enforcement=enforcement)
        try:
            encoding = flow_encoding_for(fabric, desired, candidate, state.applied)
            rules = rules_for_mode(settings, fabric, desired, candidate, encoding, state.unknown, learn=False)
        except InputError:
            # This enforcement cannot carry these jobs.
            continue
        found[enforcement] = len(rules[dpid])
    now = len(state.rules[dpid])
    return dict(sorted(((name, n) for name, n in found.items() if n < now), key=lambda each: each[1]))
