"""Layers of circuits of a shard: which servers each NIC can join, and the ports of each circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.circuits.fabric.optical_fabric import BoolArray, Circuit, OpticalFabric
from controller.circuits.kernels.moves import DUPLEX_BACK, DUPLEX_RING, FREE, PAIRS, RING
from controller.model.fabric import IntArray
from controller.model.traffic import Int64Array


@dataclass(frozen=True, eq=False)
class Layers:
    """What the circuits of m servers may be.

    Attributes:
        kinds: [d] the kind of each layer (``kernels.moves``).
        usable: [d, m] the servers that a layer can join.
    """

    kinds: Int64Array
    usable: BoolArray

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers d of layers and m of servers."""
        d, m = self.usable.shape
        return int(d), int(m)

    @property
    def duplex(self) -> bool:
        """Whether circuits lead in both directions."""
        return bool(np.isin(self.kinds, (DUPLEX_RING, PAIRS)).any())

    def freely(self) -> Layers:
        """Return the same layers, where simplex ones need not stay rings."""
        return Layers(np.where(self.kinds == RING, FREE, self.kinds), self.usable)

    def drawn(self, rng: np.random.Generator) -> IntArray:
        """Return circuits [d, m]: in each layer a random ring, or random pairs."""
        d, m = self.shape
        succ = np.tile(np.arange(m, dtype=np.int32), (d, 1))
        for k in range(d):
            order = rng.permutation(np.flatnonzero(self.usable[k]).astype(np.int32))
            if self.kinds[k] == DUPLEX_BACK or len(order) < 2:
                continue
            if self.kinds[k] == PAIRS:
                succ[k, order[::2]], succ[k, order[1::2]] = order[1::2], order[::2]
                continue
            set_ring(succ, k, order, both=self.kinds[k] == DUPLEX_RING)
        return succ


def set_ring(succ: IntArray, layer: int, order: IntArray, *, both: bool = False) -> None:
    """Make a layer (and with ``both`` the next one, in the other direction) a ring in this order, in place."""
    succ[layer, order] = np.roll(order, -1)
    if both:
        succ[layer + 1, order] = np.roll(order, 1)


def layers_of(fabric: OpticalFabric, servers: tuple[int, ...]) -> Layers:
    """Return the layers of the servers of a shard."""
    d = fabric.nics
    live = ~fabric.dead[list(servers)].T
    if not fabric.duplex:
        return Layers(np.full(d, RING, dtype=np.int64), live)
    kinds = np.array([DUPLEX_RING, DUPLEX_BACK] * (d // 2) + [PAIRS] * (d % 2), dtype=np.int64)
    usable = live.copy()
    for k in range(0, d, 2):
        own: BoolArray = np.logical_and.reduce(live[k : k + 2])
        if own.sum() % 2 and (kinds[k] == PAIRS or fabric.switch_of[k] != fabric.switch_of[k + 1]):
            # One server has no partner; in each layer another one, so that none is left out everywhere.
            left_out = np.flatnonzero(own)
            own = own & (np.arange(len(own)) != left_out[-1 - (k // 2) % len(left_out)])
        usable[k : k + 2] = own
    return Layers(kinds, usable)


class CircuitEnds(NamedTuple):
    """[d, m] the NIC by which each server sends on each layer, and the NIC by which the next one receives."""

    sender: IntArray
    receiver: IntArray


def ends_of(fabric: OpticalFabric, layers: Layers, succ: IntArray) -> CircuitEnds:
    """Return the NICs at both ends of each circuit.

    The circuits of a duplex ring take two NIC numbers: by turns where these are on two switches, so that each circuit
    joins equal numbers, and else the first number towards the next server, the second from the one before.
    """
    d, m = succ.shape
    number = np.repeat(np.arange(d, dtype=np.int32)[:, None], m, axis=1)
    ends = CircuitEnds(number.copy(), number.copy())
    for k in np.flatnonzero(layers.kinds == DUPLEX_RING).tolist():
        by_turns = fabric.switch_of[k] != fabric.switch_of[k + 1]
        for start in np.flatnonzero(succ[k] != np.arange(m))[:1].tolist():
            u, i = start, 0
            while True:
                v = int(succ[k, u])
                here, there = (k + i % 2, k + i % 2) if by_turns else (k, k + 1)
                ends.sender[k, u], ends.receiver[k, u] = here, there
                # The way back on the same circuit.
                ends.sender[k + 1, v], ends.receiver[k + 1, v] = there, here
                u, i = v, i + 1
                if u == start:
                    break
    return ends


def circuits_of(fabric: OpticalFabric, servers: tuple[int, ...], succ: IntArray, ends: CircuitEnds) -> list[Circuit]:
    """Return the circuits in order of layers and servers, with their ports."""
    d, m = succ.shape
    return [
        fabric.circuit((servers[u], int(ends.sender[k, u])), (servers[succ[k, u]], int(ends.receiver[k, u])))
        for k in range(d)
        for u in range(m)
        if succ[k, u] != u
    ]
