"""The plan of a host as plain data, which its agent follows (``agent/host_plan.py`` reads it)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
        src_port: its UDP source port.
    """

    dst: int
    path: int
    src_port: int


def host_document(
    ids: SegmentIds, addresses: CableAddresses, host: int, flows: Iterable[HostFlow], epoch: int
) -> dict[str, Any]:
    """Return the plan of a host.

    Args:
        ids: the ids of the fabric.
        addresses: the addresses of the ends of cables.
        host: the host.
        flows: what it sends.
        epoch: number of the plan.

    Raises:
        InputError: a path needs more ids than fit behind the block.
    """
    fabric = ids.fabric
    own = fabric.hosts[host]
    return {
        "epoch": epoch,
        "host": own.name,
        "mode": "planned",
        "source": str(addresses.of_link(host, far=False).ip),
        "decapsulate": [
            {"segment": str(ids.prefix(IdRange(ids.host(host, inner=inner)))), "inner": inner} for inner in (4, 6)
        ],
        # Without a switch above: the leaf chooses one.
        "destinations": [
            {"dst": other.ip, "carrier": str(ids.address(path_ids(ids, host, n, LOCAL)))}
            for n, other in enumerate(fabric.hosts)
            if n != host
        ],
        "flows": [_flow(ids, host, flow) for flow in flows],
    }


def _flow(ids: SegmentIds, src: int, flow: HostFlow) -> dict[str, Any]:
    fabric, dst, path = ids.fabric, flow.dst, flow.path
    paths = (path, *backup_paths(fabric, src, dst, path))
    carriers = [str(ids.address(path_ids(ids, src, dst, each))) for each in paths]
    around = None if path == LOCAL else probe_ids(ids, src, dst, path)
    return {
        "src": fabric.hosts[src].ip,
        "dst": fabric.hosts[dst].ip,
        "protocol": "udp",
        "src_port": flow.src_port,
        "dst_port": ROCE_PORT,
        "carrier": carriers[0],
        "backups": carriers[1:],
        "probe": None if around is None else str(ids.address(around)),
        "rate_gbps": None,
    }
