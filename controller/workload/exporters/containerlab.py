"""A fabric as a topology of containerlab, which runs it as containers.

Leaves and spines are nodes of one kind, servers are Linux containers with an interface a NIC. containerlab has no
speeds: they are lost, as are datapath ids.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric

SWITCH_KIND, SWITCH_IMAGE = "nokia_srlinux", "ghcr.io/nokia/srlinux"
SERVER_IMAGE = "ghcr.io/srl-labs/network-multitool"

_INTERFACES = {"nokia_srlinux": "e1-{}", "sonic-vs": "Ethernet{}", "sonic-vm": "Ethernet{}"}


def containerlab_document(
    fabric: Fabric, name: str = "fairspine", kind: str = SWITCH_KIND, image: str = SWITCH_IMAGE
) -> dict[str, Any]:
    """Return the topology as plain data.

    Args:
        fabric: the fabric to export.
        name: the name of the lab.
        kind: the node kind of the switches.
        image: the container image of the switches.

    Raises:
        InputError: a server and a switch have the same name.
    """
    servers = dict.fromkeys(host.server for host in fabric.hosts)
    switches = {switch.name: role for role, layer in zip(fabric.roles, fabric.layers, strict=True) for switch in layer}
    for server in servers:
        if server in switches:
            raise InputError("a switch and a server have the same name", field="hosts", value=server)
    ports: Counter[str] = Counter()

    def end(node: str) -> str:
        ports[node] += 1
        form = "eth{}" if node in servers else _INTERFACES.get(kind, "eth{}")
        return f"{node}:{form.format(ports[node])}"

    links = [{"endpoints": [end(cable.lower), end(cable.upper)]} for cable in fabric.cables if cable.up]
    hosts = sorted((host for host in fabric.hosts if host.up), key=lambda host: host.rail)
    links += [{"endpoints": [end(host.server), end(host.leaf)]} for host in hosts]
    nodes: dict[str, Any] = {switch: {"kind": kind, "group": role} for switch, role in switches.items()}
    nodes |= {server: {"kind": "linux"} for server in servers}
    return {
        "name": name,
        "topology": {
            "kinds": {kind: {"image": image}, "linux": {"image": SERVER_IMAGE}},
            "nodes": nodes,
            "links": links,
        },
    }
