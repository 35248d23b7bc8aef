"""The prefixes by which switches reach the hosts of leaves and pods."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import numpy as np
from numpy.typing import NDArray

Prefixes = tuple[IPv4Network, ...]


def leaf_prefixes(
    addresses: NDArray[np.uint32], leaf_of: NDArray[np.int32], network: NDArray[np.int32]
) -> tuple[Prefixes, ...]:
    """Return [L] the prefixes of each leaf's hosts, ascending.

    A /24 whose hosts in a network all sit on one leaf is that leaf's; hosts of a mixed /24 are routed one by one (/32).
    Networks may have addresses in common.

    Args:
        addresses: [H] IPv4 address of each host, as a number.
        leaf_of: [H] leaf of each host.
        network: [L] network of each leaf.
    """
    in_network = network[leaf_of].astype(np.int64) << 24
    nets, net_of = np.unique(in_network | (addresses >> 8), return_inverse=True)
    lowest, highest = np.full(len(nets), len(network)), np.full(len(nets), -1)
    np.minimum.at(lowest, net_of, leaf_of)
    np.maximum.at(highest, net_of, leaf_of)
    whole = lowest == highest
    single = np.flatnonzero(~whole[net_of])
    prefixes: list[list[IPv4Network]] = [[] for _ in network]
    for leaf, net in zip(lowest[whole].tolist(), (nets[whole] & 0xFFFFFF).tolist(), strict=True):
        prefixes[leaf].append(IPv4Network((net << 8, 24)))
    for leaf, address in zip(leaf_of[single].tolist(), addresses[single].tolist(), strict=True):
        prefixes[leaf].append(IPv4Network(address))
    return tuple(tuple(sorted(each)) for each in prefixes)


IPV6_LEAF_BITS = 64


def ipv6_leaf_prefixes(
    addresses: Sequence[IPv6Address], leaf_of: Sequence[int], network: Sequence[int]
) -> tuple[tuple[IPv6Network, ...], ...]:
    """Return [L] the prefixes of each leaf's hosts, ascending: /64 as ``leaf_prefixes`` has /24, and /128 as /32.

    Args:
        addresses: IPv6 address of each host that has one.
        leaf_of: leaf of each of them.
        network: [L] network of each leaf.
    """
    subnets = [int(address) >> IPV6_LEAF_BITS for address in addresses]
    leaves: dict[tuple[int, int], set[int]] = {}
    for subnet, leaf in zip(subnets, leaf_of, strict=True):
        leaves.setdefault((network[leaf], subnet), set()).add(leaf)
    prefixes: list[set[IPv6Network]] = [set() for _ in network]
    for address, subnet, leaf in zip(addresses, subnets, leaf_of, strict=True):
        whole = len(leaves[network[leaf], subnet]) == 1
        prefixes[leaf].add(IPv6Network((subnet << IPV6_LEAF_BITS, IPV6_LEAF_BITS) if whole else int(address)))
    return tuple(tuple(sorted(each)) for each in prefixes)


def merged_prefixes(
    prefixes: Sequence[Prefixes], group_of: Sequence[int], network: Sequence[int]
) -> tuple[Prefixes, ...]:
    """Return the fewest aligned prefixes of each group of leaves; none has an address of another group of its network.

    A prefix may have addresses that no host has: a pod of three leaves with neighbouring /24 is one /22.

    Args:
        prefixes: [L] prefixes of each leaf; those of a network do not overlap.
        group_of: [L] group of each leaf, all of one network.
        network: [L] network of each leaf.

    Returns:
        [G] prefixes of each group, ascending.
    """
    of_group: list[list[IPv4Network]] = [[] for _ in range(1 + max(group_of, default=-1))]
    placed: dict[int, list[tuple[IPv4Network, int]]] = {}
    for nets, group, own in zip(prefixes, group_of, network, strict=True):
        placed.setdefault(own, []).extend((net, group) for net in nets)
    for each in placed.values():
        _merge(sorted(each), of_group)
    return tuple(tuple(nets) for nets in of_group)


def _merge(placed: Sequence[tuple[IPv4Network, int]], of_group: list[list[IPv4Network]]) -> None:
    """Add the merged prefixes of each group of a network; ``placed``: prefix and group of each leaf, ascending."""
    before = -1
    for group, run in itertools.groupby(placed, key=lambda one: one[1]):
        nets = [net for net, _ in run]
        place = bisect.bisect_right(placed, (nets[-1], group))
        after = int(placed[place][0].network_address) if place < len(placed) else 1 << 32
        last = int(nets[-1].broadcast_address)
        while nets:
            merged = _merged(nets, before, after)
            of_group[group].append(merged)
            nets = [net for net in nets if not net.subnet_of(merged)]
        before = last


def _merged(nets: Sequence[IPv4Network], before: int, after: int) -> IPv4Network:
    """Return the smallest prefix with the first of ascending prefixes and as many of the others as possible.

    Args:
        nets: one prefix or more.
        before: the prefix must begin after this address.
        after: the prefix must end before this address.
    """
    best = wider = nets[0]
    covered = 1
    while covered < len(nets):
        wider = wider.supernet()
        if int(wider.network_address) <= before or int(wider.broadcast_address) >= after:
            break
        many = sum(net.subnet_of(wider) for net in nets)
        if many > covered:
            best, covered = wider, many
    return best
