"""The ports that flows use: they stay while they lead over their paths, and are replaced when they do not."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.plans.flow_keys import Address
from agent.ports.port_search import PairPorts
from agent.ports.probe_task import ProbeTask


@dataclass(frozen=True)
class PortChange:
    """A port that leads over its path no more, and the one that takes its place; ``None``: there is none."""

    dst: Address
    path: int
    before: int
    after: int | None

    def line(self) -> str:
        """Return it as a line for people."""
        instead = "no port is known in its place" if self.after is None else f"{self.after} takes its place"
        return f"{self.dst}: path {self.path}: port {self.before} leads elsewhere; {instead}"

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"dst": str(self.dst), "path": self.path, "before": self.before, "after": self.after}


class PortsInUse:
    """The ports in use, as many for each path as are wanted."""

    def __init__(self, task: ProbeTask) -> None:
        """Begin without ports."""
        self._task = task
        self._used: dict[Address, dict[int, int]] = {pair.dst: {} for pair in task.pairs}

    @property
    def by_dst(self) -> Mapping[Address, Mapping[int, int]]:
        """The path of each port in use, by destination."""
        return self._used

    @property
    def task(self) -> ProbeTask:
        """The probes that check each port in use, and that find others in place of those that lead elsewhere."""
        pairs = self._task.pairs
        checked = (
            dataclasses.replace(pair, known={**self._used[pair.dst], **pair.known, **self._used[pair.dst]})
            for pair in pairs
        )
        return dataclasses.replace(self._task, pairs=tuple(checked))

    def take(self, learned: Iterable[PairPorts]) -> list[PortChange]:
        """Take what a search has learned; return which ports in use lead elsewhere.

        A port whose probes had no answer stays: nothing is known of it.
        """
        changes = []
        wanted = {pair.dst: pair.wanted for pair in self._task.pairs}
        for ports in learned:
            used = self._used[ports.dst]
            lost = [
                (port, path)
                for port, path in used.items()
                if port in ports.astray or ports.path_of.get(port, path) != path
            ]
            for port, _ in lost:
                del used[port]
            left = {
                path: many - sum(each == path for each in used.values()) for path, many in wanted[ports.dst].items()
            }
            new: dict[int, list[int]] = {path: [] for path in left}
            for port, path in ports.path_of.items():
                if port not in used and len(new.get(path, ())) < left.get(path, 0):
                    new[path].append(port)
            used |= {port: path for path, members in new.items() for port in members}
            for port, path in lost:
                changes.append(PortChange(ports.dst, path, port, new[path].pop(0) if new[path] else None))
        return changes
