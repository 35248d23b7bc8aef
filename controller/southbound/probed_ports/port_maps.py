"""What hosts have learned of their ports, by the state of the fabric in which it holds.

Which uplink a switch chooses for a packet depends on the packet, on the uplinks that are left towards its destination,
and on what the switch drew at its start. So a failed cable changes the paths of some ports, and its repair gives them
back those that they had: a map of ports is kept under the name of the paths that were left, and each port of it is
checked by one probe before it is used again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import MAX_PORT

MOST_MAPS = 8
"""Of two hosts: those that were learned last."""

NAME_LENGTH = 16


def map_name(fabric: Fabric, src_leaf: int, dst_leaf: int) -> str:
    """Return the name of the state in which maps of two leaves hold: of the paths between them that are left now."""
    ends = fabric.leaves[src_leaf].name, fabric.leaves[dst_leaf].name
    links = [
        " ".join(fabric.link_ids[link] for link in fabric.ways.links_of(src_leaf, dst_leaf, path))
        for path in fabric.live_paths(src_leaf, dst_leaf).tolist()
    ]
    return hashlib.sha256("\n".join([*ends, *links]).encode()).hexdigest()[:NAME_LENGTH]


class PortMaps:
    """The maps of ports of all hosts."""

    def __init__(self) -> None:
        """Begin without maps."""
        self._maps: dict[tuple[str, str], dict[str, dict[int, int]]] = defaultdict(dict)

    def take(self, report: Any) -> None:
        """Take what a host has learned (``agent/ports/port_report.py``); ports that it has probed again are replaced.

        Raises:
            InputError: a field is missing or wrong; then nothing is taken.
        """
        host, pairs = _member(report, "", "host", str), _member(report, "", "pairs", list)
        taken = [_pair(pair, f"pairs[{n}].") for n, pair in enumerate(pairs)]
        for dst, name, ports in taken:
            maps = self._maps[host, dst]
            maps[name] = maps.pop(name, {}) | ports
            while len(maps) > MOST_MAPS:
                del maps[next(iter(maps))]

    def ports(self, host: str, dst: str, name: str) -> Mapping[int, int]:
        """Return the paths of ports from a host to an address in the state of this name, as far as they are known."""
        return self._maps.get((host, dst), {}).get(name, {})


NO_MAPS = PortMaps()
"""Nothing was learned."""


def _pair(row: Any, where: str) -> tuple[str, str, dict[int, int]]:
    ports = {}
    for n, each in enumerate(_member(row, where, "ports", list)):
        port = _member(each, f"{where}ports[{n}].", "port", int)
        if not 0 < port <= MAX_PORT:
            raise InputError("is not a port", field=f"{where}ports[{n}].port", value=port)
        ports[port] = _member(each, f"{where}ports[{n}].", "path", int)
    return _member(row, where, "dst", str), _member(row, where, "map", str), ports


def _member(row: Any, where: str, name: str, kind: type[Any]) -> Any:
    if not isinstance(row, dict):
        raise InputError("is not an object", field=where.rstrip("."), value=row)
    value = row.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InputError(f"has no {name}" if value is None else "has the wrong type", field=where + name, value=value)
    return value
