"""One connected switch: reads back what it holds, and takes its part in every rollout."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eventlet.event import Event
from ryu.lib import hub

from controller.southbound.openflow import messages, refusals
from controller.southbound.openflow.exchange import Exchange, Refused, SwitchGone
from controller.southbound.rollout import Refusal, Rollout
from controller.southbound.rules import Rule, SwitchRules
from controller.southbound.update import Edit, Holding, Stage, Step, Work, work

LOG = logging.getLogger("fairspine.southbound")

RETRY_FIRST, RETRY_LAST = 0.5, 30.0
"""Seconds before the first retry after an error, doubling up to the last."""

LABELS_LINGER = 0.5
"""Seconds between the moment when nobody pushes a label any more and the removal of its rules. Packets are on their
way for less, but Open vSwitch answers a barrier before its cache of forwarding decisions follows the rules."""


@dataclass
class SwitchState:
    """What is known of one connected switch.

    Attributes:
        epoch: the last target whose barriers were answered.
        sent: changes that this took.
        error: why it is not at its target; empty: it is, or is on its way.
        missing: ports that its rules should lead to and that it does not have.
    """

    dpid: int
    name: str
    epoch: int = -1
    sent: int = 0
    error: str = ""
    missing: tuple[int, ...] = ()


class Coordinator(Protocol):
    """What a session needs of the installer."""

    @property
    def rollout(self) -> Rollout | None:
        """The newest one."""

    def offload(self, function: Any, *args: Any) -> Any: ...

    def moved_on(self) -> None:
        """A rollout has made progress: others may begin a stage."""

    def settled(self) -> None:
        """A switch has reached its target, or lost it."""

    def confirmed(self, edits: int) -> None:
        """Changes that a switch has confirmed, to be counted."""

    def was_read(self, dpid: int, held: SwitchRules) -> None: ...

    def go_back(self, rollout: Rollout, refusal: Refusal) -> bool:
        """A switch does not take its part; whether there is a former target for all of them."""


class _NotTakenError(Exception):
    """The switch refuses its target, and there is no other one."""


class Session:
    """One connection: the greenlet that keeps its switch at the target."""

    def __init__(self, coordinator: Coordinator, datapath: Any, name: str) -> None:
        self._coordinator = coordinator
        self.exchange = Exchange(datapath)
        self.state = SwitchState(datapath.id, name)
        self._holding: Holding | None = None
        self._done: tuple[Rollout, frozenset[int]] | None = None
        self._doubted: Rollout | None = None
        self._wake = Event()
        self._running = True

    def start(self) -> None:
        hub.spawn(self._run)

    def stop(self) -> None:
        self._running = False
        self.exchange.closed()
        self.wake()

    def wake(self) -> None:
        """There may be something to do."""
        if not self._wake.ready():
            self._wake.send(None)

    def _wait(self, seconds: float | None = None) -> None:
        self._wake.wait(seconds)
        if self._wake.ready():
            self._wake = Event()

    def _ports(self) -> frozenset[int]:
        return frozenset(self.exchange.datapath.ports)

    def _run(self) -> None:
        delay = RETRY_FIRST
        while self._running:
            error: str
            until_new: Rollout | None = None
            try:
                if self._holding is None:
                    self._read()
                rollout = self._coordinator.rollout
                if rollout is None or self._done == (rollout, self._ports()):
                    self._wait()
                else:
                    self._take_part(rollout)
                    delay = RETRY_FIRST
                continue
            except SwitchGone as reason:
                if not self._running:
                    return
                error = str(reason)
                LOG.warning("%s: %s; trying again in %g s", self.state.name, error, delay)
            except _NotTakenError as reason:
                error, until_new = str(reason), self._coordinator.rollout
                if error != self.state.error:
                    LOG.error("%s", error)
            except Exception as reason:
                # A mistake of ours must not leave a switch behind unnoticed.
                LOG.exception("%s: its rules could not be brought up to date", self.state.name)
                error = f"{type(reason).__name__}: {reason}"
            self.state.error = error
            # What it holds now is anybody's guess.
            self._holding = self._done = None
            if self._coordinator.rollout is not None:
                self._coordinator.rollout.leave(self.state.dpid)
            self._coordinator.moved_on()
            self._coordinator.settled()
            self._back_off(delay, until_new)
            delay = min(2 * delay, RETRY_LAST)

    def _back_off(self, seconds: float, until_new: Rollout | None) -> None:
        """Wait; what a switch has refused is not worth a retry, another target is (where ``until_new`` is given)."""
        with hub.Timeout(seconds, False):
            while self._running and (until_new is None or self._coordinator.rollout is until_new):
                self._wait()

    def _read(self) -> None:
        exchange = self.exchange
        # Behind whatever a slow switch has still to do from before.
        exchange.settle()
        rules = exchange.ask(messages.read_rules(exchange.datapath))
        groups = exchange.ask(messages.read_groups(exchange.datapath))
        held: SwitchRules = self._coordinator.offload(_as_rules, rules, groups)
        self._holding = Holding(held)
        self._coordinator.was_read(self.state.dpid, held)

    def _take_part(self, rollout: Rollout) -> None:
        state, holding, ports = self.state, self._holding, self._ports()
        assert holding is not None
        state.name = rollout.names.get(state.dpid, f"{state.dpid:#x}")
        todo: Work = self._coordinator.offload(work, holding.as_rules(), rollout.rules[state.dpid], ports)
        if todo.missing and todo.missing != state.missing:
            numbers = ", ".join(map(str, todo.missing))
            LOG.warning("%s: rules lead to ports that it does not have: %s", state.name, numbers)
        state.missing, state.sent = todo.missing, 0
        rollout.owes(state.dpid, todo.others_use)
        self._coordinator.moved_on()
        for stage in Stage:
            if not self._may_begin(rollout, stage, alone=not todo.stages[stage]):
                return
            if stage is Stage.REMOVE and todo.labels_go:
                self._arrive(rollout)
                if self._is_over_after(LABELS_LINGER, rollout):
                    return
            for step in todo.stages[stage]:
                refused = self._carry_out(step, rollout.epoch)
                if refused:
                    self._not_taken(rollout, todo.want, holding, refused)
                    return
                if self._is_over(rollout):
                    return
            rollout.confirmed(state.dpid, stage)
            self._coordinator.moved_on()
        self._done = rollout, ports
        self._arrive(rollout)

    def _may_begin(self, rollout: Rollout, stage: Stage, *, alone: bool) -> bool:
        """Wait for the other switches, unless there is nothing to do; ``False``: a newer target has come."""
        while not (alone or stage <= rollout.reached) and not self._is_over(rollout):
            self._wait()
        return not self._is_over(rollout)

    def _is_over(self, rollout: Rollout) -> bool:
        return not self._running or self._coordinator.rollout is not rollout

    def _is_over_after(self, seconds: float, rollout: Rollout) -> bool:
        with hub.Timeout(seconds, False):
            while not self._is_over(rollout):
                self._wait()
        return self._is_over(rollout)

    def _arrive(self, rollout: Rollout) -> None:
        """All that the target puts on the switch is there."""
        state = self.state
        if state.sent:
            LOG.info("%s: %d changes for epoch %d", state.name, state.sent, rollout.epoch)
        state.epoch, state.error, state.sent = rollout.epoch, "", 0
        self._coordinator.settled()

    def _carry_out(self, step: Step, epoch: int) -> list[Refused]:
        """Send a step and wait for its barrier; what was refused of it."""
        datapath, holding = self.exchange.datapath, self._holding
        assert holding is not None
        self.exchange.send((_message(datapath, edit, epoch), edit) for edit in step)
        refused = self.exchange.settle()
        causes = {id(each.cause) for each in refused}
        holding.carry_out(edit for edit in step if id(edit) not in causes)
        self.state.sent += len(step) - len(causes)
        self._coordinator.confirmed(len(step) - len(causes))
        return refused

    def _not_taken(self, rollout: Rollout, want: SwitchRules, holding: Holding, refused: Sequence[Refused]) -> None:
        """Find out what the switch minds, and go back."""
        state = self.state
        refusal = refusals.explain(refused, rollout, state.dpid, state.name, want, holding)
        self._holding = self._done = None
        if not refusal.is_full and self._doubted is not rollout:
            # It may hold something else than it should: somebody has taken a group away. Read it again, and try again.
            self._doubted = rollout
            LOG.warning("%s refuses %d changes: %s; reading it again", state.name, len(refused), refusal.detail)
            return
        if not self._coordinator.go_back(rollout, refusal):
            raise _NotTakenError(refusal.text)


def _message(datapath: Any, edit: Edit, epoch: int) -> Any:
    if isinstance(edit.what, Rule):
        return messages.put_rule(datapath, edit.what, epoch) if edit.put else messages.remove_rule(datapath, edit.what)
    if edit.put:
        return messages.put_group(datapath, edit.what, replaces=edit.replaces)
    return messages.remove_group(datapath, edit.what)


def _as_rules(entries: list[Any], groups: list[Any]) -> SwitchRules:
    return SwitchRules(messages.rules_from(entries), messages.groups_from(groups))
