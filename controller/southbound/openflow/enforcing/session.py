"""One connected switch: reads back what it holds, and takes its part in every rollout."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from eventlet.event import Event
from ryu.lib import hub

from controller.model.switch_key import SwitchKey
from controller.southbound.forwarding.base import LISTEN_RULE
from controller.southbound.openflow.enforcing import messages, refusals, watch_messages
from controller.southbound.openflow.enforcing.coordinator import Coordinator
from controller.southbound.openflow.enforcing.edit_messages import encoded, encoded_work
from controller.southbound.openflow.enforcing.meters import Meters
from controller.southbound.openflow.enforcing.request_channel import Refused, RequestChannel, SwitchGone
from controller.southbound.openflow.enforcing.transfer_limiter import TransferLimiter
from controller.southbound.rollout.desired_rules import entries, is_enforcement
from controller.southbound.rollout.rollout import OpenFlowRefusal, Rollout
from controller.southbound.rollout.update import EditBatch, HeldRules, RemoveFirst, RuleEdit, Stage
from controller.southbound.rollout.watch_rules import changes_base
from controller.southbound.rules.rule import EPOCH_MASK, INSTANCE_SHIFT, Rule
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_bytes import Template
from controller.southbound.wire.rule_reading import RuleReader

LOG = logging.getLogger("fairspine.southbound")

RETRY_FIRST, RETRY_LAST = 0.5, 30.0
"""Seconds before the first retry after an error, doubling up to the last."""

_reader, _limiter = RuleReader(), TransferLimiter()

SHORT_BYTES = 8192
"""Bytes below which a reply is decoded without a thread: some 60 rules."""

SILENT_SECONDS = 1.0
"""Seconds for which other switches wait for one that is asked what it holds and has said nothing."""

LABELS_LINGER = 0.5
"""Seconds between the moment when no switch pushes a label any more and the removal of its rules. Packets are on their
way for less, but Open vSwitch answers a barrier before its cache of forwarding decisions follows the rules."""


@dataclass
class SwitchState:
    """The state of one connected switch.

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

    @property
    def key(self) -> SwitchKey:
        """The key of the switch: its datapath id."""
        return self.dpid

    @property
    def connected(self) -> bool:
        """Always true: a switch that is not connected has no state."""
        return True

    @property
    def waits_for(self) -> tuple[str, ...]:
        """No hosts: the switch itself follows plans."""
        return ()


class _NotTakenError(Exception):
    """The switch refuses its target, and there is no fall-back."""


