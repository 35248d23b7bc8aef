"""The plan of a host as plain data, which its agent follows (``agent/host_plan.py`` reads it)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """Return the plan of a host with its number, for a plan on the whole fabric (``HostContents.of`` has the rest)."""
    content = HostContents(ids, addresses, ids.fabric).of(host, flows)
    return {"epoch": epoch, "host": ids.fabric.hosts[host].name, "mode": "planned", **content}


class HostContents:
    """Makes what plans say to hosts. What is the same for many hosts is made once; any thread may call it."""

    def __init__(self, ids: SegmentIds, addresses: CableAddresses, usable: Fabric) -> None:
        """Keep the arguments.

        Args:
            ids: the ids of the fabric.
            addresses: the addresses of the ends of cables.
            usable: the fabric without what is down or drained.
        """
        self._ids, self._addresses, self._usable, self._fabric = ids, addresses, usable, ids.fabric
        self._leaf: list[int] = self._fabric.host_leaf.tolist()
        self._network: list[int] = self._fabric.planes.network[0].tolist()
        self._plain: dict[int, dict[str, str]] = {}
        self._rows: dict[int, list[dict[str, str] | None]] = {}
        self._left: dict[tuple[int, int], list[int]] = {}
        self._ways: dict[tuple[int, int, int], _Way] = {}

    def of(self, host: int, flows: Iterable[HostFlow]) -> dict[str, Any]:
        """Return what a host sends, takes in and probes.

        Args:
            host: the host.
            flows: what it sends.

        Raises:
            InputError: a path needs more ids than fit behind the block.
        """
        ids, known = self._ids, dict[tuple[int, int | None], HostFlow]()
        for flow in flows:
            # Flows that no packet shows to be two have one path.
            known.setdefault((flow.dst, flow.src_port), flow)
        return {
            "source": str(self._addresses.of_link(host, far=False).ip),
            "decapsulate": [
                {"segment": str(ids.prefix(IdRange(ids.host(host, inner=inner)))), "inner": inner} for inner in (4, 6)
            ],
            "destinations": self._destinations(host, known.values()),
            "flows": [self._flow(host, flow) for flow in known.values() if flow.src_port is not None],
        }

    def _destinations(self, host: int, flows: Iterable[HostFlow]) -> list[dict[str, str]]:
        """Return the carriers of packets that belong to no flow with a port."""
        own = {flow.dst: flow.path for flow in flows if flow.src_port is None}
        usual = enumerate(self._rows_of_leaf(self._leaf[host]))
        rows = [(dst, row) for dst, row in usual if row is not None and dst != host]
        return [self._destination(host, dst, own[dst]) if dst in own else row for dst, row in rows]

    def _rows_of_leaf(self, leaf: int) -> list[dict[str, str] | None]:
        """Return the usual carrier of packets from a leaf to each host; ``None``: no cables lead there."""
        if leaf not in self._rows:
            there = [self._network[at] == self._network[leaf] for at in self._leaf]
            self._rows[leaf] = [self._usual(leaf, dst) if reached else None for dst, reached in enumerate(there)]
        return self._rows[leaf]

    def _usual(self, leaf: int, dst: int) -> dict[str, str]:
        """Return the carrier from a leaf to a host: the leaf chooses the path, as long as all are usable."""
        at = self._leaf[dst]
        paths = self._left_between(leaf, at)
        if not paths:
            if dst not in self._plain:
                self._plain[dst] = self._destination(dst, dst, LOCAL)
            return self._plain[dst]
        # Any host of the leaf serves as sender.
        return self._destination(self._leaf.index(leaf), dst, paths[dst % len(paths)])

    def _left_between(self, src: int, dst: int) -> list[int]:
        """Return the usable paths between two leaves if others are not usable; none if all or no paths are."""
        if (src, dst) not in self._left:
            usable = [] if src == dst else self._usable.live_paths(src, dst).tolist()
            some = 0 < len(usable) < len(self._fabric.ways.between(src, dst)) if src != dst else False
            self._left[src, dst] = usable if some else []
        return self._left[src, dst]

    def _destination(self, src: int, dst: int, path: int) -> dict[str, str]:
        return {"dst": self._fabric.hosts[dst].ip, "carrier": self._carrier(src, dst, path)}

    def _flow(self, src: int, flow: HostFlow) -> dict[str, Any]:
        hosts, dst, way = self._fabric.hosts, flow.dst, self._way(src, flow.dst, flow.path)
        carriers = [self._carrier(src, dst, path) for path in (flow.path, *way.backups)]
        around = None if way.around is None else self._ids.address((*way.around, self._ids.host(src, inner=6)))
        return {
            "src": hosts[src].ip,
            "dst": hosts[dst].ip,
            "protocol": "udp",
            "src_port": flow.src_port,
            "dst_port": ROCE_PORT,
            "carrier": carriers[0],
            "backups": carriers[1:],
            "probe": None if around is None else str(around),
            "rate_gbps": None,
        }

    def _carrier(self, src: int, dst: int, path: int) -> str:
        return str(self._ids.address((*self._way(src, dst, path).switches, self._ids.host(dst))))

    def _way(self, src: int, dst: int, path: int) -> _Way:
        """Return what hosts of the same two leaves have in common."""
        key = self._leaf[src], self._leaf[dst], path
        if key not in self._ways:
            around = None if path == LOCAL else probe_ids(self._ids, src, dst, path)
            self._ways[key] = _Way(
                path_ids(self._ids, src, dst, path)[:-1],
                backup_paths(self._usable, src, dst, path),
                None if around is None else around[:-1],
            )
        return self._ways[key]


class _Way(NamedTuple):
    """A path between two leaves: the ids of switches on it, its backups, and those on it and back (if they fit)."""

    switches: tuple[int, ...]
    backups: tuple[int, ...]
    around: tuple[int, ...] | None
