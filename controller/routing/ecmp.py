"""``ecmp``: the default of switches: a hash of each flow's 5-tuple picks one of its live paths.

Flow granularity, as RFC 2992 discusses; the hash is CRC-32 or Toeplitz, both seedable, as in switch silicon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.demand import Demand
from controller.routing.kernels import hashing
from controller.routing.previous_plan import PreviousPlan


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
    """
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(hash_units(demand, seed, options)))


def hash_units(demand: Demand, seed: int, options: Options, ports: IntArray | None = None) -> IntArray:
    """Return the path class [U] of each unit; ``ports`` [U]: UDP source ports in place of the traffic's."""
    fabric, traffic = demand.fabric, demand.traffic
    flow = demand.part_flow[demand.part_ptr[:-1]]
    src_ip, dst_ip, port = fabric.host_ip[traffic.src[flow]], fabric.host_ip[traffic.dst[flow]], traffic.udp_src[flow]
    if ports is not None:
        port = ports
    start = np.uint32(seed & 0xFFFFFFFF)
    if options.hash == "crc32":
        hashes = _rotated(hashing.crc32(src_ip, dst_ip, port, start, hashing.CRC32_TABLE), seed % 32)
    else:
        hashes = hashing.toeplitz(src_ip, dst_ip, port, start, hashing.TOEPLITZ_KEY)
    path = np.empty(demand.n_units, dtype=np.int32)
    hashing.pick_live(hashes, demand.unit_src, demand.unit_dst, demand.tier, path)
    return path


def _rotated(hashes: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Rotate 32-bit numbers to the right."""
    wide = hashes.astype(np.uint64)
    return ((wide >> np.uint64(bits)) | (wide << np.uint64(32 - bits))).astype(np.uint32)
