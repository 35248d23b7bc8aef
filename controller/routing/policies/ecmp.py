"""``ecmp``: the default of switches: a hash of each flow's 5-tuple picks one of its live paths.

Flow granularity, as RFC 2992 discusses; the hash is CRC-32 or Toeplitz, both seedable, as in switch silicon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, IntArray
from controller.model.packets.flow_ports import header_fields
from controller.model.packets.mixing import splitmix64
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.kernels import hashing
from controller.routing.problem.demand import Demand
from controller.routing.problem.previous_plan import PreviousPlan

MASK = 0xFFFFFFFF

Tuples = tuple[NDArray[np.uint32], NDArray[np.uint32], IntArray, IntArray, IntArray]
"""Source address, destination address, source port, destination port and protocol number of units."""


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: PreviousPlan | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """Assign one path to each unit by ``options.hash`` of its 5-tuple, seeded with ``seed`` (its low 32 bits).

    CRC-32 is linear: another start value alone flips the same bits in every hash, and where the number of paths is a
    power of two that only renames them; the same units still collide. So the seed also selects the bit at which the
    choice begins (``seed mod 32``), for which switches have an option.

    Where a path has several choices, each switch on the way up hashes, with a seed of its own; with
    ``Options.hash_seeds`` ``same`` all hash alike. Then a switch sees only 5-tuples that chose alike below it, and uses
    a part of its links only (polarisation).
    """
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(hash_units(demand, seed, options)))


def hash_units(demand: Demand, seed: int, options: Options, ports: IntArray | None = None) -> IntArray:
    """Return the path class [U] of each unit; ``ports`` [U]: ``udp_src`` in place of the traffic's.

    A port that is not known counts as 0.

    A path of one choice is picked from the table of its links, in a third of the time that ``_by_tier`` takes.
    """
    fabric, traffic = demand.fabric, demand.traffic
    flow = demand.part_flow[demand.part_ptr[:-1]]
    protocol, src_port, dst_port = header_fields(traffic.udp_src[flow] if ports is None else ports)
    tuples = fabric.host_ip[traffic.src[flow]], fabric.host_ip[traffic.dst[flow]], src_port, dst_port, protocol
    if not demand.one_choice:
        return _by_tier(demand, tuples, seed, options)
    path = np.empty(demand.n_units, dtype=np.int32)
    hashes = _hashes(tuples, np.full(demand.n_units, seed & MASK, dtype=np.uint32), seed % 32, options)
    hashing.pick_live(hashes, demand.unit_src, demand.unit_dst, demand.tier, path)
    return path


def _by_tier(demand: Demand, tuples: Tuples, seed: int, options: Options) -> IntArray:
    """Return the paths [U] that hashes pick, choice after choice, each at the switch that the unit has come to."""
    ways = demand.fabric.live_ways
    number, switch = np.zeros(demand.n_units, dtype=np.int64), demand.unit_src.astype(np.int64)
    for tier in range(ways.n_tiers):
        units = np.flatnonzero(demand.meet >= tier)
        own = np.full(len(units), seed & MASK, dtype=np.uint64)
        if options.hash_seeds == "switch":
            place = np.uint64(tier + 1) << np.uint64(24) | switch[units].astype(np.uint64)
            own = splitmix64(own ^ place << np.uint64(32))
        src_ip, dst_ip, src_port, dst_port, protocol = tuples
        of_unit = src_ip[units], dst_ip[units], src_port[units], dst_port[units], protocol[units]
        hashes = _hashes(of_unit, (own & np.uint64(MASK)).astype(np.uint32), (own % np.uint64(32)), options)
        choice = hashing.pick_choice(hashes, units, demand.unit_src, demand.unit_dst, ways, tier, number)
        if tier + 1 < ways.n_tiers:
            onward = demand.meet[units] > tier
            entry = ways.table[tier] + switch[units[onward]] * ways.width[tier] + choice[onward]
            switch[units[onward]] = ways.above[entry]
    path: IntArray = (ways.first[demand.meet] + number).astype(np.int32)
    return path


def _hashes(
    tuples: Tuples, seed: NDArray[np.uint32], bits: NDArray[np.uint64] | int, options: Options
) -> NDArray[np.uint32]:
    """Return the hash of each 5-tuple with its seed; the choice begins at this bit of a CRC-32."""
    if options.hash == "crc32":
        return _rotated(hashing.crc32(*tuples, seed, hashing.CRC32_TABLES), bits)
    hashes: NDArray[np.uint32] = hashing.toeplitz(*tuples, seed, hashing.TOEPLITZ_KEY)
    return hashes


def _rotated(hashes: NDArray[np.uint32], bits: NDArray[np.uint64] | int) -> NDArray[np.uint32]:
    """Rotate 32-bit numbers to the right."""
    if isinstance(bits, int):
        by_all = np.uint32(bits)
        return hashes if not bits else (hashes >> by_all) | (hashes << (np.uint32(32) - by_all))
    wide, by = hashes.astype(np.uint64), np.asarray(bits).astype(np.uint64)
    return ((wide >> by) | (wide << (np.uint64(32) - by))).astype(np.uint32)
