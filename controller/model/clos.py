"""The symmetric Clos fabric, with its conventional names, ids, addresses and ports."""

from __future__ import annotations

from ipaddress import IPv4Address

from controller.model.fabric import Cable, Fabric, Host, Switch

SPINE_DPID = 64 * 1024
"""By convention leaf i has datapath id i and spine j has ``SPINE_DPID`` + j."""

MAX_LEAVES = SPINE_DPID - 1
"""Most leaves that have a datapath id and a /24 by convention."""


def clos(
    spines: int,
    leaves: int,
    hosts_per_leaf: int,
    *,
    host_gbps: float = 100.0,
    uplink_gbps: float = 100.0,
    parallel: int = 1,
    planes: int = 1,
    nics_per_server: int = 1,
    rail_optimized: bool = False,
) -> Fabric:
    """Build the symmetric fabric of the short form, with its conventional names, ids, addresses and ports.

    With several planes, each is such a fabric, and its hosts are ports: ``h1.p2`` is the port of NIC ``h1`` in plane 2.
    Switches are numbered plane by plane.

    A leaf's ports: hosts first (1..hosts_per_leaf), then its uplinks spine by spine; a spine's ports: leaf by leaf.
    ``topologies/clos.py`` wires Mininet the same way, and a test compares the two.

    Args:
        spines: the number of spines of a plane.
        leaves: the number of leaves of a plane.
        hosts_per_leaf: the number of hosts on each leaf.
        host_gbps: the capacity of each host link in Gbit/s.
        uplink_gbps: the capacity of each leaf-spine cable in Gbit/s.
        parallel: the number of cables between a leaf and a spine.
        planes: the number of planes, in each of which every NIC has a port.
        nics_per_server: hosts (NICs) of one server; with more than 1, servers are node1.. and rails are 0..
        rail_optimized: the NICs of a server are not neighbours on one leaf but have the same place on as many leaves
            in a row, rail r on the r-th (NVIDIA DGX SuperPOD reference architecture, compute fabric).
    """

    def server(leaf: int, number: int) -> tuple[str, int]:
        """Return server and rail of NIC ``number`` on ``leaf`` of a plane, both from 1."""
        if nics_per_server == 1:
            return f"h{(leaf - 1) * hosts_per_leaf + number}", 0
        if rail_optimized:
            group, rail = divmod(leaf - 1, nics_per_server)
            return f"node{group * hosts_per_leaf + number}", rail
        node, rail = divmod((leaf - 1) * hosts_per_leaf + number - 1, nics_per_server)
        return f"node{node + 1}", rail

    def host(plane: int, leaf: int, number: int) -> Host:
        """Return a host by its place in its plane; planes are numbered from 0, leaves and their hosts from 1."""
        name, subnet = f"h{(leaf - 1) * hosts_per_leaf + number}", plane * leaves + leaf
        return Host(
            name=name if planes == 1 else f"{name}.p{plane + 1}",
            leaf=f"leaf{subnet}",
            gbps=float(host_gbps),
            ip=conventional_ip(subnet, number),
            mac=conventional_mac(subnet, number),
            server=server(leaf, number)[0],
            rail=server(leaf, number)[1],
            port=number,
            nic=None if planes == 1 else name,
        )

    leaf_switches = tuple(Switch(f"leaf{i}", i) for i in range(1, planes * leaves + 1))
    spine_switches = tuple(Switch(f"spine{j}", SPINE_DPID + j) for j in range(1, planes * spines + 1))
    hosts = tuple(
        host(plane, i, n) for plane in range(planes) for i in range(1, leaves + 1) for n in range(1, hosts_per_leaf + 1)
    )
    cables = tuple(
        Cable(
            lower=f"leaf{plane * leaves + i}",
            upper=f"spine{plane * spines + j}",
            gbps=float(uplink_gbps),
            lower_port=hosts_per_leaf + (j - 1) * parallel + p + 1,
            upper_port=(i - 1) * parallel + p + 1,
        )
        for plane in range(planes)
        for i in range(1, leaves + 1)
        for j in range(1, spines + 1)
        for p in range(parallel)
    )
    return Fabric((leaf_switches, spine_switches), hosts, cables)


def conventional_ip(leaf: int, number: int) -> str:
    """Return the address of host ``number`` (from 1) on leaf ``leaf`` (from 1): one /24 a leaf inside 10.0.0.0/8."""
    return str(IPv4Address((10 << 24) | (leaf << 8) | number))


def conventional_mac(leaf: int, number: int) -> str:
    """Return a locally administered MAC address that contains the leaf and the number."""
    octets = (0x02, 0, 0, leaf >> 8 & 0xFF, leaf & 0xFF, number)
    return ":".join(f"{octet:02x}" for octet in octets)
