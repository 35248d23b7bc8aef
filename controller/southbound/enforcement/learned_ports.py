"""The source ports of flows that agents have learned, beside the rows of a plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from controller.model.fabric import Fabric
from controller.model.packets.flow_ports import ALL_TCP
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding


class LearnedPort(NamedTuple):
    """The source port by which a host sends a flow.

    Attributes:
        port: ``None``: none is known.
        path: over which it leads, as an answered probe or a sampled packet has shown; ``None``: none has.
        seconds: since that was seen.
        sampled: samples of routers have shown it, not answers to probes.
    """

    port: int | None = None
    path: int | None = None
    seconds: float | None = None
    sampled: bool = False


FlowId = tuple[str, int]
"""A flow of a host: the address of the receiver, and its number among the flows of the two hosts."""

LearnedPorts = Mapping[str, Mapping[FlowId, LearnedPort]]
"""By host."""

NOT_LEARNED = LearnedPort()
NONE_LEARNED: LearnedPorts = MappingProxyType({})


def learned_of_rows(
    fabric: Fabric, traffic: Traffic, wire: FlowEncoding, learned: LearnedPorts
) -> Sequence[LearnedPort | None]:
    """Return what is known of the port of each row.

    ``None``: it needs none, as it has no path between leaves, or is TCP, whose ports are chosen for each connection.
    """
    flow = wire.flow
    columns = traffic.src[flow], traffic.dst[flow], wire.path, wire.udp_src
    return [
        learned.get(fabric.hosts[src].name, {}).get((fabric.hosts[dst].ip, number), NOT_LEARNED)
        if path >= 0 and number != ALL_TCP
        else None
        for src, dst, path, number in zip(*(column.tolist() for column in columns), strict=True)
    ]


def with_learned_ports(fabric: Fabric, traffic: Traffic, wire: FlowEncoding, learned: LearnedPorts) -> FlowEncoding:
    """Return the encoding with the ports that lead over the paths of its rows; others are unknown."""
    ports = wire.udp_src.copy()
    for row, each in enumerate(learned_of_rows(fabric, traffic, wire, learned)):
        if each is not None:
            ports[row] = ANY_PORT if each.port is None or each.path != wire.path[row] else each.port
    return dataclasses.replace(wire, udp_src=ports)
