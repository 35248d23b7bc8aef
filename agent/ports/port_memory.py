"""The memory of an agent for ports: which path each port had, by state of the cables; a file keeps it over restarts.

A repaired cable gives ports back the paths that they had, so what was learned before is kept, and each port is checked
by one probe before it is used again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from agent.fields import converted, member
from agent.plans.flow_keys import Address
from agent.ports.port_search import PairPorts
from agent.ports.probe_task import ProbedPair, ProbeTask
from controller.model.errors import InputError

MOST_MAPS = 8
"""Of a destination: those that were learned last."""

Ports = dict[int, int]
"""The path of each port."""


@dataclasses.dataclass
class _Map:
    """The paths of ports, and the paths that no port leads over."""

    ports: Ports = dataclasses.field(default_factory=dict)
    portless: set[int] = dataclasses.field(default_factory=set)


class PortMemory:
    """The maps of ports of a host, by destination and name of the state."""

    def __init__(self) -> None:
        """Begin without maps."""
        self._maps: dict[Address, dict[str, _Map]] = {}

    def take(self, pairs: list[PairPorts]) -> None:
        """Take what was learned."""
        for pair in pairs:
            maps = self._maps.setdefault(pair.dst, {})
            known = maps[pair.map] = maps.pop(pair.map, _Map())
            wrong = [port for port, path in pair.path_of.items() if known.ports.get(port, path) != path]
            wrong += [port for port in pair.astray if port in known.ports]
            if wrong:
                # The routers hash otherwise than they did: a path without a port may have one now.
                known.portless.clear()
            for port in wrong:
                del known.ports[port]
            known.ports.update(pair.path_of)
            known.portless.difference_update(pair.path_of.values())
            known.portless.update(pair.unreachable)
            while len(maps) > MOST_MAPS:
                del maps[next(iter(maps))]

    def portless(self, dst: Address, map: str) -> frozenset[int]:
        """Return the paths that no port leads over."""
        return frozenset(self._of(dst, map).portless)

    def asked(self, task: ProbeTask, in_use: Mapping[Address, Mapping[int, int]]) -> ProbeTask:
        """Return a task with the ports that are known, those in use first, and without paths that have no port."""
        return dataclasses.replace(
            task, pairs=tuple(self._asked(pair, in_use.get(pair.dst, {})) for pair in task.pairs)
        )

    def _asked(self, pair: ProbedPair, in_use: Mapping[int, int]) -> ProbedPair:
        known, numbers = self._of(pair.dst, pair.map), pair.routes.numbers
        ports = {**in_use, **known.ports, **in_use}
        return dataclasses.replace(
            pair,
            wanted={path: many for path, many in pair.wanted.items() if path not in known.portless},
            known={port: path for port, path in ports.items() if path in numbers},
        )

    def _of(self, dst: Address, map: str) -> _Map:
        return self._maps.get(dst, {}).get(map, _Map())

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "pairs": [
                {
                    "dst": str(dst),
                    "map": name,
                    "ports": [[port, path] for port, path in each.ports.items()],
                    "portless": sorted(each.portless),
                }
                for dst, maps in self._maps.items()
                for name, each in maps.items()
            ]
        }

    @staticmethod
    def read(document: Any) -> PortMemory:
        """Return what a document has.

        Raises:
            InputError: a field is missing or wrong.
        """
        memory = PortMemory()
        for n, row in enumerate(member(document, "", "pairs", list)):
            where = f"pairs[{n}]."
            dst = converted(ip_address, member(row, where, "dst", str), f"{where}dst", "an IP address")
            try:
                ports = {int(port): int(path) for port, path in member(row, where, "ports", list)}
                portless = {int(path) for path in member(row, where, "portless", list)}
            except (TypeError, ValueError):
                raise InputError("are no ports with their paths", field=f"{where}ports") from None
            memory._maps.setdefault(dst, {})[member(row, where, "map", str)] = _Map(ports, portless)
        return memory
