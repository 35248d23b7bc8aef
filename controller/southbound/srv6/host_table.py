"""Where hosts are, and the usable paths to leaves: all that a host needs to make the carrier to any other host.

A carrier for each destination is the largest part of a plan, and there are as many as pairs of hosts. But it follows
from two values: from where the destination is, which no plan changes (``NetworkHosts``), and from the paths that are
left to its leaf, which are the same for many leaves (``LeafPaths``). ``agent/plans/host_table.py`` joins them as
``NetworkHosts.carrier`` does.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from controller.model.fabric import Fabric
from controller.southbound.srv6.segment_ids import SegmentIds

MOST_PATHS = 64
"""Most paths to a leaf that a host is told: those of three layers may be thousands, and a host sends to a leaf by one
for each host there."""

DIGEST_LENGTH = 16
"""Hexadecimal digits of a hash."""

Path = tuple[int, ...]
"""The ids of the switches behind the sender's leaf, without the last one, and what is added to the id of the last
one, which is the receiver's leaf: parallel cables to it have ids side by side."""


class LeafPaths(NamedTuple):
    """Leaves to which the same paths are left, if these are not all; else their own leaf chooses a path."""

    leaves: tuple[int, ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True, eq=False)
class NetworkHosts:
    """The hosts of one network of a fabric.

    Attributes:
        ids: the ids of the fabric.
        network: number of the network.
    """

    ids: SegmentIds
    network: int

    @cached_property
    def hosts(self) -> tuple[int, ...]:
        """The numbers of the hosts, ascending."""
        fabric = self.ids.fabric
        return tuple(np.flatnonzero(fabric.planes.network[0][fabric.host_leaf] == self.network).tolist())

    @cached_property
    def document(self) -> bytes:
        """The table as agents get it (``controller.rest.schemas.HostTableDocument``), with its digest."""
        return orjson.dumps({"digest": self.digest, **self._content})

    @cached_property
    def digest(self) -> str:
        """A hash of the table."""
        return hashlib.sha256(orjson.dumps(self._content)).hexdigest()[:DIGEST_LENGTH]

    @cached_property
    def _content(self) -> dict[str, Any]:
        fabric, leaf = self.ids.fabric, self._leaf
        leaves = dict.fromkeys(leaf[host] for host in self.hosts)
        return {
            "block": str(self.ids.block),
            "leaves": [[each, self.ids.over_cable(0, each, 0)] for each in leaves],
            "hosts": [[fabric.hosts[host].ip, host, leaf[host], self.ids.host(host)] for host in self.hosts],
        }

    @cached_property
    def _leaf(self) -> list[int]:
        leaves: list[int] = self.ids.fabric.host_leaf.tolist()
        return leaves

    def carrier(self, dst: int, paths: Mapping[int, Sequence[Path]]) -> str:
        """Return the usual carrier of packets to a host; ``paths``: those of ``LeafPaths``, by leaf."""
        leaf = self._leaf[dst]
        left = paths.get(leaf, ())
        *before, over = left[dst % len(left)] if left else (0,)
        return str(self.ids.address((*before, self.ids.over_cable(0, leaf, over), self.ids.host(dst))))


class UsablePaths:
    """The paths that are left where something is down or drained; what is the same for all leaves is made once."""

    def __init__(self, ids: SegmentIds, usable: Fabric) -> None:
        """Store the ids of the fabric with all its links, and the fabric without what is down or drained."""
        self._ids, self._usable = ids, usable
        self._is_whole = bool(usable.link_up[ids.fabric.first_cable_link :].all())

    def from_leaf(self, leaf: int) -> tuple[LeafPaths, ...]:
        """Return the usable paths from a leaf to those to which some, but not all paths are usable."""
        if self._is_whole:
            return ()
        fabric, (dst, path) = self._ids.fabric, self._numbers
        src = np.full(len(dst), leaf)
        shape = fabric.n_leaves, fabric.ways.n_paths
        live = self._usable.live_ways.joined(src, dst, path).reshape(shape)
        all_there = fabric.ways.joined(src, dst, path).reshape(shape).sum(axis=1)
        n_live = live.sum(axis=1)
        some = (n_live > 0) & (n_live < all_there)
        some[leaf] = False
        steps = self._steps(fabric.ways.links(src, dst, path)).reshape(*shape, -1)
        groups: dict[bytes, list[int]] = defaultdict(list)
        kept: dict[bytes, NDArray[np.int64]] = {}
        for at in np.flatnonzero(some).tolist():
            rows = steps[at, live[at]]
            every = -(-len(rows) // MOST_PATHS)
            # Senders below unlike leaves keep unlike paths.
            rows = rows[leaf % every :: every]
            rows = rows[:, (rows >= 0).all(axis=0)]
            key = bytes([rows.shape[1]]) + rows.tobytes()
            groups[key].append(at)
            kept[key] = rows
        return tuple(LeafPaths(tuple(at), tuple(map(tuple, kept[key].tolist()))) for key, at in groups.items())

    @cached_property
    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Each leaf with each path."""
        n_leaves, n_paths = self._ids.fabric.n_leaves, self._ids.fabric.ways.n_paths
        return np.repeat(np.arange(n_leaves), n_paths), np.tile(np.arange(n_paths), n_leaves)

    @cached_property
    def _end_of_link(self) -> NDArray[np.int64]:
        """The id of the switch at the end of each link between switches; of a leaf, what is added to its id."""
        ids, fabric = self._ids, self._ids.fabric
        ends = []
        cables = zip(fabric.cable_tier, fabric.cable_lower, fabric.cable_upper, fabric.cable_number, strict=True)
        for tier, lower, upper, number in (map(int, each) for each in cables):
            below = number if tier == 0 else ids.over_cable(tier, lower, number)
            ends += [ids.over_cable(tier + 1, upper, number), below]
        return np.array(ends, dtype=np.int64)

    def _steps(self, links: NDArray[np.int32]) -> NDArray[np.int64]:
        """Return the ids at the ends of links; -1 where there is none."""
        return np.where(links < 0, -1, self._end_of_link[np.maximum(links - self._ids.fabric.first_cable_link, 0)])
