"""Neighbouring source ports of two hosts that take the same path, as blocks that one rule with a masked port matches.

The QPs of a connection have consecutive ports, from a multiple of a power of two on. Those that share a path therefore
form blocks of 2^n ports that differ in their last n bits alone. A block has no other port in it: packets of flows that
are in no plan never match.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from controller.model.fabric import BoolArray, FloatArray, IntArray
from controller.model.packets.flow_ports import is_roce, states_port
from controller.model.traffic import Int64Array, Traffic, key_parts, unit_key
from controller.southbound.enforcement.flow_encoding import FlowEncoding

PORT_BITS = 16


@dataclass(frozen=True, eq=False)
class PortBlocks:
    """The N blocks of the rows of an encoding, of which each is one rule.

    Attributes:
        src: [N] host index of the sender.
        dst: [N] host index of the receiver.
        path: [N] path class.
        port: [N] first UDP source port, or ``ANY_PORT``; of other protocols than RoCEv2 the code of
            ``model.flow_ports``: these have a block for each port.
        bits: [N] leading bits of the port that all of the block have: 16 for one port, 0 where it is unknown.
        priority: [N] class of priority of its packets (``model.priority``): one for all of the block.
        of_row: [R] block of each row; -1: the row has no path.
    """

    src: IntArray
    dst: IntArray
    path: IntArray
    port: IntArray
    bits: IntArray
    priority: IntArray
    of_row: Int64Array

    def __len__(self) -> int:
        """Return the number of blocks."""
        return len(self.port)

    @cached_property
    def key(self) -> Int64Array:
        """[N] ends and first port of each block, as ``unit_key``; they ascend, and differ."""
        return unit_key(self.src, self.dst, self.port)

    def without(self, others: PortBlocks) -> PortBlocks:
        """Return the blocks that are not among others; ``of_row`` is empty: these have no rows of an encoding."""
        at = np.searchsorted(others.key, self.key)
        at[at == len(others)] = 0
        kept = np.ones(len(self), dtype=np.bool_)
        if len(others):
            pairs = ((getattr(others, name), getattr(self, name)) for name in ("key", "bits", "path", "priority"))
            kept = np.logical_or.reduce([theirs[at] != own for theirs, own in pairs])
        none = np.zeros(0, dtype=np.int64)
        src, dst, path = self.src[kept], self.dst[kept], self.path[kept]
        return PortBlocks(src, dst, path, self.port[kept], self.bits[kept], self.priority[kept], none)

    @property
    def several(self) -> BoolArray:
        """[N] whether a block has several known ports."""
        several: BoolArray = (self.bits > 0) & (self.bits < PORT_BITS)
        return several

    def parts(self, size: FloatArray) -> FloatArray:
        """Return the part [R] that each row has of what its block carries, given the planned bytes [R].

        QPs of a block have it in proportion to their bytes. NaN: the row has no block, or shares its only port (or
        unknown ports) with others, which no switch can tell apart.
        """
        row = np.flatnonzero(self.of_row >= 0)
        block, n = self.of_row[row], len(self.port)
        total, rows = np.bincount(block, weights=size[row], minlength=n), np.bincount(block, minlength=n)
        part = np.full(len(size), np.nan)
        part[row] = np.where(self.several[block] | (rows[block] == 1), size[row] / total[block], np.nan)
        return part


def port_blocks(traffic: Traffic, encoding: FlowEncoding) -> PortBlocks:
    """Return the largest blocks of rows with equal ends, paths and classes of priority."""
    row = np.flatnonzero(encoding.path >= 0)
    flow = encoding.flow[row]
    key = unit_key(traffic.src[flow], traffic.dst[flow], encoding.udp_src[row])
    of_class = traffic.priority[traffic.collective[flow]]
    # Of flows that no switch can tell apart, those of the highest class come first.
    order = np.lexsort((-of_class, encoding.path[row], key))
    row, key, of_class = row[order], key[order], of_class[order]
    path = encoding.path[row]
    # Flows that no switch can tell apart are one block.
    kept = np.ones(len(key), dtype=np.bool_)
    kept[1:] = (key[1:] != key[:-1]) | (path[1:] != path[:-1])
    block = np.cumsum(kept) - 1
    key, path, of_class = key[kept], path[kept], of_class[kept]
    port = key_parts(key)[2]
    free = np.where(states_port(port), 0, PORT_BITS)
    masked = is_roce(port)
    for n in range(PORT_BITS):
        size = 1 << n
        lower = np.zeros(len(key), dtype=np.bool_)
        lower[:-1] = (
            (key[1:] == key[:-1] + size)
            & (path[1:] == path[:-1])
            & (of_class[1:] == of_class[:-1])
            & (key[:-1] & (2 * size - 1) == 0)
            & (free[:-1] == n)
            & (free[1:] == n)
            & masked[:-1]
        )
        if not lower.any():
            break
        free[lower] = n + 1
        kept = np.ones(len(key), dtype=np.bool_)
        kept[1:] = ~lower[:-1]
        block = (np.cumsum(kept) - 1)[block]
        key, path, free, masked, of_class = key[kept], path[kept], free[kept], masked[kept], of_class[kept]
    src, dst, port = key_parts(key)
    of_row = np.full(len(encoding.flow), -1, dtype=np.int64)
    of_row[row] = block
    return PortBlocks(
        src,
        dst,
        path,
        port,
        (PORT_BITS - free).astype(np.int32),
        of_class,
        of_row,
    )
