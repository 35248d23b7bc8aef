"""Bonds: which ports of a NIC may share an address."""

from __future__ import annotations

from controller.model.errors import InputError
from controller.model.fabric import Fabric, Host


def check_bonds(fabric: Fabric) -> None:
    """Check that ports of a NIC that share an IP address share the MAC address, too, and are in unlike networks.

    Raises:
        InputError: it is not so.
    """
    if fabric.planes.count == 1:
        return
    network = fabric.planes.network[0][fabric.host_leaf].tolist()
    by_ip: dict[tuple[str, str], tuple[Host, set[int]]] = {}
    by_mac: dict[tuple[str, str], Host] = {}
    for i, (host, own) in enumerate(zip(fabric.hosts, network, strict=True)):
        nic = host.nic or host.name
        first, networks = by_ip.setdefault((nic, host.ip), (host, set()))
        for other, same, unlike in ((first, "ip", "mac"), (by_mac.setdefault((nic, host.mac), host), "mac", "ip")):
            if getattr(other, unlike) != getattr(host, unlike):
                raise InputError(
                    f"{other.name} and {host.name} have the same {same}, so they need the same {unlike}: "
                    "ports of a bond share both",
                    field=f"hosts[{i}].{unlike}",
                    value=getattr(host, unlike),
                )
        if own in networks:
            raise InputError(
                f"{first.name} and {host.name} of NIC {nic} are in one network and have the same ip: "
                "bonds need ports in unlike networks (planes), and dual-ToR needs an ip and a mac of each port",
                field=f"hosts[{i}].ip",
                value=host.ip,
            )
        networks.add(own)
