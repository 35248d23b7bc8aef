"""The hosts of the short forms of fabric files: their conventional names, addresses, ports and servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from controller.model.fabric import Host


class NicForm(NamedTuple):
    """The ports of the NICs of a short form, and the NICs of its servers.

    Attributes:
        gbps: the capacity of each port in Gbit/s.
        planes: the number of networks, in each of which every NIC has ports.
        dual_tor: whether a NIC has two ports in each network, on two neighbouring leaves (1 and 2, 3 and 4, ..).
        nics_per_server: the NICs of one server; with more than 1, servers are node1.. and rails are 0..
        rail_optimized: the NICs of a server are not neighbours on one leaf but have the same place on as many leaves
            (or pairs of leaves) in a row, rail r on the r-th (NVIDIA DGX SuperPOD reference architecture, compute
            fabric).
        bond: whether the ports of a NIC share one IP address and one MAC address: those of its port in plane 1.
    """

    gbps: float = 100.0
    planes: int = 1
    dual_tor: bool = False
    nics_per_server: int = 1
    rail_optimized: bool = False
    bond: bool = False


def short_form_hosts(
    form: NicForm, leaves: int, hosts_per_leaf: int, subnet: Callable[[int, int], int]
) -> tuple[Host, ...]:
    """Return the hosts of all leaves, plane by plane and leaf by leaf.

    NICs are ``h1``.. in leaf order. The port of ``h1`` in plane 2 is the host ``h1.p2``; where NICs have one port, the
    host is ``h1``.

    Args:
        form: how NICs are connected.
        leaves: the number of leaves of a plane.
        hosts_per_leaf: the number of ports on each leaf.
        subnet: the number of the /24 of a leaf, by its plane and its number there, both from 0.
    """
    sides = 2 if form.dual_tor else 1

    def host(plane: int, leaf: int, number: int) -> Host:
        """Return a host by its place; all are numbered from 0."""
        seat, side = divmod(leaf, sides)
        name, ports = f"h{seat * hosts_per_leaf + number + 1}", form.planes * sides
        server, rail = _server(form, seat, number, hosts_per_leaf)
        addressed = subnet(0 if form.bond else plane, leaf)
        return Host(
            name=name if ports == 1 else f"{name}.p{plane * sides + side + 1}",
            leaf=f"leaf{plane * leaves + leaf + 1}",
            gbps=float(form.gbps),
            ip=conventional_ip(addressed, number + 1),
            mac=conventional_mac(addressed, number + 1),
            server=server,
            rail=rail,
            port=number + 1,
            nic=None if ports == 1 else name,
        )

    return tuple(
        host(plane, leaf, n) for plane in range(form.planes) for leaf in range(leaves) for n in range(hosts_per_leaf)
    )


def _server(form: NicForm, leaf: int, number: int, hosts_per_leaf: int) -> tuple[str, int]:
    """Return server and rail of a NIC by its leaf (or pair of leaves) and its place there, both from 0."""
    if form.nics_per_server == 1:
        return f"h{leaf * hosts_per_leaf + number + 1}", 0
    if form.rail_optimized:
        group, rail = divmod(leaf, form.nics_per_server)
        return f"node{group * hosts_per_leaf + number + 1}", rail
    node, rail = divmod(leaf * hosts_per_leaf + number, form.nics_per_server)
    return f"node{node + 1}", rail


def conventional_ip(leaf: int, number: int) -> str:
    """Return the address of host ``number`` (from 1) on leaf ``leaf`` (from 1): one /24 a leaf inside 10.0.0.0/8."""
    return f"10.{leaf >> 8 & 0xFF}.{leaf & 0xFF}.{number}"


def conventional_mac(leaf: int, number: int) -> str:
    """Return a locally administered MAC address that contains the leaf and the number."""
    return f"02:00:00:{leaf >> 8 & 0xFF:02x}:{leaf & 0xFF:02x}:{number:02x}"
