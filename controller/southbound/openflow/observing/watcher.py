"""Watch windows on the leaves: finds flows of RoCEv2 and TCP that are in no plan, and reads how much each has sent.

One part of the leaves after the other is watched for a second (``controller.southbound.rollout.watch_rules``). What
comes because of this has a budget of its own; when it is used up, the windows close at once. Nothing here waits for a
switch but the reading of counters, which has a greenlet for each leaf.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

from controller.model.packets.flow_ports import ALL_TCP
from controller.model.packets.roce_packet import roce_key
from controller.model.packets.tcp_packet import tcp_ends
from controller.southbound.limits.allowance import Allowance
from controller.southbound.limits.quiet_log import QuietLog
from controller.southbound.openflow.enforcing import watch_messages
from controller.southbound.openflow.enforcing.request_channel import SwitchGone
from controller.southbound.openflow.enforcing.session import Session
from controller.southbound.openflow.enforcing.watch_messages import WatchMessage
from controller.southbound.rollout.watch_rules import (
    COUNTING_COOKIE,
    CountedRule,
    FlowBytes,
    FlowCount,
    PrefixRules,
    WatchedFlow,
)
from controller.southbound.wire.rule_bytes import Template
from controller.southbound.wire.rule_reading import RuleReader

LOG = logging.getLogger("fairspine.southbound")

TURNS = 8
"""Turns in which all leaves are watched once; so at most this part of them, or one, is watched at a time."""

MOST_COUNTED = 1024
"""Counting rules of a leaf."""
MOST_TCP = MOST_COUNTED // 2
"""Those for TCP, which is also what hosts are managed by."""

ENTRIES_PER_SECOND = 20_000
"""Counters that are read a second from all leaves."""

MOST_ABSENT = 4
"""Readings without a rule for a flow after which it is forgotten."""

AGAIN_SECONDS = 60.0
"""Pause at a leaf that has refused a rule."""

_MOST_SENT = 4096


class WatcherRuntime(Protocol):
    """The services that the watcher needs (``controller.core.ports.runtime``)."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others."""

    def offload_in_turn(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, one such call after the other, and return its result."""

    def now(self) -> float:
        """Return the seconds since 1970."""

    def clock(self) -> float:
        """Return the seconds of a monotonic clock."""


class WatchedSwitches(Protocol):
    """The part of the installer that the watcher uses."""

    def session(self, dpid: int) -> Session | None:
        """Return the session of a switch that is intended and connected."""


@dataclass
class _Leaf:
    """One leaf, while its connection lasts.

    Attributes:
        version: of the session, for which ``prefixes`` were collected.
        window: the messages that open its window.
        n_unwatched: of the session, for which the counting rules are on the switch.
        known: destination QP of each known flow.
        absent: number of readings in a row without a rule for a flow.
    """

    session: Session
    version: int = -1
    prefixes: PrefixRules | None = None
    window: list[Template] = field(default_factory=list)
    n_unwatched: int = 0
    known: dict[WatchedFlow, int] = field(default_factory=dict)
    absent: dict[WatchedFlow, int] = field(default_factory=dict)
    bytes: FlowBytes = field(default_factory=FlowBytes)
    busy: bool = False
    not_before: float = 0.0

    def has_room(self, flow: WatchedFlow) -> bool:
        """Return whether one more flow may be counted."""
        if flow.udp_src == ALL_TCP and sum(each.udp_src == ALL_TCP for each in self.known) >= MOST_TCP:
            return False
        return len(self.known) < MOST_COUNTED


class Watcher:
    """The watched leaves. ``step`` is called again and again; without it, nothing is written."""

    def __init__(self, runtime: WatcherRuntime, switches: WatchedSwitches, budget: Allowance, quiet: QuietLog) -> None:
        """Begin without leaves.

        Args:
            runtime: tasks, threads and time.
            switches: the installer.
            budget: from which packets of windows are taken before they come here.
            quiet: the log.
        """
        self._runtime, self._switches, self._budget, self._quiet = runtime, switches, budget, quiet
        self._leaves: dict[int, _Leaf] = {}
        self._open: tuple[int, ...] = ()
        self._turn, self._turn_ends, self._read_at = 0, 0.0, 0.0
        self._hosts: Set[int] = frozenset()
        self._counts: list[FlowCount] = []
        self._sent: dict[tuple[int, int], None] = {}
        self._reader = RuleReader()

    def step(self, leaves: Sequence[int], hosts: Set[int]) -> list[FlowCount]:
        """Open the next windows if it is time, and begin to read counters; return what was read since the last call.

        Args:
            leaves: datapath ids of the leaves.
            hosts: addresses of the hosts whose flows are counted.
        """
        self._hosts = hosts
        now = self._runtime.clock()
        self._follow(leaves)
        if now >= self._turn_ends:
            self._open_next(sorted(self._leaves), now)
        if now >= self._read_at:
            entries = sum(len(leaf.known) for leaf in self._leaves.values())
            self._read_at = now + entries / ENTRIES_PER_SECOND
            for dpid, leaf in self._leaves.items():
                self._begin_reading(dpid, leaf)
        counts, self._counts = self._counts, []
        return counts

    def stop(self) -> None:
        """Remove everything from the switches, and forget it."""
        for leaf in self._leaves.values():
            exchange = leaf.session.exchange
            exchange.offer_change(watch_messages.remove_all(exchange.datapath))
        self._leaves, self._open, self._counts = {}, (), []

    def packet(self, dpid: int, data: bytes) -> None:
        """Take a packet of a window: its flow is counted from now on."""
        leaf, seen = self._leaves.get(dpid), _flow_of(data)
        if leaf is not None and seen is not None:
            flow, dst_qp = seen
            if flow not in leaf.known and {flow.src, flow.dst} <= self._hosts and leaf.has_room(flow):
                self._count(dpid, leaf, flow, dst_qp)
        if self._open and self._budget.available(self._runtime.clock()) < 1:
            self._close()

    def refused(self, message: Any) -> bool:
        """Pause at a leaf that has refused a rule of a window; return whether the error is about one."""
        dpid = message.datapath.id
        if (dpid, message.xid) not in self._sent:
            return False
        leaf = self._leaves.get(dpid)
        if leaf is not None:
            leaf.not_before = self._runtime.clock() + AGAIN_SECONDS
            self._quiet.warning(
                (dpid, "watch"),
                "%s refuses a rule that watches flows; the next attempt is in %g s",
                leaf.session.state.name,
                AGAIN_SECONDS,
            )
        return True

    # -- windows -------------------------------------------------------------------------------------------------

    def _follow(self, leaves: Sequence[int]) -> None:
        """Keep to the connections that there are."""
        sessions = {dpid: session for dpid in leaves if (session := self._switches.session(dpid)) is not None}
        self._leaves = {
            dpid: leaf
            if (leaf := self._leaves.get(dpid)) is not None and leaf.session is session
            else _Leaf(session, n_unwatched=session.n_unwatched)
            for dpid, session in sessions.items()
        }
        for dpid, leaf in self._leaves.items():
            session = leaf.session
            if not session.at_rest:
                continue
            if leaf.version != session.version:
                leaf.prefixes, leaf.version = PrefixRules(session.expected()), session.version
                leaf.window = list(map(watch_messages.watch, leaf.prefixes.watch_rules()))
            if leaf.n_unwatched != session.n_unwatched:
                leaf.n_unwatched = session.n_unwatched
                for flow, dst_qp in list(leaf.known.items()):
                    self._count(dpid, leaf, flow, dst_qp)

    def _open_next(self, dpids: list[int], now: float) -> None:
        at_once = -(-len(dpids) // TURNS)
        self._turn_ends = now + watch_messages.WINDOW_SECONDS
        chosen = [dpids[(self._turn + i) % len(dpids)] for i in range(at_once)]
        self._turn += at_once
        self._open = tuple(dpid for dpid in chosen if self._watch(dpid, self._leaves[dpid], now))

    def _watch(self, dpid: int, leaf: _Leaf, now: float) -> bool:
        if not self._may_write(leaf) or now < leaf.not_before or len(leaf.known) >= MOST_COUNTED:
            return False
        return all(self._send(dpid, leaf, message) for message in leaf.window)

    def _close(self) -> None:
        for dpid in self._open:
            leaf = self._leaves.get(dpid)
            if leaf is not None:
                exchange = leaf.session.exchange
                exchange.offer_change(watch_messages.remove_windows(exchange.datapath))
        self._open = ()

    def _count(self, dpid: int, leaf: _Leaf, flow: WatchedFlow, dst_qp: int) -> None:
        """Put the counting rule of a flow, if base rules are known and will not change."""
        if not self._may_write(leaf):
            return
        assert leaf.prefixes is not None
        rule = leaf.prefixes.counting_rule(flow)
        if rule is not None and self._send(dpid, leaf, watch_messages.count(rule)):
            leaf.known[flow] = dst_qp

    def _may_write(self, leaf: _Leaf) -> bool:
        session = leaf.session
        return leaf.prefixes is not None and session.is_still(leaf.version) and leaf.n_unwatched == session.n_unwatched

    def _send(self, dpid: int, leaf: _Leaf, template: Template) -> bool:
        leaf.session.is_watched()
        exchange = leaf.session.exchange
        message = WatchMessage(exchange.datapath, template)
        if not exchange.offer_change(message):
            return False
        assert message.xid is not None
        self._sent[dpid, message.xid] = None
        while len(self._sent) > _MOST_SENT:
            del self._sent[next(iter(self._sent))]
        return True

    # -- counters ------------------------------------------------------------------------------------------------

    def _begin_reading(self, dpid: int, leaf: _Leaf) -> None:
        if leaf.busy or not leaf.session.at_rest:
            return
        leaf.busy = True
        self._runtime.spawn(lambda: self._read(dpid, leaf))

    def _read(self, dpid: int, leaf: _Leaf) -> None:
        exchange, n_unwatched = leaf.session.exchange, leaf.n_unwatched
        try:
            parts = [
                part
                for request in watch_messages.read_counters(exchange.datapath)
                for part in exchange.ask_raw(request)
            ]
            at = self._runtime.now()
            counted: list[CountedRule] = self._runtime.offload_in_turn(watch_messages.counters, parts, self._reader)
            if self._leaves.get(dpid) is leaf and leaf.session.n_unwatched == n_unwatched:
                # A thousand flows of each leaf take too long on the event loop.
                sent_of, strangers = self._runtime.offload_in_turn(_flow_bytes, leaf.bytes, counted, list(leaf.known))
                if self._leaves.get(dpid) is leaf:
                    self._take(leaf, at, sent_of, strangers)
        except (SwitchGone, ValueError) as error:
            self._quiet.warning((dpid, "watch counters"), "%s: no counters: %s", leaf.session.state.name, error)
        finally:
            leaf.busy = False

    def _take(
        self, leaf: _Leaf, at: float, sent_of: Mapping[WatchedFlow, int], strangers: Sequence[WatchedFlow]
    ) -> None:
        for flow in strangers:
            leaf.known.setdefault(flow, 0)
        leaf.absent = {flow: leaf.absent.get(flow, 0) + 1 for flow in leaf.known.keys() - sent_of.keys()}
        for flow, absent in list(leaf.absent.items()):
            if absent >= MOST_ABSENT:
                del leaf.known[flow], leaf.absent[flow]
                leaf.bytes.forget(flow)
        # Acknowledgements alone are no traffic.
        self._counts += [FlowCount(flow, leaf.known[flow], at, sent) for flow, sent in sent_of.items() if sent]


def _flow_of(data: bytes) -> tuple[WatchedFlow, int] | None:
    """Return the flow of a packet and the QP to which it is sent (TCP: 0); ``None``: it is neither RoCEv2 nor TCP."""
    key = roce_key(data)
    if key is not None:
        ends = int.from_bytes(key[0:4], "big"), int.from_bytes(key[4:8], "big")
        return WatchedFlow(*ends, int.from_bytes(key[8:10], "big")), int.from_bytes(key[10:13], "big")
    tcp = tcp_ends(data)
    return None if tcp is None else (WatchedFlow(*tcp, ALL_TCP), 0)


def _flow_bytes(
    totals: FlowBytes, counted: list[CountedRule], known: list[WatchedFlow]
) -> tuple[dict[WatchedFlow, int], list[WatchedFlow]]:
    """Return the bytes of each flow, and the flows that only rules of an earlier controller count.

    The destination QPs of these are not known.
    """
    here = set(known)
    own = (rule for rule in counted if rule.name[0] == COUNTING_COOKIE >> 48 and rule.mask == 0xFFFF)
    strangers = {flow: None for rule in own if (flow := WatchedFlow(rule.src, rule.dst, rule.udp_src)) not in here}
    return totals.add(counted, [*known, *strangers]), list(strangers)
