"""NCCL's graph files (``NCCL_GRAPH_FILE``), which say by which NICs the channels of a job's rings leave a server."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan

_RING = "4"
"""NCCL_TOPO_PATTERN_RING."""
_MOST_CHANNELS = 16


def nccl_graph(plan: ShardPlan, job: str, server: int, gbps: float) -> str:
    """Return the file of one server: a channel for each part of the rings of a job that are pinned to NICs.

    A share counts as the nearest number of sixteenths, as channels carry equal parts. Rings by routes have no channel:
    the host sends by its routes. NCCL joins the servers of every channel in one order, that of the job's ranks.

    Args:
        plan: the plan of the shard.
        job: the name of the job.
        server: the number of the server in the shard.
        gbps: the rate of a NIC.
    """
    channels: list[tuple[int, int]] = []
    for ring in plan.routes.rings:
        if plan.shard.demand.groups[ring.group].job == job and ring.layer != LOOSE and server in ring.order:
            before = ring.order[ring.order.index(server) - 1]
            ends = int(plan.ends.receiver[ring.layer, before]), int(plan.ends.sender[ring.layer, server])
            channels += [ends] * max(1, round(ring.share * _MOST_CHANNELS))
    speed = f"{gbps / 8:g}"
    root = ElementTree.Element("graphs", version="1")
    graph = ElementTree.SubElement(
        root,
        "graph",
        id="0",
        pattern=_RING,
        crossnic="1" if any(into != out for into, out in channels) else "0",
        nchannels=str(len(channels)),
        speedintra=speed,
        speedinter=speed,
        typeintra="NVL",
        typeinter="PXB",
        samechannels="0",
    )
    for into, out in channels:
        channel = ElementTree.SubElement(graph, "channel")
        ElementTree.SubElement(channel, "net", dev=str(into))
        ElementTree.SubElement(channel, "gpu", dev="0")
        ElementTree.SubElement(channel, "net", dev=str(out))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"
