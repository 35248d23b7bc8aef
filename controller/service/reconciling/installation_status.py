"""The progress of plans on the switches: the active plan, the switches that lack it, and refusals."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from controller.core.controller_state import ControllerState
from controller.core.enforcement_tasks import flow_encoding_for, task_for_mode
from controller.core.ports.enforcer import Compiler, Refusal, SwitchReport, left_alone
from controller.core.ports.network import Network
from controller.core.ports.runtime import Runtime
from controller.core.speeds.hindrance import hindrance
from controller.core.speeds.speeds_now import Hindrance, SpeedsNow, speeds_now
from controller.model.errors import InputError
from controller.model.switch_key import SwitchKey, shown
from controller.service.reconciling.event_log import EventLog
from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.rules.rule import Rule
from controller.telemetry.instruments import Instruments
from controller.views.times import when

LOG = logging.getLogger("fairspine.service")


class InstallationStatus:
    """Follows what the installer reports.

    Attributes:
        active: the plan whose rules every connected switch has confirmed, and since when.
        first_active: when a plan was active for the first time on all switches without a fault, by the runtime's clock;
            ``None``: none was yet.
    """

    def __init__(
        self,
        runtime: Runtime,
        events: EventLog,
        network: Network,
        instruments: Instruments,
    ) -> None:
        """Begin with no active plan."""
        self._instruments = instruments
        self._runtime, self._events = runtime, events
        self._network, self._enforcer = network, network.enforcer
        self.active: tuple[int, float] | None = None
        self.first_active: float | None = None
        self._reported_texts = _ReportedTexts()
        self._refused: Refusal | None = None
        self._on_the_way: tuple[int, float] | None = None
        self._instead: Mapping[str, int] = {}
        self._hindrance = Hindrance()
        self._subject: tuple[ControllerState, Mapping[SwitchKey, tuple[Rule, ...]]] | None = None
        self._is_examined = False

    def begins(self, epoch: int, began: float) -> None:
        """Note that rules are being sent. ``began``: when work on their plan began, by the clock."""
        # Without switches, a delay is not caused by the rules.
        self._on_the_way = (epoch, began) if self._enforcer.switches() else None

    def update(self, state: ControllerState) -> None:
        """Update after a switch has reached its target, lost it, refused it, or disconnected."""
        switches = self._enforcer.switches()
        texts = [f"{report.name}: {report.error}" for report in switches if report.error]
        for text in self._reported_texts.new([*texts, *self._network.notices()]):
            self._events.append("error", text=text)
        self._see_refusal(state)
        epochs = [report.epoch for report in switches if _takes_part(report, state)]
        oldest, newest = (min(epochs), max(epochs)) if epochs else (-1, -1)
        self._note_first(switches, state)
        if self.active is not None and oldest < self.active[0]:
            # A switch has come back (perhaps empty), or none is left: the plan is no longer what they hold.
            self.active = None
        if oldest == newest and oldest >= 0 and (self.active is None or self.active[0] != oldest):
            self.active = (oldest, self._runtime.now())
            LOG.info("plan %d is active%s", oldest, "" if self._enforcer.agents else f" on {len(epochs)} switches")
            self._events.append("plan", epoch=oldest, state="active")
            if self._on_the_way is not None and self._on_the_way[0] == oldest:
                self._instruments.active(self._runtime.clock() - self._on_the_way[1])
                # A switch that comes back later takes the same rules again, and that is no change of the plan.
                self._on_the_way = None

    def _note_first(self, switches: Sequence[SwitchReport], state: ControllerState) -> None:
        """Note that a plan is active on all switches but faulty ones, which do not hold up the start."""
        well = [report.epoch for report in switches if _takes_part(report, state) and not report.error]
        if self.first_active is None and well and min(well) == max(well) >= 0:
            self.first_active = self._runtime.clock()

    def lacking(self, state: ControllerState) -> frozenset[str] | None:
        """Return the connected switches of the fabric that have not confirmed the newest rules, by name.

        ``None``: it is not known for which jobs the others hold these rules: no switch is connected or some is left
        alone, the newest plan is not enforced yet, or a switch refuses it.
        """
        switches = self._enforcer.switches()
        if not switches or state.enforced < state.epoch or self._enforcer.refusal is not None:
            return None
        if left_alone(state.fabric, self._enforcer):
            return None
        return frozenset(report.name for report in self._behind(state))

    def waits_for(self, state: ControllerState) -> list[str]:
        """Return the connected switches of the fabric that do not have the newest rules; where hosts follow, those."""
        return [name for report in self._behind(state) for name in (report.waits_for or (report.name,))]

    def _behind(self, state: ControllerState) -> list[SwitchReport]:
        reports = self._enforcer.switches()
        return [report for report in reports if report.epoch < state.enforced and _takes_part(report, state)]

    def speeds(self, state: ControllerState) -> SpeedsNow:
        """Return the present speeds of jobs. Does not block."""
        unconfirmed = self._unconfirmed_because(state)
        return speeds_now(
            state,
            connected=bool(self._enforcer.switches()),
            unconfirmed=unconfirmed,
            # It is that of confirmed rules.
            hindrance=Hindrance() if unconfirmed else self._hindrance,
        )

    def _unconfirmed_because(self, state: ControllerState) -> str:
        """Return why the rules that switches hold are not known; empty: they hold those of the state."""
        if not self.confirmed(state):
            if self._enforcer.agents is not None:
                return "the agents of some hosts have not confirmed the plan"
            return "some switch has not confirmed its rules, or is not connected"
        if self._enforcer.refusal is not None:
            return "a switch refuses the newest rules"
        for report in self._enforcer.switches():
            if _takes_part(report, state) and (report.error or report.missing):
                return report.error or f"{report.name} does not have all ports that rules lead to"
        deviations = self._enforcer.deviations()
        drifted = [state.names.get(key, shown(key)) for key, each in deviations.items() if each.drifted]
        if drifted:
            return f"the rules of {drifted[0]} are not those that it confirmed"
        foreign = {key: each.foreign for key, each in deviations.items() if each.foreign and key in state.names}
        return "" if self._examined(state, foreign) else "rules of others are being examined"

    def _examined(self, state: ControllerState, foreign: Mapping[SwitchKey, tuple[Rule, ...]]) -> bool:
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
        may be old. Nothing is known of a switch at which the enforcer enforces nothing, so it confirms nothing.
        """
        fabric = state.fabric
        if fabric is None:
            return False
        live = {name for cable in fabric.cables if cable.up for name in (cable.lower, cable.upper)}
        there = {report.key for report in self._enforcer.switches() if report.epoch >= state.enforced}
        needed = (switch for switch in fabric.switches if switch.name in fabric.leaf_index or switch.name in live)
        return all(switch.key in there for switch in needed)

    def reasons(self) -> list[str]:
        """Return the faults besides errors of single switches, for people."""
        refused = [] if self._refused is None else [self._text(self._refused) + self._when()]
        missing = [
            f"{report.name} does not have port {', '.join(map(str, report.missing))}: packets that rules send there "
            "are dropped"
            for report in self._enforcer.switches()
            if report.missing
        ]
        return [*refused, *missing, *self._network.notices()]

    def refused(self) -> dict[str, Any] | None:
        """Return the refusal of the newest plan as a document, or ``None``."""
        refusal = self._refused
        if refusal is None:
            return None
        return {
            "epoch": refusal.epoch,
            "switch": refusal.switch,
            "kind": refusal.kind,
            "table": refusal.table,
            "short": refusal.short if refusal.is_full else None,
            "text": self._text(refusal),
            "next_try": None if self._next_try is None else when(self._next_try),
            "bare": list(refusal.bare),
            "instead": [{"enforcement": name, "rules": rules} for name, rules in self._instead.items()],
        }

    def _see_refusal(self, state: ControllerState) -> None:
        refusal, before = self._enforcer.refusal, self._refused
        if refusal == before:
            return
        self._refused, self._instead = refusal, {}
        if refusal is not None:
            self._runtime.spawn(lambda: self._propose(refusal, state))

    def _propose(self, refusal: Refusal, state: ControllerState) -> None:
        """Find other enforcements that would need fewer rules, and report the refusal."""
        instead: Mapping[str, int] = {}
        if refusal.is_full and refusal.table is not None:
            try:
                instead = self._runtime.offload(fewer_rules, self._enforcer.compiler, state, refusal.key)
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
        seconds = self._enforcer.next_try
        return None if seconds is None else self._runtime.now() + seconds

    def _when(self) -> str:
        seconds = self._enforcer.next_try
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
    return not state.names or report.key in state.names


def _with(refusal: Refusal, instead: Mapping[str, int]) -> str:
    if not instead:
        return refusal.text
    others = " and ".join(f"{name} {rules}" for name, rules in instead.items())
    return f"{refusal.text}; rules needed with other enforcements: {others}"


def fewer_rules(compiler: Compiler, state: ControllerState, switch: SwitchKey) -> dict[str, int]:
    """Return how many rules a switch would need by each other enforcement by rules that needs fewer, fewest first."""
    fabric, candidate = state.fabric, state.candidate
    if fabric is None or candidate is None or state.compiled is None or state.desired.mode != "planned":
        return {}
    needed = {}
    # Those by hosts need agents there.
    for enforcement in rule_enforcements():
        desired = dataclasses.replace(state.desired, enforcement=enforcement)
        try:
            encoding = flow_encoding_for(fabric, desired, candidate, state.applied)
            compiled = compiler(task_for_mode(fabric, desired, candidate, encoding, state.unknown, learn=False))
        except InputError:
            # This enforcement cannot carry these jobs.
            continue
        needed[enforcement] = compiled.size(switch)
    now = state.compiled.size(switch)
    return dict(sorted(((name, n) for name, n in needed.items() if n < now), key=lambda each: each[1]))
