"""Which routers answer the hop-limited probes of each path, and by which hop limits paths are told apart.

A packet with hop limit n is dropped by the n-th switch on its path, which says so from an address of its own. The first
one is the sender's leaf, the same for all paths. One hop limit is enough in most fabrics: in two layers the second
switch is the spine, and in three layers the third is the core, to which only one way leads.

What a packet passes behind that switch such probes do not show. One more hop limit, at which it is to be at the
receiver's leaf, shows whether its path is as long as the file says.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from controller.model.errors import InputError
from controller.model.fabric import Fabric, Switch

IPV6 = 6


@dataclass(frozen=True)
class ProbeRoute:
    """How probes show the paths from one leaf to another.

    Attributes:
        hops: the hop limits of the probes of one port, as few as possible.
        paths: numbers of the paths, ascending, whether their cables are up or not.
        routers: of each path, the switches that answer, by hop limit.
    """

    hops: tuple[int, ...]
    paths: tuple[int, ...]
    routers: tuple[tuple[Switch, ...], ...]


def check_probes(fabric: Fabric, *, last_leaf: bool = False) -> None:
    """See whether probes can tell the paths of a fabric apart; ``last_leaf``: as of ``probe_route``.

    Raises:
        InputError: cables are parallel; ports of a NIC share an address; or a switch that is to answer has no address
            of a version of IP that hosts have.
    """
    if fabric.planes.bonds:
        raise InputError("ports that share an address cannot be told apart by probes", field="hosts")
    parallel = (fabric.cable_number > 0).nonzero()[0].tolist()
    if parallel:
        raise InputError(
            "is parallel to another cable, and probes cannot tell them apart",
            field="links",
            value=fabric.cable_names[parallel[0]],
        )
    answering = fabric.layers if last_leaf else fabric.layers[1:]
    for version in sorted({host.ip_version for host in fabric.hosts}):
        unknown = next((each for layer in answering for each in layer if not addresses_of(each, version)), None)
        if unknown is not None:
            what = "IPv6 addresses" if version == IPV6 else "addresses"
            reason = f"has no {what}, from which its answers to probes come"
            raise InputError(reason, field="switches", value=unknown.name)


def addresses_of(switch: Switch, version: int) -> list[str]:
    """Return the addresses of a switch that are of a version of IP, from which it answers packets of that version."""
    return [address for address in switch.addresses if (":" in address) == (version == IPV6)]


def probe_route(fabric: Fabric, src_leaf: int, dst_leaf: int, *, last_leaf: bool = False) -> ProbeRoute:
    """Return how probes show the paths between two different leaves.

    Args:
        fabric: the fabric.
        src_leaf: the leaf of the sender.
        dst_leaf: the leaf of the receiver.
        last_leaf: whether one more probe shows that packets are at the receiver's leaf when they should be.

    Raises:
        InputError: two paths pass the same switches.
    """
    paths = tuple(fabric.ways.between(src_leaf, dst_leaf).tolist())
    passed = [passed_switches(fabric, src_leaf, dst_leaf, path) for path in paths]
    limits = range(2, 2 + max(map(len, passed), default=0))
    for many in range(1, len(limits) + 1):
        for hops in itertools.combinations(limits, many):
            routers = tuple(tuple(switches[hop - 2] for hop in hops) for switches in passed)
            if len(set(routers)) == len(paths):
                if not last_leaf:
                    return ProbeRoute(hops, paths, routers)
                end = fabric.leaves[dst_leaf]
                return ProbeRoute((*hops, limits.stop), paths, tuple((*row, end) for row in routers))
    ends = fabric.leaves[src_leaf].name, fabric.leaves[dst_leaf].name
    raise InputError(f"two paths from {ends[0]} to {ends[1]} pass the same switches", field="links")


def passed_switches(fabric: Fabric, src_leaf: int, dst_leaf: int, path: int) -> Sequence[Switch]:
    """Return the switches between two leaves that a path passes, in the order of travel."""
    switches = []
    for link in fabric.ways.links_of(src_leaf, dst_leaf, path)[:-1]:
        cable, is_down = divmod(link - fabric.first_cable_link, 2)
        tier = int(fabric.cable_tier[cable])
        ends = fabric.cable_lower if is_down else fabric.cable_upper
        switches.append(fabric.layers[tier if is_down else tier + 1][int(ends[cable])])
    return switches
