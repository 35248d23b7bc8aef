"""The uplink that a packet of a flow takes at present: ``ofproto/trace`` of Open vSwitch, by the rules as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

from controller.model.packets.port_numbers import ROCE_PORT
from emulation.errors import LabError
from emulation.experiments.learned.learned_truth import Edge
from emulation.lab import Lab

_PORT = re.compile(r"port (\d+): (\S+)")
_ACTIONS = re.compile(r"Datapath actions: (.*)")
_LAST_NUMBER = re.compile(r"(?:^|,)(\d+)$")


def uplinks(lab: Lab, edges: Iterable[Edge]) -> dict[Edge, str]:
    """Return the interface by which the first packet of each flow leaves its leaf; flows within a leaf are left out.

    Raises:
        LabError: a packet of a flow is dropped.
    """
    interfaces = dict(_PORT.findall(lab.ovs.appctl("dpctl/show")))
    stations = {station.name: station for station in lab.wiring.hosts}
    leaf_of = {wire.a.node: wire for wire in lab.wiring.wires if wire.a.node in stations}
    uplink = {}
    for src, dst, port in edges:
        wire = leaf_of[src]
        if wire.b.node == leaf_of[dst].b.node:
            continue
        one, other = stations[src], stations[dst]
        packet = (
            f"in_port={wire.b.port},udp,dl_src={one.mac},dl_dst={other.mac},nw_src={one.ip},nw_dst={other.ip},"
            f"nw_ttl=64,udp_src={port},udp_dst={ROCE_PORT}"
        )
        trace = lab.ovs.appctl("ofproto/trace", lab.wiring.switch(wire.b.node).bridge, packet)
        uplink[src, dst, port] = interfaces[last_port(trace)]
    return uplink


def last_port(trace: str) -> str:
    """Return the datapath port to which the traced packet goes at last."""
    actions = _ACTIONS.search(trace)
    port = _LAST_NUMBER.search(actions[1].strip()) if actions else None
    if port is None:
        raise LabError(f"a packet goes nowhere:\n{trace}")
    return port[1]
