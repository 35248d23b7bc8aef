"""The plan of a host as plain data, which its agent follows (``agent/host_plan.py`` reads it)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.model.fabric import Fabric
from controller.model.port_numbers import ROCE_PORT
from controller.southbound.srv6.carriers import backup_paths, path_ids, probe_ids
from controller.southbound.srv6.router_configuration import CableAddresses
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds

LOCAL = -1
"""In place of the path between hosts of one leaf."""


@dataclass(frozen=True)
class HostFlow:
    """A flow that a host sends.

    Attributes:
        dst: the receiving host.
        path: number of the path between the leaves, or ``LOCAL``.
        src_port: its UDP source port; ``None``: not known, and it is all that the two hosts send.
    """

    dst: int
    path: int
    src_port: int | None


def host_document(
    ids: SegmentIds, addresses: CableAddresses, host: int, flows: Iterable[HostFlow], epoch: int
) -> dict[str, Any]:
    """Return the plan of a host with its number, for a plan on the whole fabric; the rest is as in ``host_content``."""
    content = host_content(ids, addresses, ids.fabric, host, flows)
    return {"epoch": epoch, "host": ids.fabric.hosts[host].name, "mode": "planned", **content}


def host_content(
    ids: SegmentIds, addresses: CableAddresses, usable: Fabric, host: int, flows: Iterable[HostFlow]
) -> dict[str, Any]:
    """Return what a host sends, takes in and probes.

    Args:
        ids: the ids of the fabric.
        addresses: the addresses of the ends of cables.
        usable: the fabric without what is down or drained: backups are on it.
        host: the host.
        flows: what it sends.

    Raises:
        InputError: a path needs more ids than fit behind the block.
    """
    fabric = ids.fabric
    rows: dict[tuple[int, int | None], HostFlow] = {}
    for flow in flows:
        # Flows that no packet shows to be two have one path.
        rows.setdefault((flow.dst, flow.src_port), flow)
    return {
        "source": str(addresses.of_link(host, far=False).ip),
        "decapsulate": [
            {"segment": str(ids.prefix(IdRange(ids.host(host, inner=inner)))), "inner": inner} for inner in (4, 6)
        ],
        "destinations": [_destination(ids, host, other, rows) for other in _reached(fabric, host)],
        "flows": [_flow(ids, usable, host, flow, flow.src_port) for flow in rows.values() if flow.src_port is not None],
    }


def _reached(fabric: Fabric, host: int) -> list[int]:
    """Return the other hosts to which cables lead; where NICs have several ports, not all do."""
    network = fabric.planes.network[0][fabric.host_leaf]
    return [n for n in range(fabric.n_hosts) if n != host and network[n] == network[host]]


def _destination(
    ids: SegmentIds, src: int, dst: int, rows: Mapping[tuple[int, int | None], HostFlow]
) -> dict[str, Any]:
    """Return the carrier of packets that belong to no flow with a port. Without a path, the leaf chooses one."""
    flow = rows.get((dst, None))
    path = LOCAL if flow is None else flow.path
    return {"dst": ids.fabric.hosts[dst].ip, "carrier": str(ids.address(path_ids(ids, src, dst, path)))}


def _flow(ids: SegmentIds, usable: Fabric, src: int, flow: HostFlow, src_port: int) -> dict[str, Any]:
    fabric, dst, path = ids.fabric, flow.dst, flow.path
    paths = (path, *backup_paths(usable, src, dst, path))
    carriers = [str(ids.address(path_ids(ids, src, dst, each))) for each in paths]
    around = None if path == LOCAL else probe_ids(ids, src, dst, path)
    return {
        "src": fabric.hosts[src].ip,
        "dst": fabric.hosts[dst].ip,
        "protocol": "udp",
        "src_port": src_port,
        "dst_port": ROCE_PORT,
        "carrier": carriers[0],
        "backups": carriers[1:],
        "probe": None if around is None else str(ids.address(around)),
        "rate_gbps": None,
    }
