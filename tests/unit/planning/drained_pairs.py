"""Pairs of leaves that send over links, by plan and by hash."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.southbound.forwarding.next_hops import NextHops


def planned_pairs(fabric: Fabric) -> set[tuple[int, int]]:
    """Pairs of leaves that a planned flow could go between."""
    leaves = range(fabric.n_leaves)
    return {(a, b) for a in leaves for b in leaves if a != b and len(fabric.live_paths(a, b))}


def hashed_pairs(fabric: Fabric) -> set[tuple[int, int]]:
    """Pairs of leaves that base forwarding joins."""
    hops = NextHops(fabric)
    leaves = range(fabric.n_leaves)
    return {(a, b) for a in leaves for b in leaves if a != b and hops.ports(a, b)}
