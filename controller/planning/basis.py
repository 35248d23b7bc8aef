"""What a plan depends on, as short hashes: where these are what they were, the plan that there is still holds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, IntArray


@dataclass(frozen=True)
class Basis:
    """Everything that goes into a plan. The hashes are by names, so they outlive a restart and a renumbering.

    Attributes:
        fabric: of the links, their capacities and which are up, as planned on (without what is drained, and without
            headroom). Port numbers and addresses are not in it: rules depend on those, plans do not.
        traffic: of the jobs' documents and UDP source ports, in order.
    """

    fabric: str
    traffic: str
    policy: str
    seed: int


def fabric_basis(fabric: Fabric) -> str:
    """The hash of a fabric as plans see it: equal whatever the order in which it was discovered."""
    rows = sorted(zip(fabric.link_ids, fabric.link_gbps.tolist(), fabric.link_up.tolist(), strict=True))
    return hashlib.blake2b(repr(rows).encode(), digest_size=8).hexdigest()


def traffic_basis(jobs: Iterable[tuple[str, str, IntArray]]) -> str:
    """The hash of jobs: (name, revision of the document, UDP source ports [F]) of each, in order."""
    digest = hashlib.blake2b(digest_size=8)
    for name, revision, udp_src in jobs:
        digest.update(f"{name}\n{revision}\n{len(udp_src)}\n".encode())
        digest.update(np.ascontiguousarray(udp_src, dtype=np.int32).tobytes())
    return digest.hexdigest()
