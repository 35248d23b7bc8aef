"""``ecmp``: what switches do by themselves: a hash of each flow's 5-tuple picks one of its live paths.

Flow granularity, as RFC 2992 discusses; the hash is CRC-32 or Toeplitz, both seedable, as in switch silicon.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric
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
    flow = demand.part_flow[demand.part_ptr[:-1]]
    tuples = fabric.host_ip[traffic.src[flow]], fabric.host_ip[traffic.dst[flow]], traffic.udp_src[flow]
    if options.hash == "crc32":
        hashes = hashing.crc32(*tuples, np.uint32(seed & 0xFFFFFFFF), hashing.CRC32_TABLE)
    else:
        hashes = hashing.toeplitz(*tuples, np.uint32(seed & 0xFFFFFFFF), hashing.TOEPLITZ_KEY)
    path = np.empty(demand.n_units, dtype=np.int32)
    hashing.pick_live(hashes, demand.unit_src, demand.unit_dst, fabric.live_up, fabric.live_down, path)
    return Result(demand.assignment(path))
