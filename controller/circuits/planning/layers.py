"""Layers of circuits of a shard: which servers each NIC can join, and the ports of each circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from controller.circuits.fabric.optical_fabric import BoolArray, Circuit, OpticalFabric
from controller.circuits.kernels.moves import DUPLEX_BACK, DUPLEX_RING, FIXED, FREE, ODD_PAIRS, PAIRS, RING
from controller.circuits.planning.linked_pairs import linked_pairs
from controller.model.fabric import IntArray
from controller.model.traffic import Int64Array


@dataclass(frozen=True, eq=False)
class Layers:
    """What the circuits of m servers may be.

    Layers of one switch are numbered as its NICs are. The live NICs of a server at a switch take its first layers.

    Attributes:
        kinds: [d] the kind of each layer (``kernels.moves``).
        usable: [d, m] the servers that a layer can join.
        switch_of: [d] the switch of each layer.
    """

    kinds: Int64Array
    usable: BoolArray
    switch_of: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers d of layers and m of servers."""
        d, m = self.usable.shape
        return int(d), int(m)

    @property
    def duplex(self) -> bool:
        """Whether circuits lead in both directions."""
        return bool(np.isin(self.kinds, (DUPLEX_RING, PAIRS, ODD_PAIRS)).any())

    @property
    def pairs_only(self) -> bool:
        """Whether no layer can join all servers by itself.

        A server may then be in any layers of a switch, but in no more of them than are ``usable`` for it.
        """
        return bool(np.isin(self.kinds, (PAIRS, ODD_PAIRS)).all())

    @property
    def whole(self) -> bool:
        """Whether every layer can be one ring of all servers."""
        return bool(self.usable.all()) and not np.isin(self.kinds, (PAIRS, ODD_PAIRS)).any()

    def kinds_of(self, succ: IntArray) -> Int64Array:
        """Return the kinds of layers with these circuits: several duplex rings in one layer do not change."""
        kinds = self.kinds.copy()
        for k in np.flatnonzero(kinds == DUPLEX_RING).tolist():
            if len(_ring_from(succ[k], 0)) < self.shape[1]:
                kinds[k : k + 2] = FIXED
        return kinds

    def freely(self) -> Layers:
        """Return the same layers, where simplex ones need not stay rings."""
        return Layers(np.where(self.kinds == RING, FREE, self.kinds), self.usable, self.switch_of)

    def drawn(self, rng: np.random.Generator) -> IntArray:
        """Return circuits [d, m]: in each layer a random ring, or random pairs.

        They join all servers, if any circuits do.
        """
        if self.pairs_only:
            return linked_pairs(self.usable, self.switch_of, rng)
        d, m = self.shape
        succ = np.tile(np.arange(m, dtype=np.int32), (d, 1))
        for k in range(d):
            order = rng.permutation(np.flatnonzero(self.usable[k]).astype(np.int32))
            if self.kinds[k] == DUPLEX_BACK or len(order) < 2:
                continue
            if self.kinds[k] in (PAIRS, ODD_PAIRS):
                one, other = order[: len(order) // 2 * 2 : 2], order[1::2]
                succ[k, one], succ[k, other] = other, one
                continue
            set_ring(succ, k, order, both=self.kinds[k] == DUPLEX_RING)
        return succ


def set_ring(succ: IntArray, layer: int, order: IntArray, *, both: bool = False) -> None:
    """Make a layer (and with ``both`` the next one, in the other direction) a ring in this order, in place."""
    succ[layer, order] = np.roll(order, -1)
    if both:
        succ[layer + 1, order] = np.roll(order, 1)


def _ring_from(row: IntArray, start: int) -> list[int]:
    """Return the servers of the ring of one of them, in order."""
    ring, u = [start], int(row[start])
    while u != start:
        ring.append(u)
        u = int(row[u])
    return ring


def layers_of(fabric: OpticalFabric, servers: tuple[int, ...]) -> Layers:
    """Return the layers of the servers of a shard."""
    d, switch_of = fabric.nics, fabric.switch_of
    live: BoolArray = ~fabric.dead[list(servers)].T
    usable = np.zeros_like(live)
    for numbers in _numbers_of_switches(fabric):
        usable[numbers] = np.arange(len(numbers))[:, None] < live[numbers].sum(axis=0)
    if not fabric.duplex:
        return Layers(np.full(d, RING, dtype=np.int64), usable, switch_of)
    m, kinds = len(servers), np.full(d, PAIRS, dtype=np.int64)
    for k in range(0, d - 1, 2):
        # Around a ring over two switches, circuits take turns.
        if usable[k : k + 2].all() and (m % 2 == 0 or switch_of[k] == switch_of[k + 1]):
            kinds[k : k + 2] = DUPLEX_RING, DUPLEX_BACK
    for k in np.flatnonzero(kinds == PAIRS).tolist() if m % 2 else ():
        if live[switch_of == switch_of[k]].all():
            kinds[k] = ODD_PAIRS
    return Layers(kinds, usable, switch_of)


def _numbers_of_switches(fabric: OpticalFabric) -> list[IntArray]:
    """Return the NIC numbers on each switch."""
    return [np.flatnonzero(fabric.switch_of == switch).astype(np.int32) for switch in np.unique(fabric.switch_of)]


class CircuitEnds(NamedTuple):
    """[d, m] the NIC by which each server sends on each layer, and the NIC by which the next one receives."""

    sender: IntArray
    receiver: IntArray


def ends_of(fabric: OpticalFabric, servers: tuple[int, ...], layers: Layers, succ: IntArray) -> CircuitEnds:
    """Return the NICs at both ends of each circuit.

    The circuits of a duplex ring take two NIC numbers: by turns where these are on two switches, so that each circuit
    joins equal numbers, and else the first number towards the next server, the second from the one before.
    """
    nic = _nics(fabric, servers, layers, succ)
    ends = CircuitEnds(nic.copy(), np.take_along_axis(nic, succ, axis=1))
    for k in np.flatnonzero(layers.kinds == DUPLEX_RING).tolist():
        by_turns = fabric.switch_of[k] != fabric.switch_of[k + 1]
        seen: set[int] = set()
        for start in np.flatnonzero(succ[k] != np.arange(succ.shape[1])).tolist():
            for i, u in enumerate(() if start in seen else _ring_from(succ[k], start)):
                seen.add(u)
                v = int(succ[k, u])
                here, there = (k + i % 2, k + i % 2) if by_turns else (k, k + 1)
                ends.sender[k, u], ends.receiver[k, u] = nic[here, u], nic[there, v]
                # The way back on the same circuit.
                ends.sender[k + 1, v], ends.receiver[k + 1, v] = nic[there, v], nic[here, u]
    return ends


def _nics(fabric: OpticalFabric, servers: tuple[int, ...], layers: Layers, succ: IntArray) -> IntArray:
    """Return [d, m] the NIC by which each server joins a layer."""
    d, m = succ.shape
    nic: IntArray = np.repeat(np.arange(d, dtype=np.int32)[:, None], m, axis=1)
    dead = fabric.dead[list(servers)]
    for numbers in _numbers_of_switches(fabric):
        for u in np.flatnonzero(dead[:, numbers].any(axis=1)).tolist():
            live = numbers[~dead[u, numbers]]
            own = numbers[succ[numbers, u] != u] if layers.pairs_only else numbers[: len(live)]
            nic[own, u] = live[: len(own)]
    return nic


def circuits_of(fabric: OpticalFabric, servers: tuple[int, ...], succ: IntArray, ends: CircuitEnds) -> list[Circuit]:
    """Return the circuits in order of layers and servers, with their ports."""
    d, m = succ.shape
    return [
        fabric.circuit((servers[u], int(ends.sender[k, u])), (servers[succ[k, u]], int(ends.receiver[k, u])))
        for k in range(d)
        for u in range(m)
        if succ[k, u] != u
    ]
