"""Brings all connected switches to one target, by stages that they take together; a fall-back where one refuses it.

One greenlet a switch (``session.py``). The newest target wins: a switch that is slow skips what was overtaken. What a
switch holds is read when it connects and after any error; between, it is what was last settled by a barrier.

A refused target is tried again, after a time that doubles, and at once when there may be room. Meanwhile switches hold
a fall-back (``controller.southbound.rollout.desired_rules``).
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ryu.lib import hub

from controller.southbound.limits.quiet_log import QuietLog
from controller.southbound.limits.switch_names import SwitchNames
from controller.southbound.openflow.enforcing import refusals
from controller.southbound.openflow.enforcing.request_channel import RequestChannel
from controller.southbound.openflow.enforcing.session import Session, SwitchState
from controller.southbound.rollout.desired_rules import DesiredRules, Fallback, RuleCapacity
from controller.southbound.rollout.rollout import OpenFlowRefusal, Rollout
from controller.southbound.rollout.update import Stage
from controller.southbound.rollout.write_permission import WritePermission
from controller.southbound.rules.rule_set import RuleSet, SwitchRules

LOG = logging.getLogger("fairspine.southbound")

RETRY_FIRST, RETRY_LAST = 1.0, 60.0
"""Seconds before a refused target is tried again, doubling up to the last."""

SIGN_SECONDS = 60.0
"""Between two signs that there may be room on a switch which are acted upon. A switch can send any number of them, and
each attempt costs all switches the whole target."""

SILENT = "it does not say which rules it holds; no other switch waits for it"

NOBODY = -1
"""No switch: datapath ids are not negative."""

Offload = Callable[..., Any]
"""``offload(function, *args)`` runs a pure function off the event loop and returns its result."""


class Installer:
    """The switches that are connected now, and the target they converge to.

    Attributes:
        refusal: why the newest target is not on the switches; ``None``: none has refused it.
        refusals: how many targets were refused since the start.
        edits: how many changes switches have confirmed since the start.
        expected: what switches are likely to hold while there is no target: what an earlier leader gave them.
        errors: how many OpenFlow errors of each type (their names in the standard) have come since the start.
        quiet: the log of what switches do when rules are put on them.
    """

    def __init__(
        self,
        offload: Offload,
        *,
        names: SwitchNames,
        settled: Callable[[], None],
        was_read: Callable[[int, SwitchRules], None],
        clock: Callable[[], float] = time.monotonic,
        instance: int = 0,
        meters: bool = True,
    ) -> None:
        """Begin without switches and without a target.

        Args:
            offload: runs a function in a thread.
            names: of switches; the installer gives it those of each target.
            settled: called whenever some switch has reached (or lost) its target, or refused it.
            was_read: called with what a switch held of ours when it connected.
            clock: seconds of a monotonic clock.
            instance: of the store, 16 bits; every rule carries it in its cookie.
            meters: whether switches that have meters are given some.
        """
        self.instance, self.meters = instance, meters
        self.permission = WritePermission()
        self.offload, self.was_read = offload, was_read
        self._names, self._on_settled, self._clock = names, settled, clock
        self._sessions: dict[int, Session] = {}
        self.rollout: Rollout | None = None
        self.expected = RuleSet()
        self._target: DesiredRules | None = None
        self._fits: tuple[int, Any] | None = None
        self._fall_back: Fallback | None = None
        self._room = RuleCapacity()
        self.refusal: OpenFlowRefusal | None = None
        self.refusals = self.edits = 0
        self.errors: Counter[str] = Counter()
        self._retry_seconds = RETRY_FIRST
        self._retry_at: float | None = None
        self._tried = -RETRY_FIRST
        self._signs: dict[int, float] = {}
        self._silent: set[int] = set()
        self._behind = NOBODY
        self._one_fall_back = hub.Semaphore(1)
        self._retry: Any = None
        self.quiet, self._errors_log = QuietLog(LOG, clock=clock), QuietLog(LOG, clock=clock)
        self._woken_for: tuple[Rollout, tuple[Stage, bool]] | None = None

    def target(self, target: DesiredRules) -> None:
        """Converge to these rules from now on; switches that they do not name hold nothing of ours."""
        self._names.learn(target.names)
        for dpid, session in self._sessions.items():
            # Of switches that take no part in rollouts, too.
            session.state.name = self._names(dpid)
        self._target = target
        self._silent.intersection_update(target.names)
        self._stop_retry()
        self._retry_seconds = RETRY_FIRST
        short = None if self.refusal is None else self._room.short(target.rules)
        if self.refusal is None or short is None:
            self._try_whole()
            return
        # They would be refused again. What follows from the network must not wait for that.
        dpid, table, missing = short
        refusal = dataclasses.replace(
            self.refusal, epoch=target.epoch, dpid=dpid, switch=self._names(dpid), table=table, short=missing
        )
        hub.spawn(self._fall_back_at_once, target, self._fall_back or Fallback(self._fits), refusal)

    def likely(self, dpid: int) -> SwitchRules:
        """Return the rules that a switch is likely to hold when it connects."""
        return (self.expected if self.rollout is None else self.rollout.rules)[dpid]

    @property
    def next_try(self) -> float | None:
        """Seconds until the refused target is tried again; ``None``: no try is planned, or one is under way."""
        return None if self._retry_at is None else max(0.0, self._retry_at - self._clock())

    def _begin(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.moved_on()

    def _well(self) -> dict[int, Session]:
        """Return the switches that the others wait for: those of the fabric, except faulty and silent ones.

        A switch that is not part of the fabric gets rules, too, but any program may connect as one.
        """
        return {dpid: session for dpid, session in self._sessions.items() if self._is_well(dpid, session)}

    def _is_well(self, dpid: int, session: Session) -> bool:
        return (
            self._target is not None
            and dpid in self._target.names
            and dpid not in self._silent
            and not session.state.error
        )

    def _try_whole(self) -> None:
        """Give all switches the target itself."""
        target = self._target
        assert target is not None
        self._stop_retry()
        self._tried = self._clock()
        first = () if self.refusal is None else (self.refusal.dpid,)
        self._begin(Rollout(target.rules, target.epoch, target.names, self._well(), first=first))

    # -- connections --------------------------------------------------------------------------------------------

    def connected(self, datapath: Any) -> None:
        """Begin a session with a switch that has connected; end an earlier one of the same datapath id."""
        self.disconnected(datapath.id)
        session = Session(self, datapath, self._names(datapath.id))
        self._sessions[datapath.id] = session
        if datapath.id in self._silent:
            session.state.error = SILENT
        session.start()
        self.may_have_room(datapath.id)

    def disconnected(self, dpid: int, datapath: Any = None) -> None:
        """End the session of a connection (with ``datapath`` given: only if it is the current one)."""
        session = self._sessions.get(dpid)
        if session is None or (datapath is not None and session.exchange.datapath is not datapath):
            return
        del self._sessions[dpid]
        session.stop()
        if self.rollout is not None:
            self.rollout.leave(dpid)
            if session.arrived is None:
                # It may connect again and again: the others wait for it only once it has taken its rules.
                self._note_silent(dpid)
        self.moved_on()
        self.may_have_room(dpid)
        self.settled()

    def ports_changed(self, datapath: Any) -> None:
        """Reconsider the rules of a switch whose ports have changed: they may be possible now, or no longer."""
        session = self._sessions.get(datapath.id)
        if session is not None and session.exchange.datapath is datapath:
            session.wake()
            # Not at once: it may be the failure of a cable, and the rules for that come first.
            self._try_soon(datapath.id, RETRY_FIRST)

    def may_have_room(self, dpid: int) -> None:
        """Reconsider refused rules of a switch that has restarted or lost rules: they may be possible now."""
        self._room.forget(dpid)
        if self._try_soon(dpid, self._tried + RETRY_FIRST - self._clock()):
            self._fall_back = None

    def _try_soon(self, dpid: int, seconds: float) -> bool:
        """Try the target sooner than planned, if this switch refused it; return whether it is to be tried.

        At most once in ``SIGN_SECONDS`` for each switch: otherwise a switch that refuses everything and reports
        changes without end would have all others change their rules every second.
        """
        left, seconds = self.next_try, max(seconds, 0.0)
        if self.refusal is None or self.refusal.dpid != dpid or left is None:
            return False
        if left > seconds:
            now = self._clock()
            if now - self._signs.get(dpid, -SIGN_SECONDS) < SIGN_SECONDS:
                return False
            self._signs[dpid] = now
            self._retry_seconds = RETRY_FIRST
            self._try_in(seconds)
        return True

    def exchange(self, datapath: Any) -> RequestChannel | None:
        """Return the exchange to which a message of this connection belongs."""
        session = self._sessions.get(datapath.id)
        return session.exchange if session is not None and session.exchange.datapath is datapath else None

    def refused(self, message: Any) -> None:
        """Pass an error to the changes that it answers, which then fail; log one that answers none."""
        self.errors[refusals.type_of(message)] += 1
        exchange = self.exchange(message.datapath)
        if exchange is None or not exchange.failed(message):
            dpid, text = message.datapath.id, refusals.describe(message)
            self._errors_log.warning((dpid, text), "switch %#x refused a request: %s", dpid, text)

    def datapath(self, dpid: int) -> Any:
        """Return the connection of a switch, or ``None``."""
        session = self._sessions.get(dpid)
        return session.exchange.datapath if session is not None else None

    def exchanges(self) -> dict[int, RequestChannel]:
        """Return the exchanges of the switches connected now, by datapath id, without those that are not intended."""
        return {dpid: session.exchange for dpid, session in self.sessions().items()}

    def sessions(self) -> dict[int, Session]:
        """Return the sessions of the switches connected now, by datapath id, without those that are not intended.

        Those are read once, when they connect, and lose what they hold of ours; they are not read again.
        """
        return {dpid: each for dpid, each in self._sessions.items() if each.exchange.datapath.intended}

    def session(self, dpid: int) -> Session | None:
        """Return what ``sessions`` has of one switch."""
        session = self._sessions.get(dpid)
        return session if session is not None and session.exchange.datapath.intended else None

    def states(self) -> list[SwitchState]:
        """Return the state of each connected switch, by datapath id."""
        return [self._sessions[dpid].state for dpid in sorted(self._sessions)]

    def close(self) -> None:
        """Stop talking; rules stay where they are, so the network forwards on."""
        self._stop_retry()
        while self._sessions:
            self._sessions.popitem()[1].stop()

    # -- what sessions call -------------------------------------------------------------------------------------

    def moved_on(self) -> None:
        """Wake all sessions if the rollout has progressed."""
        now = None if self.rollout is None else (self.rollout, self.rollout.progress)
        if now != self._woken_for:
            self._woken_for = now
            for session in self._sessions.values():
                session.wake()

    def silent(self, session: Session) -> None:
        """Let the other switches go on without one that does not say what it holds."""
        dpid = session.state.dpid
        if self._sessions.get(dpid) is session:
            session.state.error = session.state.error or SILENT
            self._note_silent(dpid)
            if self.rollout is not None:
                self.rollout.leave(dpid)
            self.moved_on()
            self.settled()

    def heard(self, dpid: int) -> None:
        """Let the other switches wait for this one again: it has confirmed its rules."""
        self._silent.discard(dpid)

    def _note_silent(self, dpid: int) -> None:
        # Any program may connect with any datapath id; only those of the fabric are ever waited for.
        if self._target is not None and dpid in self._target.names:
            self._silent.add(dpid)

    def confirmed(self, edits: int) -> None:
        """Count edits that a switch has confirmed."""
        self.edits += edits

    def settled(self) -> None:
        """Check whether all switches hold the rollout's rules, and call ``settled``."""
        rollout, target = self.rollout, self._target
        if rollout and target and rollout.whole and rollout.rules is target.rules and self._all_hold(rollout):
            self._fits = target.epoch, target.plan
            self._all_fits()
        self._on_settled()

    def _all_hold(self, rollout: Rollout) -> bool:
        """Return whether all switches that the others wait for, and at least one, hold the rules of a rollout.

        Each of a thousand switches asks this when it arrives, so the one that was behind last is looked at first.
        """
        behind = self._sessions.get(self._behind)
        if behind is not None and self._is_well(self._behind, behind) and behind.arrived is not rollout:
            return False
        well = self._well()
        self._behind = next((dpid for dpid, session in well.items() if session.arrived is not rollout), NOBODY)
        return bool(well) and self._behind == NOBODY

    def _all_fits(self) -> None:
        """End the fall-back: every switch has taken the target."""
        if self.refusal is not None:
            LOG.info("plan %d: every switch accepts it now", self.refusal.epoch)
        self.refusal, self._fall_back, self._retry_seconds = None, None, RETRY_FIRST
        self._room.forget()
        self._stop_retry()

    def go_back(self, rollout: Rollout, refusal: OpenFlowRefusal) -> bool:
        """Begin a fall-back because a switch does not take its part; return whether there is one.

        ``False``: that switch does not take its base rules, or is not part of the fabric, so that the others go on
        without it.

        Blocks the calling greenlet while a fall-back is made. Of switches that refuse a rollout together the first
        causes one; the others get it, too.
        """
        with self._one_fall_back:
            return self._go_back(rollout, refusal)

    def _go_back(self, rollout: Rollout, refusal: OpenFlowRefusal) -> bool:
        target = self._target
        if self.rollout is not rollout or target is None:
            return True
        if refusal.dpid not in target.names:
            return False
        if refusal.is_full:
            self._room.record(refusal.dpid, refusal.table, refusal.room)
        if rollout.whole:
            self.refusals += 1
            lower: Fallback | None = self._fall_back or self._first_fall_back(refusal.dpid, rollout)
        else:
            # There is none any more where the target is about to be tried again (``may_have_room``).
            lower = (self._fall_back or Fallback()).lower(refusal.dpid, rollout.rules[refusal.dpid])
            if self.refusal is not None and self.refusal.epoch == target.epoch:
                # The refusal of the plan is known already, and it is the one that people can act on.
                refusal = self.refusal
        if lower is None:
            self.refusal = self.refusal or refusal
            return False
        self._begin_fall_back(target, lower, refusal)
        return True

    def _first_fall_back(self, dpid: int, rollout: Rollout) -> Fallback | None:
        target = self._target
        assert target is not None
        if self._fits is not None and self._fits[0] != target.epoch and target.earlier is not None:
            return Fallback(self._fits)
        return Fallback().lower(dpid, rollout.rules[dpid])

    # -- while a target is refused --------------------------------------------------------------------------------

    def _fall_back_at_once(self, target: DesiredRules, fall_back: Fallback, refusal: OpenFlowRefusal) -> None:
        """Give all switches a fall-back for a target that would be refused."""
        with self._one_fall_back:
            if self._target is not target:
                return
            try:
                self._begin_fall_back(target, fall_back, refusal)
            except Exception:
                # This is a programming error. Nothing of the target has been sent: it must be tried as a whole.
                LOG.exception("plan %d: the fall-back could not be computed", target.epoch)
                if self._target is target:
                    self.refusal = refusal
                    self._try_later()

    def _begin_fall_back(self, target: DesiredRules, fall_back: Fallback, refusal: OpenFlowRefusal) -> None:
        """Give all switches a fall-back for a target, unless they were given something else by the time it is made."""
        before = self.rollout
        try:
            rules = self.offload(fall_back.rules, target)
        except Exception:
            # Base rules alone need no plan.
            LOG.exception("the fall-back with planned rules could not be computed")
            fall_back = Fallback(all_bare=True)
            rules = fall_back.rules(target)
        if self._target is not target or self.rollout is not before:
            return
        self._fall_back = fall_back
        stays = fall_back.earlier[0] if fall_back.earlier is not None else None
        bare = frozenset(rules) if fall_back.all_bare else fall_back.bare
        extended = dataclasses.replace(refusal, stays=stays, bare=tuple(sorted(map(self._names, bare))))
        if extended != self.refusal:
            LOG.error("%s", extended.text)
        self.refusal = extended
        epoch = target.epoch if stays is None else stays
        self._begin(Rollout(rules, epoch, target.names, self._well(), bare=bare, whole=False))
        self._try_later()
        self.settled()

    def _try_later(self) -> None:
        """Plan to try the target again, unless that is planned already."""
        if self._retry_at is None:
            self._try_in(self._retry_seconds)
            self._retry_seconds = min(2 * self._retry_seconds, RETRY_LAST)

    def _try_in(self, seconds: float) -> None:
        self._stop_retry()
        self._retry_at = self._clock() + seconds
        self._retry = hub.spawn_after(seconds, self._try_again)

    def _try_again(self) -> None:
        self._retry = self._retry_at = None
        if self.refusal is not None and self._target is not None:
            LOG.info("plan %d is retried: %s refused it", self._target.epoch, self.refusal.switch)
            self._try_whole()

    def _stop_retry(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._retry_at = None
