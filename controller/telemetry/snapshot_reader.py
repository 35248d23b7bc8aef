"""Reader of rules, groups and counters of every connected switch, used when a client requests a trace.

All switches are asked at once, and replies are decoded off the event loop. A request within ``FRESH`` seconds of a
snapshot gets that snapshot, and a request during a reading waits for its result, so that many clients cause only one
reading of the switches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.model.switch_key import SwitchKey
from controller.southbound.openflow.enforcing import messages
from controller.southbound.openflow.enforcing.request_channel import RequestChannel, SwitchGone
from controller.southbound.rollout.drift import is_ours
from controller.southbound.rollout.watch_rules import is_watching
from controller.southbound.rules.priorities import DISCOVERY, LOWEST_FLOW
from controller.southbound.rules.rule import COOKIE_PREFIX, Rule, RuleKey
from controller.southbound.rules.rule_set import SwitchRules
from controller.telemetry.counters import RuleCounters, SwitchCounters
from controller.telemetry.decoding import port_counts
from controller.telemetry.fabric_snapshot import FRESH, WINDOW, FabricSnapshot, SwitchSnapshot

LOG = logging.getLogger("fairspine.telemetry")


class TaskSignal(Protocol):
    """An event that one task waits for and another task sets."""

    def wait(self, seconds: float | None = None) -> object: ...
    def set(self) -> None: ...


class ReadbackSurroundings(Protocol):
    """The runtime functions that readback uses."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task concurrently with the others."""

    def signal(self) -> TaskSignal:
        """Create a signal that is not set."""

    def lock(self) -> AbstractContextManager[Any]:
        """Create a lock that one task at a time can hold."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task until it returns, and return its result."""

    def now(self) -> float:
        """Return the wall-clock time in seconds since 1970."""

    def clock(self) -> float:
        """Return the time of a monotonic clock in seconds."""


class Readback:
    """Reader of snapshots of all connected switches."""

    def __init__(self, world: ReadbackSurroundings, exchanges: Callable[[], Mapping[int, RequestChannel]]) -> None:
        """Create a reader; ``exchanges`` returns the channels of the connected switches by datapath id."""
        self._world, self._exchanges = world, exchanges
        self._reading = world.lock()
        self._newest: tuple[float, FabricSnapshot] | None = None

    def read(self) -> FabricSnapshot:
        """Return a snapshot that is at most ``FRESH`` seconds old; blocks the calling task."""
        with self._reading:
            if self._newest is None or self._world.clock() - self._newest[0] > FRESH:
                self._newest = self._world.clock(), self._all()
            return self._newest[1]

    def _all(self) -> FabricSnapshot:
        exchanges = dict(self._exchanges())
        snapshots: dict[SwitchKey, SwitchSnapshot] = {}
        silent: dict[SwitchKey, str] = {}
        left, done = set(exchanges), self._world.signal()

        def one(dpid: int, exchange: RequestChannel) -> None:
            try:
                snapshots[dpid] = self._ask(dpid, exchange)
            except (SwitchGone, ValueError) as reason:
                silent[dpid] = str(reason)
            except Exception as reason:
                LOG.exception("switch %#x: rules and counters could not be read", dpid)
                silent[dpid] = f"{type(reason).__name__}: {reason}"
            finally:
                left.discard(dpid)
                if not left:
                    done.set()

        for dpid, exchange in exchanges.items():
            self._world.spawn(lambda dpid=dpid, exchange=exchange: one(dpid, exchange))  # type: ignore[misc]
        if exchanges:
            done.wait()
        last = None if self._newest is None else self._newest[1]
        before: dict[SwitchKey, SwitchCounters] = self._world.offload(_before, last, snapshots)
        return FabricSnapshot(self._world.now(), snapshots, silent, before)

    def _ask(self, dpid: int, exchange: RequestChannel) -> SwitchSnapshot:
        datapath = exchange.datapath
        ports = exchange.ask_raw(messages.count_ports(datapath))
        at = self._world.clock()
        rules = exchange.ask_raw(messages.read_every_rule(datapath))
        groups = exchange.ask_raw(messages.read_groups(datapath))
        dead = frozenset(number for number, port in datapath.ports.items() if _is_dead(port))
        held: SwitchSnapshot = self._world.offload(_held, dpid, at, ports, rules, groups, dead)
        return held


def _before(last: FabricSnapshot | None, snapshots: Mapping[int, SwitchSnapshot]) -> dict[int, SwitchCounters]:
    """Return the counters to compare with, by datapath id.

    These are the counters of the last reading, or, if that is too recent, those that it was compared with. A switch
    whose rules or port states have changed since is left out, since its counters mix both states.
    """
    if last is None:
        return {}
    before = {}
    for dpid, held in snapshots.items():
        old = last.switches.get(dpid)
        if old is None or (old.rules, old.dead) != (held.rules, held.dead):
            continue
        for count in (old.count, last.before.get(dpid)):
            if count is not None and held.count.at - count.at >= WINDOW:
                before[dpid] = count
                break
    return before


def _is_dead(port: Any) -> bool:
    return bool(port.config & ofp.OFPPC_PORT_DOWN or port.state & ofp.OFPPS_LINK_DOWN)


def _held(
    dpid: int, at: float, ports: list[bytes], rules: list[bytes], groups: list[bytes], dead: frozenset[int]
) -> SwitchSnapshot:
    by_key: dict[RuleKey, Rule] = {}
    counted: dict[RuleKey, RuleCounters] = {}
    foreign: dict[RuleKey, int] = {}
    for entry in messages.flow_entries(rules):
        rule = messages.rule_from(entry)
        by_key[rule.key] = rule
        if LOWEST_FLOW <= rule.priority < DISCOVERY and entry.cookie >> 48 == COOKIE_PREFIX:
            counted[rule.key] = RuleCounters(entry.packet_count, entry.byte_count)
        if not is_ours(entry.cookie) and not is_watching(entry.cookie):
            foreign[rule.key] = entry.cookie
    held = SwitchRules(by_key, messages.every_group(messages.group_entries(groups)))
    return SwitchSnapshot(held, SwitchCounters(dpid, at, port_counts(ports), counted), dead, foreign)
