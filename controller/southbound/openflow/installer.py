"""Keeps every connected switch holding what it should: reads back, sends differences, waits for barriers.

One greenlet a switch. The newest target wins: a switch that is slow skips what was overtaken. What a switch holds is
read once, when it connects, and after any error; between, it is what was last settled by a barrier.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventlet.event import Event
from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.openflow import messages
from controller.southbound.openflow.exchange import Exchange, SwitchGone
from controller.southbound.rules import EMPTY, Changes, RuleSet, SwitchRules, by_nesting, difference

LOG = logging.getLogger("fairspine.southbound")

RETRY_FIRST, RETRY_LAST = 0.5, 30.0
"""Seconds before the first retry after an error, doubling up to the last."""

Offload = Callable[..., Any]
"""``offload(function, *args)`` runs a pure function off the event loop and returns its result."""


@dataclass
class SwitchState:
    """What is known of one connected switch. ``epoch``: the last target whose barrier was answered."""

    dpid: int
    name: str
    epoch: int = -1
    held: SwitchRules | None = None
    sent: int = 0
    error: str = ""


class Installer:
    """The switches that are connected now, and the target they converge to."""

    def __init__(
        self, offload: Offload, *, settled: Callable[[], None], was_read: Callable[[int, SwitchRules], None]
    ) -> None:
        """
        Args:
            settled: called whenever some switch has reached (or lost) its target.
            was_read: called with what a switch held of ours when it connected.
        """
        self._offload = offload
        self._settled = settled
        self._was_read = was_read
        self._sessions: dict[int, _Session] = {}
        self._target = RuleSet()
        self._epoch = -1
        self._names: dict[int, str] = {}

    def target(self, rules: RuleSet, epoch: int, names: dict[int, str]) -> None:
        """Converge to these rules from now on; switches that they do not name hold nothing of ours."""
        self._target, self._epoch, self._names = rules, epoch, names
        for session in self._sessions.values():
            session.wake()

    def connected(self, datapath: Any) -> None:
        """A switch has connected; a former connection of the same datapath id is given up."""
        self.disconnected(datapath.id)
        session = self._sessions[datapath.id] = _Session(self, datapath)
        session.start()

    def disconnected(self, dpid: int, datapath: Any = None) -> None:
        """A connection has ended (with ``datapath`` given: only if it is the current one)."""
        session = self._sessions.get(dpid)
        if session is None or (datapath is not None and session.exchange.datapath is not datapath):
            return
        del self._sessions[dpid]
        session.stop()
        self._settled()

    def exchange(self, datapath: Any) -> Exchange | None:
        """The exchange to which a message of this connection belongs."""
        session = self._sessions.get(datapath.id)
        return session.exchange if session is not None and session.exchange.datapath is datapath else None

    def refused(self, message: Any) -> None:
        """A switch has sent an error: it fails the changes that it answers; what answers nothing is logged."""
        exchange = self.exchange(message.datapath)
        if exchange is None or not exchange.failed(message):
            LOG.warning("switch %#x refused something: %s", message.datapath.id, _describe(message))

    def datapath(self, dpid: int) -> Any:
        """The connection of a switch, or ``None``."""
        session = self._sessions.get(dpid)
        return session.exchange.datapath if session is not None else None

    def states(self) -> list[SwitchState]:
        """The state of each connected switch, by datapath id."""
        return [self._sessions[dpid].state for dpid in sorted(self._sessions)]

    def close(self) -> None:
        """Stop talking; rules stay where they are, so the network forwards on."""
        for session in self._sessions.values():
            session.stop()
        self._sessions.clear()

    def wanted(self, dpid: int) -> tuple[SwitchRules, int, str]:
        """The target of one switch, its epoch, and the switch's name."""
        return self._target[dpid], self._epoch, self._names.get(dpid, f"{dpid:#x}")

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return self._offload(function, *args)

    def settled(self) -> None:
        self._settled()

    def was_read(self, dpid: int, held: SwitchRules) -> None:
        self._was_read(dpid, held)


