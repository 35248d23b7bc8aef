"""The symmetric Clos fabric, with its conventional names, ids, addresses and ports."""

from __future__ import annotations

from ipaddress import IPv4Address

from controller.model.fabric import Cable, Fabric, Host, Switch


def clos(
    spines: int,
    leaves: int,
    hosts_per_leaf: int,
    *,
    host_gbps: float = 100.0,
    uplink_gbps: float = 100.0,
    parallel: int = 1,
) -> Fabric:
    """The symmetric fabric of the short form, with its conventional names, ids, addresses and ports.

    A leaf's ports: hosts first (1..hosts_per_leaf), then its uplinks spine by spine; a spine's ports: leaf by leaf.
    ``topologies/clos.py`` wires Mininet the same way, and a test holds the two together.
    """
    leaf_switches = tuple(Switch(f"leaf{i}", i) for i in range(1, leaves + 1))
    spine_switches = tuple(Switch(f"spine{j}", 65536 + j) for j in range(1, spines + 1))
    hosts = tuple(
        Host(
            name=f"h{(i - 1) * hosts_per_leaf + n}",
            leaf=f"leaf{i}",
            gbps=float(host_gbps),
            ip=conventional_ip(i, n),
            mac=conventional_mac(i, n),
            server=f"h{(i - 1) * hosts_per_leaf + n}",
            port=n,
        )
        for i in range(1, leaves + 1)
        for n in range(1, hosts_per_leaf + 1)
    )
    cables = tuple(
        Cable(
            leaf=f"leaf{i}",
            spine=f"spine{j}",
            gbps=float(uplink_gbps),
            leaf_port=hosts_per_leaf + (j - 1) * parallel + p + 1,
            spine_port=(i - 1) * parallel + p + 1,
        )
        for i in range(1, leaves + 1)
        for j in range(1, spines + 1)
        for p in range(parallel)
    )
    return Fabric(leaf_switches, spine_switches, hosts, cables)


def conventional_ip(leaf: int, number: int) -> str:
    """Address of host ``number`` (from 1) on leaf ``leaf`` (from 1): one /24 a leaf inside 10.0.0.0/8."""
    return str(IPv4Address((10 << 24) | (leaf << 8) | number))


def conventional_mac(leaf: int, number: int) -> str:
    """A locally administered address with the leaf and the number in it."""
    octets = (0x02, 0, 0, leaf >> 8 & 0xFF, leaf & 0xFF, number)
    return ":".join(f"{octet:02x}" for octet in octets)
