"""Paths that no source port leads over, as agents have reported them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from controller.model.fabric import Fabric
from controller.model.network_state import PortlessPath
from controller.model.paths.barred_paths import NONE_BARRED, BarredPaths
from controller.southbound.probed_ports.port_maps import map_name


def barred_paths(fabric: Fabric, portless: Iterable[PortlessPath]) -> BarredPaths:
    """Return what plans on a fabric avoid: what was learned in another state of its cables does not count."""
    of_pair: dict[tuple[int, int], set[int]] = defaultdict(set)
    by_ip = {host.ip: number for number, host in enumerate(fabric.hosts)}
    names: dict[tuple[int, int], str] = {}
    for each in portless:
        src, dst = fabric.host_index.get(each.host), by_ip.get(each.dst)
        if src is None or dst is None:
            continue
        leaves = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        if leaves not in names:
            names[leaves] = map_name(fabric, *leaves)
        if names[leaves] == each.map:
            of_pair[src, dst].add(each.path)
    return BarredPaths({pair: frozenset(paths) for pair, paths in of_pair.items()}) if of_pair else NONE_BARRED