class _Session:
    """One connection: the greenlet that keeps its switch at the target."""

    def __init__(self, installer: Installer, datapath: Any) -> None:
        self._installer = installer
        self.exchange = Exchange(datapath)
        self.state = SwitchState(datapath.id, installer.wanted(datapath.id)[2])
        self._wake = Event()
        self._running = True

    def start(self) -> None:
        hub.spawn(self._run)

    def stop(self) -> None:
        self._running = False
        self.exchange.closed()
        self.wake()

    def wake(self) -> None:
        if not self._wake.ready():
            self._wake.send(None)

    def _run(self) -> None:
        delay = RETRY_FIRST
        while self._running:
            try:
                held = self._read() if self.state.held is None else self.state.held
                want, epoch, self.state.name = self._installer.wanted(self.state.dpid)
                if epoch < 0 or (epoch == self.state.epoch and not self.state.error):
                    self._wake.wait()
                    self._wake = Event()
                    continue
                self._converge(held, want, epoch)
            except SwitchGone as reason:
                if not self._running:
                    return
                LOG.warning("%s: %s; trying again in %g s", self.state.name, reason, delay)
                self.state.error = str(reason)
            except Exception as error:
                # A mistake of ours must not leave a switch behind unnoticed.
                LOG.exception("%s: its rules could not be brought up to date", self.state.name)
                self.state.error = f"{type(error).__name__}: {error}"
            if self.state.error:
                # What it holds now is anybody's guess.
                self.state.held = None
                self._installer.settled()
                hub.sleep(delay)
                delay = min(2 * delay, RETRY_LAST)
            else:
                delay = RETRY_FIRST

    def _read(self) -> SwitchRules:
        exchange = self.exchange
        rules = exchange.ask(messages.read_rules(exchange.datapath))
        groups = exchange.ask(messages.read_groups(exchange.datapath))
        held: SwitchRules = self._installer.offload(_as_rules, rules, groups)
        self.state.held, self.state.error = held, ""
        self._installer.was_read(self.state.dpid, held)
        return held

    def _converge(self, held: SwitchRules, want: SwitchRules, epoch: int) -> None:
        state = self.state
        changes = self._installer.offload(difference, held, want)
        refused = self._send(changes, epoch)
        if refused:
            state.error = "; ".join(_describe(error) for error in refused[:3])
            LOG.error("%s refused %d of %d changes: %s", state.name, len(refused), state.sent, state.error)
            return
        state.held, state.epoch, state.error = want, epoch, ""
        if state.sent:
            LOG.info("%s: %d changes for epoch %d, %d rules", state.name, state.sent, epoch, len(want))
        self._installer.settled()

    def _send(self, changes: Changes, epoch: int) -> list[Any]:
        """Groups before what leads to them, and the reverse for what goes: never a hole between.

        A switch may reorder what is not parted by a barrier (OpenFlow 1.3.5, section 6.2), so each stage ends with one.
        The first stage that is refused is the last.
        """
        datapath = self.exchange.datapath
        stages = [
            *([messages.put_group(datapath, group) for group in level] for level in by_nesting(changes.new_groups)),
            (messages.put_rule(datapath, rule, epoch) for rule in changes.put_rules),
            (messages.remove_rule(datapath, rule) for rule in changes.removed_rules),
            *(
                [messages.remove_group(datapath, group) for group in level]
                for level in by_nesting(changes.removed_groups)
            ),
        ]
        self.state.sent = 0
        for stage in stages:
            sent = self.exchange.send(stage)
            self.state.sent += sent
            errors = self.exchange.settle() if sent else []
            if errors:
                return errors
        return []


def _as_rules(entries: list[Any], groups: list[Any]) -> SwitchRules:
    return SwitchRules(messages.rules_from(entries), messages.groups_from(groups)) if entries or groups else EMPTY


def _describe(error: Any) -> str:
    return f"{ofp.ofp_error_type_to_str(error.type)}, {ofp.ofp_error_code_to_str(error.type, error.code)}"
