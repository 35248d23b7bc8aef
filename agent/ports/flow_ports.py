"""The source port of each flow of a plan, and what is known of it.

A flow keeps its port for as long as that leads over its path; another flow never gets it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from agent.plans.flow_keys import Address
from agent.ports.port_memory import PortMemory
from agent.ports.port_plan import NumberedFlow, PortPlan
from agent.ports.port_search import PairPorts, PathEvidence
from controller.model.errors import InputError

FlowKey = tuple[Address, int]

OLD_CHECKS = 3
"""Checks of a port that may fail until nothing is known of it any more, and at least ``OLD_SECONDS``."""
OLD_SECONDS = 5.0
MOST_STRANGE = 100
MOST_DEVICES = 64

DEVICES = Path("/sys/class/infiniband")
"""Where Linux has the RDMA devices of the network namespace."""
NOTHING_TOLD: Mapping[str, Any] = MappingProxyType({})

PortState = Literal["active", "searching", "drifted", "unreachable", "unknown"]


def rdma_devices() -> list[str]:
    """Return the names of the host's RDMA devices."""
    try:
        return sorted(os.listdir(DEVICES))[:MOST_DEVICES]
    except OSError:
        return []


@dataclass
class _Used:
    """The port of a flow, and the path over which the last answered probe has shown it to lead."""

    port: int
    path: int


