"""What a host is asked to probe, as a document (``agent/ports/probe_task.py`` reads it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from controller.model.fabric import Fabric
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import FIRST_PORT, LAST_PORT
from controller.southbound.probed_ports.port_maps import NO_MAPS, PortMaps, map_name
from controller.southbound.probed_ports.probe_routes import ProbeRoute, addresses_of, probe_route

WantedPorts = Mapping[int, Mapping[int, int]]
"""For a receiving host, how many ports each path is to have."""


class ProbeBudget(NamedTuple):
    """How many probes of one host a router may be made to answer: so many at once, and then so many a second.

    ``share``: those a second of what a router answers to all hosts together, at first; ``None``: it has no such limit.
    """

    burst: int
    a_second: float
    share: float | None = None


class AskedPair(NamedTuple):
    """A receiver whose paths are asked about.

    Attributes:
        host: the receiver.
        address: to which probes go.
        wanted: how many ports each path is to have.
        map: name of the state of the fabric (``map_name``).
        known: the paths of ports, which are probed first.
    """

    host: int
    address: str
    wanted: Mapping[int, int]
    map: str
    known: Mapping[int, int]


def probe_document(
    fabric: Fabric,
    host: int,
    wanted: WantedPorts,
    budget: ProbeBudget,
    maps: PortMaps = NO_MAPS,
    *,
    last_leaf: bool = False,
) -> dict[str, Any]:
    """Return what a host is asked to probe.

    Args:
        fabric: one that ``check_probes`` accepts.
        host: the host.
        wanted: by receiver, which has another leaf.
        budget: of each router.
        maps: what was learned before, of which the host checks what it needs.
        last_leaf: as of ``probe_route``.
    """
    asked = [
        AskedPair(dst, fabric.hosts[dst].ip, paths, *_known(fabric, host, dst, maps)) for dst, paths in wanted.items()
    ]
    return task_document(fabric, host, asked, budget, last_leaf=last_leaf)


def task_document(
    fabric: Fabric, host: int, asked: Sequence[AskedPair], budget: ProbeBudget, *, last_leaf: bool = False
) -> dict[str, Any]:
    """Return what a host is asked to probe.

    Args:
        fabric: one that ``check_probes`` accepts.
        host: the host.
        asked: the receivers, which have other leaves.
        budget: of each router.
        last_leaf: as of ``probe_route``.
    """
    leaf, version = int(fabric.host_leaf[host]), fabric.hosts[host].ip_version
    routes: dict[int, ProbeRoute] = {}
    for pair in asked:
        at = int(fabric.host_leaf[pair.host])
        if at not in routes:
            routes[at] = probe_route(fabric, leaf, at, last_leaf=last_leaf)
    place = {at: n for n, at in enumerate(routes)}
    routers = {each.name: each for route in routes.values() for row in route.routers for each in row}
    return {
        "host": fabric.hosts[host].name,
        "source": fabric.hosts[host].ip,
        "first_port": FIRST_PORT,
        "last_port": LAST_PORT,
        "dst_port": ROCE_PORT,
        "routers": [{"name": name, "addresses": addresses_of(each, version)} for name, each in routers.items()],
        "budget": {name: value for name, value in budget._asdict().items() if value is not None},
        "routes": [_route(route) for route in routes.values()],
        "pairs": [
            {
                "dst": pair.address,
                "routes": place[int(fabric.host_leaf[pair.host])],
                "wanted": [{"path": path, "ports": ports} for path, ports in sorted(pair.wanted.items())],
                "map": pair.map,
                "known": [{"port": port, "path": path} for port, path in pair.known.items()],
            }
            for pair in asked
        ],
    }


def every_path(fabric: Fabric, host: int) -> WantedPorts:
    """Return that a port is wanted for each path of a host to all others of its version of IP below other leaves."""
    leaf, version = int(fabric.host_leaf[host]), fabric.hosts[host].ip_version
    paths = {
        at: dict.fromkeys(fabric.ways.between(leaf, at).tolist(), 1) for at in range(fabric.n_leaves) if at != leaf
    }
    leaves = enumerate(fabric.host_leaf.tolist())
    return {dst: paths[at] for dst, at in leaves if paths.get(at) and fabric.hosts[dst].ip_version == version}


def _known(fabric: Fabric, host: int, dst: int, maps: PortMaps) -> tuple[str, Mapping[int, int]]:
    name = map_name(fabric, int(fabric.host_leaf[host]), int(fabric.host_leaf[dst]))
    return name, maps.ports(fabric.hosts[host].name, fabric.hosts[dst].ip, name)


def _route(route: ProbeRoute) -> dict[str, Any]:
    return {
        "hops": [*route.hops],
        "paths": [
            {"path": path, "routers": [each.name for each in row]}
            for path, row in zip(route.paths, route.routers, strict=True)
        ],
    }
