"""Small instances that together reach every kernel: what ``warm_up`` plans."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import ANY_PORT, Collective, Int64Array, Traffic
from controller.model.waits import Waits


class FabricKind(NamedTuple):
    """A form of fabric with planning kernels of its own: several tiers of cables, several networks (planes of NICs)."""

    tiers: bool = False
    planes: bool = False

    @staticmethod
    def of(fabric: Fabric) -> FabricKind:
        """Return the form of a fabric."""
        return FabricKind(len(fabric.tiers) > 1, fabric.planes.n_networks > 1)


KINDS = (FabricKind(), FabricKind(tiers=True), FabricKind(planes=True), FabricKind(tiers=True, planes=True))


def instances(form: FabricKind) -> list[tuple[Fabric, Traffic]]:
    """Return instances with equal and unequal loads, tight and irregular fabrics, phases, shared units, and QPs."""
    even, narrow = _fabrics(form)
    ring = np.arange(9, dtype=np.int32)
    equal = _traffic(ring, (ring + 3) % 9, np.full(9, 10**9), ring * 0, [Collective("a", "c")])
    phases = [Collective("a", "c"), Collective("a", "d", phase=1), Collective("b", "c", weight=2.0)]
    sizes = (1 + ring.astype(np.int64)) * 10**8
    unequal = _traffic(np.tile(ring, 2), np.tile((ring + 4) % 9, 2), np.tile(sizes, 2), np.tile(ring % 3, 2), phases)
    odd = dataclasses.replace(
        even,
        cables=tuple(
            dataclasses.replace(cable, gbps=40.0 + 10 * (c % 2), up=c != 4) for c, cable in enumerate(even.cables)
        ),
    )
    computing = JobTiming(((0, 0.1),))
    timed = dataclasses.replace(
        unequal, collectives=tuple(dataclasses.replace(row, timing=computing) for row in unequal.collectives)
    )
    overlapping = dataclasses.replace(
        timed, collectives=tuple(dataclasses.replace(row, waits=Waits(computing=False)) for row in timed.collectives)
    )
    qps = dataclasses.replace(equal, collectives=(Collective("a", "c", qps=QueuePairs(3)),))
    cases = [
        (even, equal),
        (even, qps),
        (even, unequal),
        (narrow, equal),
        (narrow, unequal),
        (odd, equal),
        (odd, unequal),
        (narrow, timed),
        (narrow, overlapping),
        _full(form),
    ]
    # Hosts of different planes have no path between them.
    return [(fabric, within_planes(fabric, traffic)) for fabric, traffic in cases] if form.planes else cases


def _fabrics(form: FabricKind) -> tuple[Fabric, Fabric]:
    """Return a fabric of nine hosts (a plane) with as many uplinks as hosts, and one with fewer."""
    planes = 2 if form.planes else 1
    if form.tiers:
        return pod_clos(3, 3, 2, 2, 1, planes=planes), pod_clos(2, 2, 2, 1, 3, planes=planes)
    return clos(3, 3, 3, planes=planes), clos(2, 3, 3, planes=planes)


def _full(form: FabricKind) -> tuple[Fabric, Traffic]:
    """Return flows that leave no choice: a plan after the failure of one's first cable makes room by chains."""
    planes = 2 if form.planes else 1
    if form.tiers:
        fabric = pod_clos(2, 2, 2, 2, 2, planes=planes)
        src = np.arange(8, dtype=np.int32)
        dst = (src + 4) % 8
    else:
        # Two flows to one leaf: where one has to change its spine, the other one has to, too.
        fabric = clos(2, 3, 2, planes=planes)
        src, dst = np.array([0, 4], np.int32), np.array([2, 3], np.int32)
    src, dst = np.repeat(src, planes), np.repeat(dst, planes)
    return fabric, _traffic(src, dst, np.full(len(src), 10**9), src * 0, [Collective("a", "c")])


def within_planes(fabric: Fabric, traffic: Traffic) -> Traffic:
    """Return the traffic between the same NICs, with the flows on their ports in the planes in turn."""
    ports = fabric.planes.ports
    plane = np.arange(traffic.n_flows) % ports.shape[1]
    src, dst = (ports[end % len(ports), plane].astype(np.int32) for end in (traffic.src, traffic.dst))
    return dataclasses.replace(traffic, src=src, dst=dst)


def _traffic(
    src: IntArray,
    dst: IntArray,
    size: Int64Array,
    collective: IntArray,
    collectives: list[Collective],
) -> Traffic:
    order = np.argsort(collective, kind="stable")
    number = np.arange(len(src), dtype=np.int32)
    port = np.where(number % 9 == 8, ANY_PORT, 49152 + number).astype(np.int32)
    columns = (src[order], dst[order], size[order], collective[order], number, port[order])
    return Traffic(*columns, tuple(collectives))