class Session:
    """One connection: the greenlet that keeps its switch at the target.

    Attributes:
        arrived: the rollout whose rules the switch holds; ``None``: it is on its way, or something is wrong.
        version: grows with everything that changes what the switch should hold.
        n_unwatched: how often rules of watch windows were removed from the switch because base rules change.
    """

    def __init__(self, coordinator: Coordinator, datapath: Any, name: str) -> None:
        """Prepare the session of a switch; ``start`` begins it."""
        self._coordinator = coordinator
        self.exchange = RequestChannel(datapath, permission=coordinator.permission)
        self.state = SwitchState(datapath.id, name)
        self._holding: HeldRules | None = None
        self._done: tuple[Rollout, frozenset[int]] | None = None
        self._doubted: Rollout | None = None
        self._first: tuple[Rollout, RemoveFirst] | None = None
        self._was_full = False
        self._quiet = coordinator.quiet
        self._meters = Meters(coordinator.meters, self._quiet)
        self._port_masks = True
        self.arrived: Rollout | None = None
        self.version = self.n_unwatched = 0
        # Rules of watch windows may be left from an earlier controller.
        self._may_be_watched = True
        self._drifted: SwitchRules | None = None
        self._wake = Event()
        self._running = True

    def start(self) -> None:
        """Start the greenlet of the session."""
        hub.spawn(self._run)

    def stop(self) -> None:
        """End the session; its requests fail."""
        self._running = False
        self.exchange.closed()
        self.wake()

    def wake(self) -> None:
        """Wake the greenlet, since there may be work."""
        if not self._wake.ready():
            self._wake.send(None)

    # -- for the verifier ----------------------------------------------------------------------------------------

    @property
    def is_read(self) -> bool:
        """True if it is known what the switch holds."""
        return self._holding is not None

    @property
    def at_rest(self) -> bool:
        """True if the switch has confirmed all that it should hold, and nothing is on its way."""
        rollout = self._coordinator.rollout
        return rollout is not None and self._holding is not None and self._done == (rollout, self._ports())

    def is_still(self, version: int) -> bool:
        """Return whether it is at rest, and has been since it had this version."""
        return self.at_rest and self.version == version

    @property
    def size(self) -> int:
        """The number of rules that it should hold."""
        return 0 if self._holding is None else len(self._holding.rules)

    def expected(self) -> SwitchRules:
        """Return a copy of the rules and groups that it has confirmed."""
        assert self._holding is not None
        return SwitchRules(dict(self._holding.rules), dict(self._holding.groups))

    def record_deviation(self, held: SwitchRules, *, repair: bool) -> None:
        """Record a deviation from the confirmed rules. ``repair``: now; else with the next change."""
        self._drifted = held
        if repair:
            self._done = None
            self.version += 1
            self.wake()

    def is_watched(self) -> None:
        """Record that there are rules of watch windows on the switch."""
        self._may_be_watched = True

    def record_match(self) -> None:
        """Record that the switch holds what it has confirmed."""
        self._drifted = None

    def _wait(self, seconds: float | None = None) -> None:
        self._wake.wait(seconds)
        if self._wake.ready():
            self._wake = Event()

    def _warn(self, kind: str, text: str, *args: object) -> None:
        """Write a line to the log, one of each kind in a minute."""
        self._quiet.warning((self.state.dpid, kind), text, *args)

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
                self._warn("gone", "%s: %s; next attempt in %g s", self.state.name, error, delay)
            except _NotTakenError as reason:
                error, until_new = str(reason), self._coordinator.rollout
                if error != self.state.error:
                    self._quiet.write(logging.ERROR, (self.state.dpid, "not taken"), "%s", error)
            except Exception as reason:
                # A programming error must not leave a switch outdated unnoticed.
                LOG.exception("%s: its rules could not be brought up to date", self.state.name)
                error = f"{type(reason).__name__}: {reason}"
            self.state.error = error
            # What the switch holds is unknown after an error, so it is read again.
            self._holding = self._done = self.arrived = None
            if self._coordinator.rollout is not None:
                self._coordinator.rollout.leave(self.state.dpid)
            self._coordinator.moved_on()
            self._coordinator.settled()
            self._back_off(delay, until_new)
            delay = min(2 * delay, RETRY_LAST)

    def _back_off(self, seconds: float, until_new: Rollout | None) -> None:
        """Wait before a retry, but no longer than until there is another target (where ``until_new`` is given)."""
        with hub.Timeout(seconds, False):
            while self._running and (until_new is None or self._coordinator.rollout is until_new):
                self._wait()

    def _read(self) -> None:
        exchange = self.exchange
        with _limiter.slot():
            impatience = hub.spawn_after(SILENT_SECONDS, self._coordinator.silent, self)
            try:
                # Behind whatever a slow switch has still to do from before.
                rules, groups = exchange.ask_settled(
                    messages.read_rules(exchange.datapath), messages.read_groups(exchange.datapath)
                )
            finally:
                impatience.cancel()
        is_short = sum(map(len, rules)) + sum(map(len, groups)) < SHORT_BYTES
        likely = self._coordinator.likely(self.state.dpid)
        try:
            held: SwitchRules = (
                _as_rules(rules, groups, likely)
                if is_short
                else self._coordinator.offload(_as_rules, rules, groups, likely)
            )
        except ValueError as error:
            raise SwitchGone(f"its rules cannot be read: {error}") from None
        self._holding, self._drifted = HeldRules(held), None
        self.version += 1
        self._meters.prepare(exchange)
        self._listen(held)
        self._coordinator.was_read(self.state.dpid, held)

    def _listen(self, held: SwitchRules) -> None:
        """Have discovery packets come here before anything else: where cables lead decides what the target is."""
        rollout = self._coordinator.rollout
        wanted = rollout is None or LISTEN_RULE.key in rollout.rules[self.state.dpid].rules
        rule = LISTEN_RULE if self._meters.usable else LISTEN_RULE._replace(meter=None)
        if wanted and held.rules.get(rule.key) != rule:
            epoch = 0 if rollout is None else rollout.epoch
            step, mark = (RuleEdit(True, rule),), self._mark(epoch)
            for refused in self._carry_out(step, mark, encoded(step, mark)):
                # It is part of the target, too, and will be tried again.
                text = refusals.describe(refused.error)
                self._warn("discovery", "%s refuses the rule for discovery: %s", self.state.name, text)

    def _take_part(self, rollout: Rollout) -> None:
        if self._drifted is not None:
            self._holding, self._drifted = HeldRules(self._drifted), None
        state, holding, ports = self.state, self._holding, self._ports()
        assert holding is not None
        state.name = rollout.names.get(state.dpid, f"{state.dpid:#x}")
        first = self._removes_first(rollout)
        mark = self._mark(rollout.epoch)
        compute = partial(encoded_work, meters=self._meters.usable, port_masks=self._port_masks, epoch=mark)
        todo, messages_of = self._coordinator.offload(
            compute, holding.as_rules(), rollout.rules[state.dpid], ports, first
        )
        if todo.missing and todo.missing != state.missing:
            numbers = ", ".join(map(str, todo.missing))
            self._warn("ports", "%s: rules send to ports that the switch does not have: %s", state.name, numbers)
        state.missing, state.sent = todo.missing, 0
        rollout.owes(state.dpid, todo.others_use)
        self._coordinator.moved_on()
        if self._may_be_watched and changes_base(todo):
            self.exchange.send_change(watch_messages.remove_all(self.exchange.datapath))
            self._may_be_watched = False
            self.n_unwatched += 1
        for stage in Stage:
            if not self._may_begin(rollout, stage, alone=not todo.stages[stage]):
                return
            if stage is Stage.REMOVE and todo.labels_go:
                self._arrive(rollout)
                if self._is_over_after(LABELS_LINGER, rollout):
                    return
            for at, step in enumerate(todo.stages[stage]):
                refused = self._carry_out(step, mark, messages_of.get((stage, at)))
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
        while not (alone or rollout.may_begin(self.state.dpid, stage)) and not self._is_over(rollout):
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
        """Record that all rules of the target are on the switch."""
        state = self.state
        if state.sent:
            LOG.info("%s: %d changes for epoch %d", state.name, state.sent, rollout.epoch)
        state.epoch, state.error, state.sent = (-1 if state.dpid in rollout.bare else rollout.epoch), "", 0
        self.arrived, self._was_full = rollout, False
        self._coordinator.heard(state.dpid)
        self._coordinator.settled()

    def _mark(self, epoch: int) -> int:
        """Return what the cookies of the rules of an epoch carry."""
        return self._coordinator.instance << INSTANCE_SHIFT | epoch & EPOCH_MASK

    def _carry_out(self, step: EditBatch, mark: int, templates: list[Template] | None = None) -> list[Refused]:
        """Send a step and wait for its barrier; what was refused of it.

        Args:
            step: the changes.
            mark: see ``_mark``.
            templates: their messages; ``None``: they are encoded now.
        """
        holding = self._holding
        assert holding is not None
        self.version += 1
        if templates is not None:
            self.exchange.send_templates(templates, step)
            refused = self.exchange.settle()
        else:
            with _limiter.slot():
                self.exchange.send_templates(self._coordinator.offload(encoded, step, mark), step)
                refused = self.exchange.settle()
        causes = {id(each.cause) for each in refused}
        holding.carry_out((edit for edit in step if id(edit) not in causes) if causes else step)
        self.state.sent += len(step) - len(causes)
        self._coordinator.confirmed(len(step) - len(causes))
        return refused

    def _not_taken(self, rollout: Rollout, want: SwitchRules, holding: HeldRules, refused: Sequence[Refused]) -> None:
        """Find out what the switch minds, and go back."""
        state = self.state
        if self._meters.given_up(state.name, refused):
            self._holding = self._done = None
            return
        masked = refusals.of_port_masks(refused) if self._port_masks else None
        if masked is not None:
            # OpenFlow 1.3.5, table 12: switches may have no masks for ports.
            self._port_masks = False
            self._holding = self._done = None
            self._warn("masks", "%s refuses rules for several ports: %s; it gets one for each", state.name, masked)
            return
        refusal = refusals.explain(refused, rollout, state.dpid, state.name, want, holding)
        if refusal.is_full and self._can_make_room(rollout, want, refusal):
            text = "%s has no room for old and new rules at once: planned rules are removed first"
            self._warn("room", text, state.name)
            return
        self._done = None
        if refusal.is_full:
            self._was_full = True
        else:
            self._holding = None
        if not refusal.is_full and self._doubted is not rollout:
            # Its state may differ: another program has removed a group. Read it again, and retry.
            self._doubted = rollout
            text = "%s refuses %d changes: %s; its rules are read again"
            self._warn("refuses", text, state.name, len(refused), refusal.detail)
            return
        if not refusal.is_full and any(_is_base(each.cause) for each in refused):
            # Every target has these base rules: the others go on without this switch.
            raise _NotTakenError(refusal.text)
        if not self._coordinator.go_back(rollout, refusal):
            raise _NotTakenError(refusal.text)

    def _removes_first(self, rollout: Rollout) -> RemoveFirst:
        """Return which planned rules to remove before new ones are added."""
        if self._first is not None and self._first[0] is rollout:
            return self._first[1]
        # After a refusal it holds parts of two plans, and is full.
        return RemoveFirst.UNWANTED if self._was_full and not rollout.whole else RemoveFirst.NONE

    def _can_make_room(self, rollout: Rollout, want: SwitchRules, refusal: OpenFlowRefusal) -> bool:
        """Return whether a full switch has room for all that it should hold in the end.

        Then it begins again, and removes more before it adds anything.
        """
        first = RemoveFirst.CHANGED if refusal.table is None else RemoveFirst.UNWANTED
        if entries(want, refusal.table) > refusal.room or self._removes_first(rollout) >= first:
            return False
        self._first = rollout, first
        return True


def _is_base(edit: RuleEdit) -> bool:
    return isinstance(edit.what, Rule) and not is_enforcement(edit.what)


def _as_rules(rules: list[bytes], groups: list[bytes], likely: SwitchRules) -> SwitchRules:
    return SwitchRules(_reader.rules_like(rules, likely), _reader.groups(groups))
