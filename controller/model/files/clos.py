"""The symmetric Clos fabric, with its conventional names, ids, addresses and ports."""

from __future__ import annotations

from controller.model.fabric import Cable, Fabric, Switch
from controller.model.files.short_form_hosts import NicForm, short_form_hosts

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
    dual_tor: bool = False,
    nics_per_server: int = 1,
    rail_optimized: bool = False,
    bond: bool = False,
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
        planes: see ``NicForm``, as the rest.
        dual_tor: see there; the number of leaves is even.
        nics_per_server: see there.
        rail_optimized: see there.
        bond: see there.
    """
    nics = NicForm(host_gbps, planes, dual_tor, nics_per_server, rail_optimized, bond)
    leaf_switches = tuple(Switch(f"leaf{i}", i) for i in range(1, planes * leaves + 1))
    spine_switches = tuple(Switch(f"spine{j}", SPINE_DPID + j) for j in range(1, planes * spines + 1))
    hosts = short_form_hosts(nics, leaves, hosts_per_leaf, lambda plane, leaf: plane * leaves + leaf + 1)
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
