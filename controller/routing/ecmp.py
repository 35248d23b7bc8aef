"""``ecmp``: what switches do by themselves: a hash of each flow's 5-tuple picks one of its live paths.

Flow granularity, as RFC 2992 discusses; the hash is CRC-32 or Toeplitz, both seedable, as in switch silicon.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.traffic import Traffic
from controller.routing.base import Options, Result
from controller.routing.demand import Demand
from controller.routing.kernels import hashing
from controller.routing.previous import Previous


def assign(
    fabric: Fabric,
    traffic: Traffic,
    *,
    seed: int = 0,
    previous: Previous | None = None,
    options: Options = Options(),  # noqa: B008 (frozen)
) -> Result:
    """One path a unit by ``options.hash`` of its 5-tuple, seeded with ``seed`` (its low 32 bits)."""
    demand = Demand.of(fabric, traffic)
    return Result(demand.assignment(hash_units(demand, seed, options)))


def hash_units(demand: Demand, seed: int, options: Options) -> IntArray:
    """[U] path class of each unit."""
    fabric, traffic = demand.fabric, demand.traffic
    flow = demand.part_flow[demand.part_ptr[:-1]]
    src_ip, dst_ip, port = fabric.host_ip[traffic.src[flow]], fabric.host_ip[traffic.dst[flow]], traffic.udp_src[flow]
    start = np.uint32(seed & 0xFFFFFFFF)
    if options.hash == "crc32":
        hashes = hashing.crc32(src_ip, dst_ip, port, start, hashing.CRC32_TABLE)
    else:
        hashes = hashing.toeplitz(src_ip, dst_ip, port, start, hashing.TOEPLITZ_KEY)
    path = np.empty(demand.n_units, dtype=np.int32)
    hashing.pick_live(hashes, demand.unit_src, demand.unit_dst, fabric.live_up, fabric.live_down, path)
    return path
