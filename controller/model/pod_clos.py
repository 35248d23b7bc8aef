"""The symmetric Clos fabric of three layers, with its conventional names, ids, addresses and ports."""

from __future__ import annotations

from controller.model.clos import SPINE_DPID, conventional_ip, conventional_mac
from controller.model.fabric import Cable, Fabric, Host, Switch

CORE_DPID = 2 * SPINE_DPID
"""By convention leaf i has datapath id i, aggregation switch j ``SPINE_DPID`` + j, and core c ``CORE_DPID`` + c."""


def pod_clos(
    pods: int,
    leaves: int,
    aggs: int,
    cores_per_agg: int,
    hosts_per_leaf: int,
    *,
    host_gbps: float = 100.0,
    uplink_gbps: float = 100.0,
    core_gbps: float = 100.0,
    parallel: int = 1,
    core_parallel: int = 1,
    nics_per_server: int = 1,
    rail_optimized: bool = False,
) -> Fabric:
    """Build a fabric of pods; aggregation switch j of each pod has the cores of plane j, which are its own.

    Core c (from 0) is in plane c mod ``aggs``, as in htsim (``FatTreeTopology``). Ports of a leaf: hosts first, then
    its uplinks aggregation switch by aggregation switch; of an aggregation switch: leaf by leaf, then core by core; of
    a core: pod by pod.

    Args:
        pods: the number of pods.
        leaves: the number of leaves of a pod.
        aggs: the number of aggregation switches of a pod, which is that of planes.
        cores_per_agg: the number of cores of a plane.
        hosts_per_leaf: the number of hosts on each leaf.
        host_gbps: the capacity of each host link in Gbit/s.
        uplink_gbps: the capacity of each cable between a leaf and an aggregation switch in Gbit/s.
        core_gbps: the capacity of each cable between an aggregation switch and a core in Gbit/s.
        parallel: the number of cables between a leaf and an aggregation switch.
        core_parallel: the number of cables between an aggregation switch and a core.
        nics_per_server: hosts (NICs) of one server; with more than 1, servers are node1.. and rails are 0..
        rail_optimized: the NICs of a server have the same place on as many leaves in a row, rail r on the r-th.
    """

    def server(leaf: int, number: int) -> tuple[str, int]:
        """Return server and rail of a host by its leaf and its place there, both from 0."""
        if nics_per_server == 1:
            return f"h{leaf * hosts_per_leaf + number + 1}", 0
        if rail_optimized:
            group, rail = divmod(leaf, nics_per_server)
            return f"node{group * hosts_per_leaf + number + 1}", rail
        node, rail = divmod(leaf * hosts_per_leaf + number, nics_per_server)
        return f"node{node + 1}", rail

    subnets = subnets_per_pod(leaves)
    hosts = tuple(
        Host(
            name=f"h{leaf * hosts_per_leaf + n + 1}",
            leaf=f"leaf{leaf + 1}",
            gbps=float(host_gbps),
            ip=conventional_ip((leaf // leaves + 1) * subnets + leaf % leaves, n + 1),
            mac=conventional_mac((leaf // leaves + 1) * subnets + leaf % leaves, n + 1),
            server=server(leaf, n)[0],
            rail=server(leaf, n)[1],
            port=n + 1,
        )
        for leaf in range(pods * leaves)
        for n in range(hosts_per_leaf)
    )
    lower = [
        Cable(
            lower=f"leaf{pod * leaves + leaf + 1}",
            upper=f"agg{pod * aggs + agg + 1}",
            gbps=float(uplink_gbps),
            lower_port=hosts_per_leaf + agg * parallel + number + 1,
            upper_port=leaf * parallel + number + 1,
        )
        for pod in range(pods)
        for leaf in range(leaves)
        for agg in range(aggs)
        for number in range(parallel)
    ]
    upper = [
        Cable(
            lower=f"agg{pod * aggs + agg + 1}",
            upper=f"core{core * aggs + agg + 1}",
            gbps=float(core_gbps),
            lower_port=leaves * parallel + core * core_parallel + number + 1,
            upper_port=pod * core_parallel + number + 1,
        )
        for pod in range(pods)
        for agg in range(aggs)
        for core in range(cores_per_agg)
        for number in range(core_parallel)
    ]
    layers = (
        tuple(Switch(f"leaf{i}", i) for i in range(1, pods * leaves + 1)),
        tuple(Switch(f"agg{i}", SPINE_DPID + i) for i in range(1, pods * aggs + 1)),
        tuple(Switch(f"core{i}", CORE_DPID + i) for i in range(1, aggs * cores_per_agg + 1)),
    )
    return Fabric(layers, hosts, (*lower, *upper))


def subnets_per_pod(leaves: int) -> int:
    """Return how many /24 a pod's prefix has: a power of two, so that one prefix leads to all leaves of a pod.

    Pod p (from 1) begins at the p-th such block of 10.0.0.0/8, and each of its leaves has the next /24.
    """
    return 1 << (leaves - 1).bit_length()
