"""The cabling of a fabric for tools that compare it with what LLDP sees: PTM's ``topology.dot``, SONiC's CONFIG_DB."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.fabric_parts import Host

InterfaceName = Callable[[str, int], str]
"""Returns the name of the interface of a switch's port."""

MBPS = 1000
SONIC_TYPES = {"leaf": "ToRRouter", "spine": "LeafRouter", "aggregation": "LeafRouter", "core": "SpineRouter"}
"""What SONiC calls a switch, by its role; a host is a Server."""


class CableEnds(NamedTuple):
    """A cable with the node and interface at each end; the second one is above, or a server."""

    node: str
    interface: str
    other: str
    other_interface: str
    gbps: float


def cables_of(fabric: Fabric, name: InterfaceName) -> Iterator[CableEnds]:
    """Yield all cables, also those that are down, those of hosts first.

    Args:
        fabric: the fabric.
        name: gives the interfaces that the fabric file does not name.

    Raises:
        InputError: a port has neither a name nor a number.
    """

    def interface(switch: str, given: str | None, port: int | None, what: str) -> str:
        if given is None and port is None:
            raise InputError("neither the interface nor the port is known", field=what, value=switch)
        return given if given is not None else name(switch, port or 0)

    for host in fabric.hosts:
        here = interface(host.leaf, host.interface, host.port, f"host {host.name}")
        yield CableEnds(host.leaf, here, host.server, _nic(host), host.gbps)
    for cable in fabric.cables:
        what = f"cable {cable.lower} {cable.upper}"
        here = interface(cable.lower, cable.lower_interface, cable.lower_port, what)
        there = interface(cable.upper, cable.upper_interface, cable.upper_port, what)
        yield CableEnds(cable.lower, here, cable.upper, there, cable.gbps)


def ptm_lines(fabric: Fabric, name: InterfaceName) -> Iterator[str]:
    """Yield the lines of ``topology.dot``; see ``cables_of``.

    Raises:
        InputError: as ``cables_of``.
    """
    yield 'graph "fairspine" {'
    for switch, role in _roles(fabric).items():
        yield f' "{switch}" [function="{role}"]'
    for server in dict.fromkeys(host.server for host in fabric.hosts):
        yield f' "{server}" [function="host"]'
    for row in cables_of(fabric, name):
        yield f' "{row.node}":"{row.interface}" -- "{row.other}":"{row.other_interface}"'
    yield "}"


def config_db_documents(fabric: Fabric, name: InterfaceName) -> dict[str, dict[str, Any]]:
    """Return for each switch the tables of CONFIG_DB that say what is connected to its ports; see ``cables_of``.

    Raises:
        InputError: as ``cables_of``.
    """
    types = {switch: SONIC_TYPES[role] for switch, role in _roles(fabric).items()}
    documents: dict[str, dict[str, Any]] = {
        switch: {
            "DEVICE_METADATA": {"localhost": {"hostname": switch, "type": kind}},
            "PORT": {},
            "DEVICE_NEIGHBOR": {},
            "DEVICE_NEIGHBOR_METADATA": {},
        }
        for switch, kind in types.items()
    }
    for row in cables_of(fabric, name):
        for here, port, there, end in (
            (row.node, row.interface, row.other, row.other_interface),
            (row.other, row.other_interface, row.node, row.interface),
        ):
            if here in documents:
                tables = documents[here]
                tables["PORT"][port] = {"speed": f"{round(row.gbps * MBPS)}"}
                tables["DEVICE_NEIGHBOR"][port] = {"name": there, "port": end}
                tables["DEVICE_NEIGHBOR_METADATA"][there] = {"type": types.get(there, "Server")}
    return documents


def _roles(fabric: Fabric) -> dict[str, str]:
    return {switch.name: role for role, layer in zip(fabric.roles, fabric.layers, strict=True) for switch in layer}


def _nic(host: Host) -> str:
    """Return a name for a host's port at its server, which fabric files do not have."""
    return f"eth{host.rail}" if host.nic is None else f"{host.nic}-{host.name}"