class SourcePorts:
    """The ports of the flows of the newest plan. Times are seconds of one clock."""

    def __init__(self) -> None:
        """Begin without a plan."""
        self._plan: PortPlan | None = None
        self._planned: dict[FlowKey, int] = {}
        self._used: dict[FlowKey, _Used] = {}
        self._lost: set[FlowKey] = set()
        self._at: dict[tuple[Address, int], float] = {}
        self._searched: dict[Address, PairPorts] = {}
        self._evidence: dict[Address, PathEvidence] = {}
        self.moved = 0
        self._check_seconds = 0.0
        self._probes = self._unanswered = self._packets = 0

    def follow(self, plan: PortPlan) -> None:
        """Take a new plan; flows that it has still keep their ports until others are known."""
        maps = {} if self._plan is None else {pair.dst: pair.map for pair in self._plan.task.pairs}
        # What probes have shown does not hold in another state of the cables.
        same = {pair.dst for pair in plan.task.pairs if maps.get(pair.dst) == pair.map}
        self._at = {key: at for key, at in self._at.items() if key[0] in same}
        self._plan, self._searched, self._check_seconds = plan, {}, plan.check_seconds
        self._planned = {(flow.dst, flow.number): flow.path for flow in plan.flows}
        self._used = {key: used for key, used in self._used.items() if key in self._planned}
        self._lost &= self._planned.keys()

    def checked_every(self, seconds: float) -> None:
        """Note the time between two checks of a port, where it is not that of the plan."""
        self._check_seconds = seconds

    @property
    def in_use(self) -> Mapping[Address, Mapping[int, int]]:
        """The paths of the ports of flows, by destination; those of flows that keep their paths come first."""
        ports: dict[Address, dict[int, int]] = {}
        for key, used in sorted(self._used.items(), key=lambda item: not self._is_right(*item)):
            ports.setdefault(key[0], {})[used.port] = used.path
        return ports

    @property
    def searched(self) -> Iterable[PairPorts]:
        """What the last searches have learned, by destination."""
        return self._searched.values()

    @property
    def by_flow(self) -> Mapping[FlowKey, int]:
        """The port of each flow that has one; a port that the plan gives needs no evidence."""
        if self._plan is not None and self._plan.task.given:
            return {(flow.dst, flow.number): flow.number for flow in self._plan.flows}
        return {key: used.port for key, used in self._used.items()}

    @property
    def paces(self) -> Mapping[FlowKey, int]:
        """The paces of flows that have one: bit/s on the link."""
        flows = () if self._plan is None else self._plan.flows
        return {(flow.dst, flow.number): flow.pace for flow in flows if flow.pace is not None}

    def _is_right(self, key: FlowKey, used: _Used) -> bool:
        return self._planned.get(key) == used.path

    def learn(self, searched: Iterable[PairPorts], in_use: Mapping[Address, Mapping[int, int]]) -> bool:
        """Take what a search has learned so far, and give ports to flows; return whether a flow has another port.

        Args:
            searched: all of the search.
            in_use: the ports that are to be used, as many for each path as flows take it.
        """
        assert self._plan is not None
        for pair in searched:
            self._searched[pair.dst] = pair
            self._evidence[pair.dst] = pair.evidence
            for port in pair.at:
                self._at[pair.dst, port] = pair.at[port]
        needed = {(dst, used.port) for (dst, _), used in self._used.items()}
        if self._plan.task.given:
            needed = {(flow.dst, flow.number) for flow in self._plan.flows}
        self._at = {key: at for key, at in self._at.items() if key in needed or key[1] in in_use.get(key[0], ())}
        before = {key: used.port for key, used in self._used.items()}
        if self._plan.task.given:
            self._compare()
            return {key: used.port for key, used in self._used.items()} != before
        self._drop_astray(in_use)
        for flow in self._plan.flows:
            self._give(flow, in_use.get(flow.dst, {}))
        return {key: used.port for key, used in self._used.items()} != before

    def _compare(self) -> None:
        """See which flows take their planned paths by the ports that the plan gives."""
        assert self._plan is not None
        for flow in self._plan.flows:
            key, pair = (flow.dst, flow.number), self._searched.get(flow.dst)
            path = None if pair is None else pair.path_of.get(flow.number)
            if path == flow.path:
                self._used[key] = _Used(flow.number, flow.path)
                self._lost.discard(key)
            elif pair is not None and (path is not None or flow.number in pair.astray):
                self.moved += key in self._used
                self._used.pop(key, None)
                self._lost.add(key)

    def _drop_astray(self, in_use: Mapping[Address, Mapping[int, int]]) -> None:
        """Take the ports from flows that lead elsewhere than they did."""
        for key, used in [*self._used.items()]:
            pair = self._searched.get(key[0])
            if pair is None:
                continue
            path = pair.path_of.get(used.port, used.path)
            if used.port in pair.astray or path != used.path:
                self.moved += 1
                self._lost.add(key)
                del self._used[key]

    def _give(self, flow: NumberedFlow, in_use: Mapping[int, int]) -> None:
        """Give a flow a port over its path, if it has none."""
        key = flow.dst, flow.number
        used = self._used.get(key)
        if used is not None and used.path == flow.path and used.port in in_use:
            return
        holders = {each.port: other for other, each in self._used.items() if other[0] == flow.dst}
        for port, path in in_use.items():
            holder = holders.get(port)
            if path != flow.path or (holder is not None and self._is_right(holder, self._used[holder])):
                continue
            # A flow that the plan has moved off this path gives up its port.
            if holder is not None:
                del self._used[holder]
            self._used[key] = _Used(port, flow.path)
            self._lost.discard(key)
            return

    def saved(self) -> list[list[Any]]:
        """Return the ports of flows as plain data."""
        return [[str(dst), number, used.port, used.path] for (dst, number), used in self._used.items()]

    def restore(self, rows: Any) -> None:
        """Take the ports that flows have had in an earlier run; they count as unknown until they are checked.

        Raises:
            InputError: they are no such rows.
        """
        try:
            used = {(ip_address(dst), int(number)): _Used(int(port), int(path)) for dst, number, port, path in rows}
        except (TypeError, ValueError):
            raise InputError("are no ports of flows", field="flows") from None
        self._used = used

    def count(self, searched: Iterable[PairPorts]) -> None:
        """Count the probes of a search that has ended."""
        for pair in searched:
            if pair.evidence == "samples":
                # Nobody answers these.
                self._packets += pair.sent
            else:
                self._probes += pair.sent
                self._unanswered += pair.unanswered

    def state(self, memory: PortMemory, now: float) -> PortState:
        """Return what is known of all ports together; the worst of them counts."""
        plan = self._plan
        assert plan is not None
        # A flow whose port leads over another path than planned waits for its own.
        right = {key for key, used in self._used.items() if self._is_right(key, used)}
        lacking = [flow for flow in plan.flows if (flow.dst, flow.number) not in right]
        if any((flow.dst, flow.number) in self._lost for flow in lacking):
            return "drifted"
        maps = {pair.dst: pair.map for pair in plan.task.pairs}
        portless = [flow for flow in lacking if flow.path in memory.portless(flow.dst, maps[flow.dst])]
        if len(portless) < len(lacking):
            return "unknown" if self._silent() else "searching"
        if portless:
            return "unreachable"
        old = max(OLD_CHECKS * self._check_seconds, OLD_SECONDS)
        ages = [self._age(key, used, now) for key, used in self._used.items()]
        if None in ages:
            return "unknown" if self._silent() else "searching"
        return "unknown" if any(age is not None and age > old for age in ages) else "active"

    def _age(self, key: FlowKey, used: _Used, now: float) -> float | None:
        at = self._at.get((key[0], used.port))
        return None if at is None else now - at

    def _silent(self) -> list[str]:
        return [str(dst) for dst, pair in self._searched.items() if pair.state == "silent"]

    def report(
        self,
        memory: PortMemory,
        now: float,
        hash: str | None = None,
        qps: Mapping[str, Any] = NOTHING_TOLD,
    ) -> dict[str, Any]:
        """Return the report: the plan that holds, if all ports are as they should be, and the ports.

        Args:
            memory: of ports.
            now: the time.
            hash: what was seen of the routers' hash (``HashModels.kind``).
            qps: what is told of those that programs have open (``QpPages.next``).
        """
        plan = self._plan
        assert plan is not None
        state = self.state(memory, now)
        epoch, digest = plan.id if state == "active" else (None, None)
        portless = {pair.dst: (pair.map, memory.portless(pair.dst, pair.map)) for pair in plan.task.pairs}
        strange = [
            {"dst": str(dst), "port": each.port, "answers": [*each.answers], "unreachable": each.unreachable}
            for dst, pair in self._searched.items()
            for each in pair.strange
        ]
        return {
            "epoch": epoch,
            "digest": digest,
            "ports": {
                "state": state,
                "flows": [self._row(flow, now) for flow in plan.flows],
                "unreachable": [
                    {"dst": str(dst), "map": name, "paths": sorted(paths)}
                    for dst, (name, paths) in portless.items()
                    if paths
                ],
                "silent": self._silent(),
                "strange": strange[:MOST_STRANGE],
                "moved": self.moved,
                "probes": self._probes,
                "unanswered": self._unanswered,
                "packets": self._packets,
                "devices": rdma_devices(),
                "hash": hash,
                **qps,
            },
        }

    def _row(self, flow: NumberedFlow, now: float) -> dict[str, Any]:
        key = flow.dst, flow.number
        assert self._plan is not None
        if self._plan.task.given:
            return self._given_row(flow, now)
        row: dict[str, Any] = dict.fromkeys(("port", "path", "seconds", "evidence"))
        row |= {"dst": str(flow.dst), "number": flow.number}
        if (used := self._used.get(key)) is not None:
            age = self._age(key, used, now)
            row["port"] = used.port
            if age is not None:
                row |= {"path": used.path, "seconds": round(max(age, 0.0), 3), "evidence": self._evidence.get(flow.dst)}
        return row

    def _given_row(self, flow: NumberedFlow, now: float) -> dict[str, Any]:
        """Return the row of a flow whose port the plan gives: the path over which it leads, as far as one is known."""
        key, at = (flow.dst, flow.number), self._at.get((flow.dst, flow.number))
        pair = self._searched.get(flow.dst)
        path = flow.path if key in self._used else None if pair is None else pair.path_of.get(flow.number)
        known = at is not None and path is not None
        return {
            "dst": str(flow.dst),
            "number": flow.number,
            "port": flow.number,
            "path": path if known else None,
            "seconds": round(max(now - at, 0.0), 3) if at is not None and known else None,
            "evidence": self._evidence.get(flow.dst) if known or key in self._lost else None,
            "astray": key in self._lost,
        }
