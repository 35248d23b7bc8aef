"""The plan of a host as plain data, which its agent follows (``agent/plans/host_plan.py`` reads it)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import orjson

from controller.model.fabric import Fabric
from controller.model.paces import NOT_PACED, FlowPace
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.priority import DSCP
from controller.southbound.report_rate import report_seconds
from controller.southbound.srv6.cable_probes import CableProbes
from controller.southbound.srv6.carriers import backup_paths, path_ids, probe_ids
from controller.southbound.srv6.host_table import DIGEST_LENGTH, LeafPaths, NetworkHosts, Path, UsablePaths
from controller.southbound.srv6.router_configuration import CableAddresses
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds

LOCAL = -1
"""In place of the path between hosts of one leaf."""


class WeightedPath(NamedTuple):
    """One of the paths over which packets of a flow are spread, and the part of them that takes it."""

    path: int
    weight: float


class HostFlow(NamedTuple):
    """A flow that a host sends.

    Attributes:
        dst: the receiving host.
        path: number of the path between the leaves, or ``LOCAL``.
        src_port: its UDP source port; ``None``: not known, and it is all that the two hosts send.
        pace: the rates that the host is asked to keep.
        paths: those over which its packets are spread; empty: all take one path.
        priority: class of its packets (``model.priority``).
    """

    dst: int
    path: int
    src_port: int | None
    pace: FlowPace = NOT_PACED
    paths: tuple[WeightedPath, ...] = ()
    priority: int = 0

    def with_path(self, other: HostFlow) -> HostFlow:
        """Return the flow with another one's paths beside its own; ``path`` is that of the largest weight."""
        paths, rates = (*self.paths, *other.paths), zip(self.pace, other.pace, strict=True)
        pace = FlowPace(*(None if one is None or more is None else one + more for one, more in rates))
        first = max(paths, key=lambda each: each.weight).path
        return self._replace(path=first, pace=pace, paths=paths)


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
        self._probes = CableProbes(ids)
        self._leaf: list[int] = self._fabric.host_leaf.tolist()
        self._network: list[int] = self._fabric.planes.network[0].tolist()
        self._tables: dict[int, NetworkHosts] = {}
        self._usable_paths = UsablePaths(ids, usable)
        self._paths: dict[int, tuple[LeafPaths, ...]] = {}
        self._rows: dict[int, dict[int, dict[str, str]]] = {}
        self._hashed: dict[int, bytes] = {}
        self._ways: dict[tuple[int, int, int], _Way] = {}

    @property
    def fabric(self) -> Fabric:
        """The fabric of the hosts."""
        return self._fabric

    def of(self, host: int, flows: Iterable[HostFlow], known: str = "", *, by_table: bool = False) -> dict[str, Any]:
        """Return what a host sends, takes in and probes.

        Args:
            host: the host.
            flows: what it sends.
            known: hash of destinations that need not be returned: then they are ``None``. They are the largest part,
                and nearly all plans have the same.
            by_table: whether its agent makes carriers of a table of hosts (``table``): then there are paths to leaves
                in place of the usual destinations.

        Raises:
            InputError: a path needs more ids than fit behind the block.
        """
        ids, sent = self._ids, dict[tuple[int, int | None], HostFlow]()
        for flow in flows:
            # Flows that no packet shows to be two have one path.
            sent.setdefault((flow.dst, flow.src_port), flow)
        own = {flow.dst: self._whole(host, flow) for flow in sent.values() if flow.src_port is None}
        digest = self._digest(host, own)
        destinations: Any = None
        if digest != known:
            destinations = list(own.values()) if by_table else self._destinations(host, own)
        content = {
            "source": str(self._addresses.of_link(host, far=False).ip),
            "decapsulate": [
                {"segment": str(ids.prefix(IdRange(ids.host(host, inner=inner)))), "inner": inner} for inner in (4, 6)
            ],
            "destinations": destinations,
            "destinations_digest": digest,
            "flows": [self._flow(host, flow) for flow in sent.values() if flow.src_port is not None],
            "probes": [str(probe) for probe in self._probes.of(host)],
            "bypass_probes": [str(probe) for probe in self._probes.bypasses(host)],
            "report_seconds": report_seconds(self._fabric),
        }
        if by_table:
            left = None if destinations is None else self._left(self._leaf[host])
            content |= {
                "number": host,
                "table_digest": self.table(host).digest,
                "paths": None if left is None else _plain(left),
            }
        return content

    def is_like(self, other: HostContents) -> bool:
        """Return whether hosts that send the same are told the same by both, as far as little work shows it."""
        own, others = self._fabric, other._fabric
        # Fabrics that differ in what is up share this table.
        return (
            (own is others or own.host_leaf is others.host_leaf)
            and self._ids.block == other._ids.block
            and self._addresses.network == other._addresses.network
            and np.array_equal(self._usable.link_up, other._usable.link_up)
        )

    def table(self, host: int) -> NetworkHosts:
        """Return the hosts that a host can reach: the same for all plans on a fabric."""
        network = self._network[self._leaf[host]]
        if network not in self._tables:
            self._tables[network] = NetworkHosts(self._ids, network)
        return self._tables[network]

    def _left(self, leaf: int) -> tuple[LeafPaths, ...]:
        if leaf not in self._paths:
            self._paths[leaf] = self._usable_paths.from_leaf(leaf)
        return self._paths[leaf]

    def _destinations(self, host: int, own: Mapping[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the carriers of packets that belong to no flow with a port; ``own``: those of this host alone."""
        leaf = self._leaf[host]
        if leaf not in self._rows:
            paths: dict[int, tuple[Path, ...]] = {at: each.paths for each in self._left(leaf) for at in each.leaves}
            table = self.table(host)
            self._rows[leaf] = {
                dst: {"dst": self._fabric.hosts[dst].ip, "carrier": table.carrier(dst, paths)} for dst in table.hosts
            }
        return [own.get(dst, row) for dst, row in self._rows[leaf].items() if dst != host]

    def _digest(self, host: int, own: Mapping[int, dict[str, Any]]) -> str:
        """Return a hash of the destinations of a host, without making them."""
        leaf = self._leaf[host]
        if leaf not in self._hashed:
            usual = orjson.dumps([self.table(host).digest, _plain(self._left(leaf))])
            self._hashed[leaf] = hashlib.sha256(usual).digest()
        rest = orjson.dumps([host, list(own.values())])
        return hashlib.sha256(self._hashed[leaf] + rest).hexdigest()[:DIGEST_LENGTH]

    def _flow(self, src: int, flow: HostFlow) -> dict[str, Any]:
        return {
            "src": self._fabric.hosts[src].ip,
            "dst": self._fabric.hosts[flow.dst].ip,
            "protocol": "udp",
            "src_port": flow.src_port,
            "dst_port": ROCE_PORT,
            **self._choice(src, flow),
            "rate_gbps": None,
            **flow.pace._asdict(),
        }

    def _whole(self, src: int, flow: HostFlow) -> dict[str, Any]:
        """Return the paths of all that a host sends another one."""
        return {"dst": self._fabric.hosts[flow.dst].ip, **self._choice(src, flow)}

    def _choice(self, src: int, flow: HostFlow) -> dict[str, Any]:
        """Return the carriers of the planned path and of its backups, its probe, its DSCP, and its set of paths."""
        dst, used = flow.dst, {each.path for each in flow.paths}
        choice: dict[str, Any] = {
            "carrier": self._carrier(src, dst, flow.path),
            "backups": [
                self._carrier(src, dst, backup)
                for backup in self._way(src, dst, flow.path).backups
                if backup not in used
            ],
            "probe": self._probe(src, dst, flow.path),
        }
        if flow.priority:
            choice["dscp"] = DSCP[flow.priority]
        if flow.paths:
            choice["paths"] = [
                {
                    "carrier": self._carrier(src, dst, each.path),
                    "weight": min(each.weight, 1.0),
                    "probe": self._probe(src, dst, each.path),
                }
                for each in flow.paths
            ]
        return choice

    def _probe(self, src: int, dst: int, path: int) -> str | None:
        around = self._way(src, dst, path).around
        return None if around is None else str(self._ids.address((*around, self._ids.host(src, inner=6))))

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


def _plain(left: Iterable[LeafPaths]) -> list[dict[str, Any]]:
    return [each._asdict() for each in left]


class _Way(NamedTuple):
    """A path between two leaves: the ids of switches on it, its backups, and those on it and back (if they fit)."""

    switches: tuple[int, ...]
    backups: tuple[int, ...]
    around: tuple[int, ...] | None
