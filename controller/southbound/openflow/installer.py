"""Brings all connected switches to one target, by stages that they take together, and back where one refuses it.

One greenlet a switch (``session.py``). The newest target wins: a switch that is slow skips what was overtaken. What a
switch holds is read once, when it connects, and after any error; between, it is what was last settled by a barrier.
"""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from controller.southbound.openflow import refusals
from controller.southbound.openflow.exchange import Exchange
from controller.southbound.openflow.session import Session, SwitchState
from controller.southbound.rollout import Refusal, Rollout
from controller.southbound.rules import RuleSet, SwitchRules
from controller.southbound.update import Stage

LOG = logging.getLogger("fairspine.southbound")

Offload = Callable[..., Any]
"""``offload(function, *args)`` runs a pure function off the event loop and returns its result."""


class Installer:
    """The switches that are connected now, and the target they converge to.

    Attributes:
        refusal: why the newest target is on no switch; ``None``: none has refused it.
        refusals: how many targets were refused since the start.
        edits: how many changes switches have confirmed since the start.
        errors: how many OpenFlow errors of each type (their names in the standard) have come since the start.
    """

    def __init__(
        self, offload: Offload, *, settled: Callable[[], None], was_read: Callable[[int, SwitchRules], None]
    ) -> None:
        """
        Args:
            settled: called whenever some switch has reached (or lost) its target, or refused it.
            was_read: called with what a switch held of ours when it connected.
        """
        self.offload, self.was_read = offload, was_read
        self._told_settled = settled
        self._sessions: dict[int, Session] = {}
        self.rollout: Rollout | None = None
        self._former: Rollout | None = None
        self.refusal: Refusal | None = None
        self.refusals = self.edits = 0
        self.errors: Counter[str] = Counter()
        self._woken_for: tuple[Rollout, Stage] | None = None

    def target(self, rules: RuleSet, epoch: int, names: Mapping[int, str]) -> None:
        """Converge to these rules from now on; switches that they do not name hold nothing of ours."""
        self.refusal = None
        self._begin(Rollout(rules, epoch, names))

    def _begin(self, rollout: Rollout) -> None:
        # A switch with which something is wrong takes part when it can: nobody waits for it.
        self.rollout = rollout.again(dpid for dpid, session in self._sessions.items() if not session.state.error)
        self.moved_on()

    def connected(self, datapath: Any) -> None:
        """A switch has connected; a former connection of the same datapath id is given up."""
        self.disconnected(datapath.id)
        session = Session(self, datapath, self.name(datapath.id))
        self._sessions[datapath.id] = session
        session.start()

    def disconnected(self, dpid: int, datapath: Any = None) -> None:
        """A connection has ended (with ``datapath`` given: only if it is the current one)."""
        session = self._sessions.get(dpid)
        if session is None or (datapath is not None and session.exchange.datapath is not datapath):
            return
        del self._sessions[dpid]
        session.stop()
        if self.rollout is not None:
            self.rollout.leave(dpid)
        self.moved_on()
        self.settled()

    def ports_changed(self, datapath: Any) -> None:
        """A port has come, gone or changed: rules that lead to it may be possible now, or not any more."""
        session = self._sessions.get(datapath.id)
        if session is not None and session.exchange.datapath is datapath:
            session.wake()

    def exchange(self, datapath: Any) -> Exchange | None:
        """The exchange to which a message of this connection belongs."""
        session = self._sessions.get(datapath.id)
        return session.exchange if session is not None and session.exchange.datapath is datapath else None

    def refused(self, message: Any) -> None:
        """A switch has sent an error: it fails the changes that it answers; what answers nothing is logged."""
        self.errors[refusals.type_of(message)] += 1
        exchange = self.exchange(message.datapath)
        if exchange is None or not exchange.failed(message):
            LOG.warning("switch %#x refused something: %s", message.datapath.id, refusals.describe(message))

    def datapath(self, dpid: int) -> Any:
        """The connection of a switch, or ``None``."""
        session = self._sessions.get(dpid)
        return session.exchange.datapath if session is not None else None

    def exchanges(self) -> dict[int, Exchange]:
        """Of the switches that are connected now, by datapath id."""
        return {dpid: session.exchange for dpid, session in self._sessions.items()}

    def name(self, dpid: int) -> str:
        """Of a switch, for people."""
        names = {} if self.rollout is None else self.rollout.names
        return names.get(dpid, f"{dpid:#x}")

    def states(self) -> list[SwitchState]:
        """The state of each connected switch, by datapath id."""
        return [self._sessions[dpid].state for dpid in sorted(self._sessions)]

    def close(self) -> None:
        """Stop talking; rules stay where they are, so the network forwards on."""
        for session in self._sessions.values():
            session.stop()
        self._sessions.clear()

    # -- what sessions call -------------------------------------------------------------------------------------

    def moved_on(self) -> None:
        now = None if self.rollout is None else (self.rollout, self.rollout.reached)
        if now != self._woken_for:
            self._woken_for = now
            for session in self._sessions.values():
                session.wake()

    def confirmed(self, edits: int) -> None:
        self.edits += edits

    def settled(self) -> None:
        well = [session.state for session in self._sessions.values() if not session.state.error]
        if self.rollout is not None and well and all(state.epoch == self.rollout.epoch for state in well):
            self._former = self.rollout
            if self.refusal is not None and self.refusal.epoch == self.rollout.epoch:
                # There was no other plan to go back to, and now there is room.
                self.refusal = None
        self._told_settled()

    def go_back(self, rollout: Rollout, refusal: Refusal) -> bool:
        if self.rollout is not rollout:
            return True
        self.refusals += 1
        former = self._former
        if former is None or former.epoch == rollout.epoch:
            self.refusal = refusal
            return False
        self.refusal = dataclasses.replace(refusal, stays=former.epoch)
        LOG.error("%s", self.refusal.text)
        self._begin(former)
        self.settled()
        return True
