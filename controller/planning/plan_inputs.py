"""The inputs of a plan as short hashes: while these are unchanged, the existing plan is still valid."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.queue_pairs import QueuePairs
from controller.model.tenant import Tenant
from controller.planning.plane_drain import NONE_ASIDE, PortsAside


@dataclass(frozen=True)
class PlanInputs:
    """All inputs of a plan. The hashes are by names, so they outlive a restart and a renumbering.

    Attributes:
        fabric: of the links, their capacities and which are up, as planned on (without what is drained, and without
            headroom). Port numbers and addresses are not part of it: rules depend on those, plans do not.
        traffic: of the jobs' documents and UDP source ports, in order.
    """

    fabric: str
    traffic: str
    policy: str
    seed: int


def fabric_hash(fabric: Fabric, aside: PortsAside = NONE_ASIDE) -> str:
    """Return the hash of a fabric as plans see it, independent of the order of discovery.

    Args:
        fabric: the fabric that is planned on.
        aside: the ports that plans avoid although their cables are there.
    """
    order = fabric.links_by_name
    names = [fabric.link_ids[link] for link in order.tolist()]
    values, which = np.unique(fabric.link_gbps[order], return_inverse=True)
    kind = 2 * which.reshape(-1) + fabric.link_up[order]
    rest = [f"{gbps!r}, {up!r})" for gbps in values.tolist() for up in (False, True)]
    # Links in a row of which only the names differ are written at once.
    ends = [*(np.flatnonzero(np.diff(kind)) + 1).tolist(), len(names)] if names else []
    runs = [_rows(names[first:end], rest[kind[first]]) for first, end in itertools.pairwise([0, *ends])]
    # As ``repr`` of a sorted list of tuples, since stored plans have hashes of that.
    rows = ", ".join(runs)
    # Without drained leaves the hash is that of former versions, whose plans stay valid.
    text = f"[{rows}]" + (repr(aside.planes) if aside.planes else "") + (repr(aside.leaves) if aside.leaves else "")
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _rows(names: list[str], rest: str) -> str:
    """Return the rows of links that have the same ``rest``."""
    letters = "".join(names)
    if letters.isprintable() and "'" not in letters and "\\" not in letters:
        return "('" + f"', {rest}, ('".join(names) + f"', {rest}"
    return ", ".join([f"({name!r}, {rest}" for name in names])


def traffic_hash(
    jobs: Iterable[tuple[str, str, IntArray, Sequence[QueuePairs]]], tenants: Sequence[Tenant] = ()
) -> str:
    """Return the hash of jobs, in order.

    Args:
        jobs: name, revision of the document, UDP source ports [F], and the QPs of each collective: these are the
            controller's default where the document does not say.
        tenants: of the fabric, whose weights jobs share.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, revision, udp_src, qps in jobs:
        digest.update(f"{name}\n{revision}\n{len(udp_src)}\n".encode())
        digest.update(np.ascontiguousarray(udp_src, dtype=np.int32).tobytes())
        # Without several QPs the hash is that of former versions, whose plans stay valid.
        if any(each.count > 1 for each in qps):
            digest.update(repr(list(qps)).encode())
    if tenants:
        digest.update(repr([tuple(tenant) for tenant in tenants]).encode())
    return digest.hexdigest()
