"""Reads rules, groups and counters back from every connected switch, when somebody asks for a trace.

All switches are asked at once, and replies are decoded off the event loop. Whoever asks within ``FRESH`` seconds of a
reading gets that one, and whoever asks while one is under way waits for it: many readers cost the switches one reading.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.base import FLOW
from controller.southbound.openflow import messages
from controller.southbound.openflow.exchange import Exchange, SwitchGone
from controller.southbound.rules import COOKIE_PREFIX, Rule, RuleKey, SwitchRules
from controller.telemetry.counts import Count, SwitchCount
from controller.telemetry.decoding import port_counts
from controller.telemetry.held import FRESH, WINDOW, Held, Reading

LOG = logging.getLogger("fairspine.telemetry")


class Signal(Protocol):
    """What one task waits for and another one gives."""

    def wait(self, seconds: float | None = None) -> object: ...
    def set(self) -> None: ...


class World(Protocol):
    """What readback needs of its surroundings."""

    def spawn(self, task: Callable[[], None]) -> None:
        """Run a task beside the others."""

    def signal(self) -> Signal:
        """A new signal, not set."""

    def lock(self) -> AbstractContextManager[Any]:
        """One task at a time."""

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a function off the event loop, block the calling task meanwhile."""

    def now(self) -> float:
        """Seconds since 1970."""

    def clock(self) -> float:
        """Seconds that only ever grow."""


class Readback:
    """Makes readings."""

    def __init__(self, world: World, exchanges: Callable[[], Mapping[int, Exchange]]) -> None:
        """``exchanges``: of the switches that are connected now, by datapath id."""
        self._world, self._exchanges = world, exchanges
        self._reading = world.lock()
        self._newest: tuple[float, Reading] | None = None

    def read(self) -> Reading:
        """What switches hold now, or held a moment ago; blocks the calling task."""
        with self._reading:
            if self._newest is None or self._world.clock() - self._newest[0] > FRESH:
                self._newest = self._world.clock(), self._all()
            return self._newest[1]

    def _all(self) -> Reading:
        exchanges = dict(self._exchanges())
        found: dict[int, Held] = {}
        silent: dict[int, str] = {}
        left, done = set(exchanges), self._world.signal()

        def one(dpid: int, exchange: Exchange) -> None:
            try:
                found[dpid] = self._ask(dpid, exchange)
            except SwitchGone as reason:
                silent[dpid] = str(reason)
            except Exception as reason:
                LOG.exception("switch %#x: what it holds could not be read", dpid)
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
        before: dict[int, SwitchCount] = self._world.offload(_before, last, found)
        return Reading(self._world.now(), found, silent, before)

    def _ask(self, dpid: int, exchange: Exchange) -> Held:
        datapath = exchange.datapath
        ports = exchange.ask_raw(messages.count_ports(datapath))
        at = self._world.clock()
        rules = exchange.ask_raw(messages.read_every_rule(datapath))
        groups = exchange.ask_raw(messages.read_groups(datapath))
        dead = frozenset(number for number, port in datapath.ports.items() if _is_dead(port))
        held: Held = self._world.offload(_held, dpid, at, ports, rules, groups, dead)
        return held


def _before(last: Reading | None, found: Mapping[int, Held]) -> dict[int, SwitchCount]:
    """Counters to compare with: the last reading's, or (too short ago) those that it was compared with.

    None of a switch that held other rules then, or had other ports: what it counted meanwhile is of both.
    """
    if last is None:
        return {}
    before = {}
    for dpid, held in found.items():
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
) -> Held:  # fmt: skip
    found: dict[RuleKey, Rule] = {}
    counted: dict[RuleKey, Count] = {}
    for entry in messages.flow_entries(rules):
        rule = messages.rule_from(entry)
        found[rule.key] = rule
        if rule.priority >= FLOW and entry.cookie >> 48 == COOKIE_PREFIX:
            counted[rule.key] = Count(entry.packet_count, entry.byte_count)
    held = SwitchRules(found, messages.every_group(messages.group_entries(groups)))
    return Held(held, SwitchCount(dpid, at, port_counts(ports), counted), dead)
