"""The symmetric Clos fabric of three layers, with its conventional names, ids, addresses and ports."""

from __future__ import annotations

from controller.model.fabric import Cable, Fabric, Switch
from controller.model.files.clos import SPINE_DPID
from controller.model.files.short_form_hosts import NicForm, short_form_hosts

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
    planes: int = 1,
    dual_tor: bool = False,
    nics_per_server: int = 1,
    rail_optimized: bool = False,
    bond: bool = False,
) -> Fabric:
    """Build a fabric of pods; aggregation switch j of each pod has the cores of plane j, which are its own.

    Core c (from 0) is in plane c mod ``aggs``, as in htsim (``FatTreeTopology``). Ports of a leaf: hosts first, then
    its uplinks aggregation switch by aggregation switch; of an aggregation switch: leaf by leaf, then core by core; of
    a core: pod by pod. With several planes of NICs, each is such a fabric; pods and switches are numbered plane by
    plane.

    Args:
        pods: the number of pods of a plane of NICs.
        leaves: the number of leaves of a pod.
        aggs: the number of aggregation switches of a pod.
        cores_per_agg: the number of cores above an aggregation switch.
        hosts_per_leaf: the number of hosts on each leaf.
        host_gbps: the capacity of each host link in Gbit/s.
        uplink_gbps: the capacity of each cable between a leaf and an aggregation switch in Gbit/s.
        core_gbps: the capacity of each cable between an aggregation switch and a core in Gbit/s.
        parallel: the number of cables between a leaf and an aggregation switch.
        core_parallel: the number of cables between an aggregation switch and a core.
        planes: see ``NicForm``, as the rest.
        dual_tor: see there; the number of leaves is even.
        nics_per_server: see there.
        rail_optimized: see there.
        bond: see there.
    """
    nics, subnets = NicForm(host_gbps, planes, dual_tor, nics_per_server, rail_optimized, bond), subnets_per_pod(leaves)

    def subnet(plane: int, leaf: int) -> int:
        return (plane * pods + leaf // leaves + 1) * subnets + leaf % leaves

    lower = [
        Cable(
            lower=f"leaf{pod * leaves + leaf + 1}",
            upper=f"agg{pod * aggs + agg + 1}",
            gbps=float(uplink_gbps),
            lower_port=hosts_per_leaf + agg * parallel + number + 1,
            upper_port=leaf * parallel + number + 1,
        )
        for pod in range(planes * pods)
        for leaf in range(leaves)
        for agg in range(aggs)
        for number in range(parallel)
    ]
    upper = [
        Cable(
            lower=f"agg{pod * aggs + agg + 1}",
            upper=f"core{(pod // pods * cores_per_agg + core) * aggs + agg + 1}",
            gbps=float(core_gbps),
            lower_port=leaves * parallel + core * core_parallel + number + 1,
            upper_port=pod % pods * core_parallel + number + 1,
        )
        for pod in range(planes * pods)
        for agg in range(aggs)
        for core in range(cores_per_agg)
        for number in range(core_parallel)
    ]
    layers = (
        tuple(Switch(f"leaf{i}", i) for i in range(1, planes * pods * leaves + 1)),
        tuple(Switch(f"agg{i}", SPINE_DPID + i) for i in range(1, planes * pods * aggs + 1)),
        tuple(Switch(f"core{i}", CORE_DPID + i) for i in range(1, planes * aggs * cores_per_agg + 1)),
    )
    return Fabric(layers, short_form_hosts(nics, pods * leaves, hosts_per_leaf, subnet), (*lower, *upper))


def subnets_per_pod(leaves: int) -> int:
    """Return how many /24 a pod's prefix has: a power of two, so that one prefix leads to all leaves of a pod.

    Pod p (from 1) begins at the p-th such block of 10.0.0.0/8, and each of its leaves has the next /24.
    """
    return 1 << (leaves - 1).bit_length()
