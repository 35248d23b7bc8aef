"""The fabric: switches, hosts and directed links, as one immutable value.

Numbering, which every array in the program follows (H hosts, C cables, E = 2H + 2C directed links):

* hosts 0..H-1, and the switches of each layer from 0, in the order given;
* link ``h`` is host h -> its leaf, link ``H + h`` is that leaf -> host h;
* link ``2H + 2c`` is cable c from its lower to its upper switch (an uplink), ``2H + 2c + 1`` the same cable the other
  way (a downlink).

A *path* between two leaves is a number (``controller.model.paths.ways``). It is made of choices, one for each tier of
cables up to that above which the leaves meet: among spines, or among planes and then the cores of a plane, each with
parallel cables. A switch maps the i-th cable in to the (i mod n)-th cable out, so the choices on the way up
determine the way down. Choices keep their numbers when links fail: plans stay comparable.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network, IPv6Address, IPv6Network
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric_parts import Cable as Cable
from controller.model.fabric_parts import FabricParts
from controller.model.fabric_parts import Host as Host
from controller.model.fabric_parts import Switch as Switch
from controller.model.fabric_parts import SwitchKind as SwitchKind
from controller.model.paths.choice_kinds import choice_kinds
from controller.model.paths.cuts import TierCuts, cuts_of
from controller.model.paths.grouping import components, numbered
from controller.model.paths.path_tables import (
    Choices,
    Pods,
    TierCables,
    path_names,
    path_numbers,
    pods_of,
    three_layers,
    two_layers,
    ways_of,
)
from controller.model.paths.ways import NO_LINK, Tier, Ways
from controller.model.planes import Planes, planes_of
from controller.model.prefixes import ipv6_leaf_prefixes, leaf_prefixes, merged_prefixes
from controller.model.tenant import Tenant

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


T = TypeVar("T")


class live_property(cached_property[T]):  # noqa: N801 (as cached_property)
    """A table of a fabric that depends on what is up: fabrics that differ in that share all other tables."""


@dataclass(frozen=True)
class Fabric(FabricParts):
    """A Clos fabric of two or three layers of switches; each cable connects a layer with the next one.

    Build it with ``fabric_file`` or ``clos``: they validate, this class does not.

    Attributes:
        link_share: [E] part of each link's capacity that plans count on, above 0; empty: all of it.
        tenants: whose jobs share it; empty: there are none.
    """

    link_share: tuple[float, ...] = ()
    tenants: tuple[Tenant, ...] = ()

    # -- arrays ----------------------------------------------------------------------------------------------

    @property
    def n_hosts(self) -> int:
        """The number H of hosts."""
        return len(self.hosts)

    @property
    def n_leaves(self) -> int:
        """The number L of leaves."""
        return len(self.leaves)

    @property
    def n_spines(self) -> int:
        """The number S of spines, or of cores where there are three layers."""
        return len(self.spines)

    @property
    def n_links(self) -> int:
        """The number E of directed links."""
        return 2 * len(self.hosts) + 2 * len(self.cables)

    @property
    def n_paths(self) -> int:
        """The number K of paths; a path is 0..K-1 for every pair of leaves."""
        return self.ways.n_paths

    @property
    def first_cable_link(self) -> int:
        """Link index of the first uplink: links below it belong to hosts."""
        return 2 * len(self.hosts)

    @cached_property
    def host_leaf(self) -> IntArray:
        """[H] leaf index of each host."""
        return np.array([self.leaf_index[host.leaf] for host in self.hosts], dtype=np.int32)

    @cached_property
    def seats(self) -> tuple[int, ...]:
        """[H] the place of each host among those of its leaf, from 1."""
        seated = [0] * self.n_leaves
        seats = []
        for leaf in self.host_leaf.tolist():
            seated[leaf] += 1
            seats.append(seated[leaf])
        return tuple(seats)

    @cached_property
    def host_names(self) -> tuple[str, ...]:
        """[H] names by host index."""
        return tuple(host.name for host in self.hosts)

    @cached_property
    def host_ip(self) -> NDArray[np.uint32]:
        """[H] IPv4 address of each host as a number; of an IPv6 address, its four parts of 32 bits by exclusive or."""
        parts = [_folded(host.ip) if ":" in host.ip else host.ip.split(".") for host in self.hosts]
        octets = np.array(parts, dtype=np.uint32).reshape(-1, 4)
        number: NDArray[np.uint32] = octets @ np.array([1 << 24, 1 << 16, 1 << 8, 1], dtype=np.uint32)
        return number

    @cached_property
    def ipv6_hosts(self) -> IntArray:
        """Indices of the hosts that have an IPv6 address, ascending; all others have an IPv4 address."""
        return np.array([i for i, host in enumerate(self.hosts) if host.ip_version == 6], dtype=np.int32)

    @cached_property
    def link_gbps(self) -> FloatArray:
        """[E] capacity in Gbit/s, whether the link is up or not."""
        hosts = [host.gbps for host in self.hosts]
        cables = [cable.gbps for cable in self.cables]
        gbps = np.concatenate([hosts, hosts, np.repeat(np.array(cables, dtype=np.float64), 2)]).astype(np.float64)
        return gbps * np.array(self.link_share) if self.link_share else gbps

    @live_property
    def link_up(self) -> BoolArray:
        """[E] whether the link carries traffic."""
        hosts = np.array([host.up for host in self.hosts], dtype=np.bool_)
        cables = np.array([cable.up for cable in self.cables], dtype=np.bool_)
        return np.concatenate([hosts, hosts, np.repeat(cables, 2)])

    @cached_property
    def cable_tier(self) -> IntArray:
        """[C] tier of each cable: 0 for those of leaves."""
        return np.array([self.layer_of[cable.lower] for cable in self.cables], dtype=np.int32)

    @cached_property
    def cable_lower(self) -> IntArray:
        """[C] index of the lower switch of each cable within its layer: the leaf, for cables of tier 0."""
        return np.array([self.index_in_layer[cable.lower] for cable in self.cables], dtype=np.int32)

    @cached_property
    def cable_upper(self) -> IntArray:
        """[C] index of the upper switch of each cable within its layer."""
        return np.array([self.index_in_layer[cable.upper] for cable in self.cables], dtype=np.int32)

    @cached_property
    def parallel(self) -> IntArray:
        """[L, M] number of cables between each leaf and each switch of the next layer, up or not."""
        lower = self.tier_cables[0]
        count = np.zeros((self.n_leaves, len(self.layers[1])), dtype=np.int32)
        np.add.at(count, (lower.lower, lower.upper), 1)
        return count

    @cached_property
    def tier_cables(self) -> tuple[TierCables, ...]:
        """The cables of each tier, from those of the leaves up."""
        tiers = []
        for tier in range(len(self.layers) - 1):
            (which,) = np.nonzero(self.cable_tier == tier)
            uplink = (self.first_cable_link + 2 * which).astype(np.int32)
            tiers.append(TierCables(self.cable_lower[which], self.cable_upper[which], self.cable_number[which], uplink))
        return tuple(tiers)

    @cached_property
    def pods(self) -> Pods:
        """The pods and planes, for fabrics of three layers."""
        leaves, aggs, cores = map(len, self.layers)
        lower, upper = self.tier_cables
        return pods_of((leaves, aggs, cores), lower, upper, self.planes.network[1])

    @cached_property
    def planes(self) -> Planes:
        """The planes, each with one port of every NIC; one where no NIC has several ports."""
        return planes_of(self, self.components_of_switches, self.host_leaf)

    @cached_property
    def components_of_switches(self) -> IntArray:
        """[L + M + ..] what cables connect: a number for each switch, layer by layer."""
        first, tier = np.cumsum([0, *map(len, self.layers)], dtype=np.int32), self.cable_tier
        ends = (first[tier] + self.cable_lower, first[tier + 1] + self.cable_upper)
        return numbered(components(*ends, int(first[-1])))

    @cached_property
    def pod_of_leaf(self) -> IntArray:
        """[L] pod of each leaf; a network of a leaf-spine fabric is one pod."""
        return self.pods.of_leaf if len(self.layers) == 3 else self.planes.network[0]

    @cached_property
    def pod_names(self) -> tuple[str, ...]:
        """[P] ``pod1``, ``pod2``, .. in the order of the pods' first leaves; none in a leaf-spine fabric."""
        if len(self.layers) == 2:
            return ()
        n_pods = 1 + int(max(self.pods.of_leaf.max(initial=-1), self.pods.of_agg.max(initial=-1)))
        return tuple(f"pod{p + 1}" for p in range(n_pods))

    @cached_property
    def choices(self) -> tuple[Choices, ...]:
        """The choices that the switches below each tier of cables have, from the leaves up; up or not."""
        if len(self.layers) == 2:
            leaves, spines = self.planes.network
            return two_layers(leaves, spines, self.tier_cables[0])
        return three_layers(self.pods, *self.tier_cables)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """[K] ``spine2``, or ``spine2:1`` for a second parallel cable; in three layers ``plane2``, ``plane2.core4``.

        In several networks, the second spine of each is ``path2``, the fourth core of its second plane ``path2.4``.
        """
        if self.planes.n_networks > 1:
            return path_numbers(self.choices)
        return path_names(self.choices, [spine.name for spine in self.spines])

    @property
    def up_link(self) -> IntArray:
        """[L, K] link by which each choice leaves a leaf, -1 where it has no such cable."""
        return self.ways.tier(0).up

    @property
    def down_link(self) -> IntArray:
        """[L, K] link by which each choice reaches a leaf, -1 where there is no cable to it."""
        return self.ways.tier(0).down

    @live_property
    def tiers(self) -> tuple[Tier, ...]:
        """The live links between each tier of switches and the tier above, from the leaves up."""
        return tuple(self.live_ways.tier(t) for t in range(self.live_ways.n_tiers))

    @cached_property
    def ways(self) -> Ways:
        """All paths between leaves, whether their cables are up or not."""
        return ways_of(self.choices, np.stack([self.pod_of_leaf, self.planes.network[0]])[-len(self.choices) :])

    @live_property
    def live_ways(self) -> Ways:
        """The paths between leaves over cables that are up."""
        return self.ways.only(self.link_up)

    @live_property
    def cuts(self) -> tuple[TierCuts, ...]:
        """The live capacity out of and into each group of leaves, for each tier of cables."""
        return cuts_of(self.live_ways, self.link_gbps)

    @live_property
    def paths_alike(self) -> bool:
        """Whether spreading each flow evenly over its live paths is as good as any other way to split flows."""
        return all(cut.even for cut in self.cuts) if len(self.tiers) > 1 else bool(self.path_type.max(initial=-1) <= 0)

    @live_property
    def path_type(self) -> IntArray:
        """[K] type 0, 1, .. of each choice of the leaves, equal for those that no leaf can distinguish; -1: unusable.

        Alike means: the same capacity up and down at every leaf, and no link in common. Free splitting may then treat
        all of them as one path of the total capacity.
        """
        gbps = np.concatenate([self.link_gbps, [0.0]])
        up, down = self.tiers[0]
        column = np.concatenate([gbps[up], gbps[down]]).T
        kind = np.full(up.shape[1], -1, dtype=np.int32)
        usable = np.flatnonzero((up >= 0).any(axis=0) & (down >= 0).any(axis=0))
        if self.shares_links:
            kind[usable] = np.arange(len(usable))
            return kind
        column = np.ascontiguousarray(column)
        number: dict[bytes, int] = {}
        for k in usable.tolist():
            kind[k] = number.setdefault(column[k].tobytes(), len(number))
        return kind

    @live_property
    def choice_kinds(self) -> list[NDArray[np.int64]]:
        """[N, K] for each tier: the choice that stands for each one and all like it; -1: no path leads there."""
        return choice_kinds(self.live_ways, self.link_gbps)

    @cached_property
    def shares_links(self) -> bool:
        """Whether two choices reach a switch by one link (a spine with more cables to one leaf than to another)."""
        down = self.ways.down[self.ways.down != NO_LINK]
        return len(np.unique(down)) < len(down)

    def cables_between(self, leaf: int, spine: int) -> list[int]:
        """Return the cable indices between a leaf and a switch above it, in their static order; up or not."""
        return self._between.get((leaf, spine), [])

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[int]]:
        """Cable indices by leaf and spine index."""
        cables: dict[tuple[int, int], list[int]] = {}
        lower = self.tier_cables[0]
        for leaf, upper, link in zip(lower.lower.tolist(), lower.upper.tolist(), lower.uplink.tolist(), strict=True):
            cables.setdefault((leaf, upper), []).append((link - self.first_cable_link) // 2)
        return cables

    # -- paths -----------------------------------------------------------------------------------------------

    def live_paths(self, src_leaf: int, dst_leaf: int) -> IntArray:
        """Return the path classes that join two different leaves now, ascending."""
        return self.live_ways.between(src_leaf, dst_leaf)

    def flow_links(self, src: int, dst: int, path: int) -> tuple[int, ...]:
        """Return all links of a flow from host to host over a path class (negative class: the two host links only)."""
        first, last = src, self.n_hosts + dst
        if path < 0:
            return (first, last)
        between = self.ways.links_of(int(self.host_leaf[src]), int(self.host_leaf[dst]), path)
        return (first, *between, last)

    # -- other fabrics from this one ---------------------------------------------------------------------------

    def without_links(self, names: Iterable[str]) -> Fabric:
        """Return this fabric with cables (``leaf1-spine2``), switches (``spine3``) or host links (``h1-leaf1``) down.

        Raises:
            KeyError: a name that is none of these.
        """
        cables, hosts = list(self.cables), list(self.hosts)
        for name in set(names):
            down_cables, down_hosts = self._parts_of(name)
            for c in down_cables:
                if cables[c].up:
                    cables[c] = dataclasses.replace(cables[c], up=False)
            for h in down_hosts:
                if hosts[h].up:
                    hosts[h] = dataclasses.replace(hosts[h], up=False)
        return self._same_structure(tuple(hosts), tuple(cables))

    def with_slow_cables(self, names: Iterable[str], part: float) -> Fabric:
        """Return this fabric with only a ``part`` of the capacity of cables, named themselves or by a switch of theirs.

        Raises:
            KeyError: a name that is neither.
        """
        slow: set[int] = set()
        for name in names:
            named, hosts = self._parts_of(name)
            if hosts and not named:
                raise KeyError(name)
            slow.update(named)
        cables = tuple(
            dataclasses.replace(cable, gbps=cable.gbps * part) if c in slow else cable
            for c, cable in enumerate(self.cables)
        )
        return dataclasses.replace(self, cables=cables)

    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        """Return the cables and host links (by index) that are down when the part of this name is.

        Raises:
            KeyError: there is no such part.
        """
        if name in self._cable_index:
            return [self._cable_index[name]], []
        if name in self.layer_of:
            layer, index = self.layer_of[name], self.index_in_layer[name]
            above = (self.cable_tier == layer) & (self.cable_lower == index)
            below = (self.cable_tier == layer - 1) & (self.cable_upper == index)
            hosts = np.flatnonzero(self.host_leaf == index) if layer == 0 else np.zeros(0, np.int64)
            return np.flatnonzero(above | below).tolist(), hosts.tolist()
        return [], [self._host_link_index[name]]

    @cached_property
    def _cable_index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.cable_names)}

    @cached_property
    def _host_link_index(self) -> dict[str, int]:
        return {f"{host.name}-{host.leaf}": i for i, host in enumerate(self.hosts)}

    def healthy(self) -> Fabric:
        """Return this fabric with everything up: the reference for a collective's slowdown."""
        if self.link_up.all():
            return self
        return self._same_structure(
            tuple(host if host.up else dataclasses.replace(host, up=True) for host in self.hosts),
            tuple(cable if cable.up else dataclasses.replace(cable, up=True) for cable in self.cables),
        )

    def _same_structure(self, hosts: tuple[Host, ...], cables: tuple[Cable, ...]) -> Fabric:
        """Return a fabric that differs in ``up`` only; it shares every table that does not depend on ``up``."""
        other = dataclasses.replace(self, hosts=hosts, cables=cables)
        # Planning after a link failure need not compute them again.
        for name, value in self.__dict__.items():
            kind = getattr(type(self), name, None)
            if isinstance(kind, cached_property) and not isinstance(kind, live_property):
                other.__dict__[name] = value
        # The next step, usually a plan after a failure, needs this table at once.
        _ = other.link_up
        return other

    # -- prefixes ----------------------------------------------------------------------------------------------

    @cached_property
    def leaf_prefixes(self) -> tuple[tuple[IPv4Network, ...], ...]:
        """[L] the IPv4 prefixes by which spines and other leaves reach a leaf's hosts."""
        ipv4 = np.ones(self.n_hosts, dtype=np.bool_)
        ipv4[self.ipv6_hosts] = False
        return leaf_prefixes(self.host_ip[ipv4], self.host_leaf[ipv4], self.planes.network[0])

    @cached_property
    def ipv6_leaf_prefixes(self) -> tuple[tuple[IPv6Network, ...], ...]:
        """[L] the IPv6 prefixes by which spines and other leaves reach a leaf's hosts."""
        hosts = self.ipv6_hosts.tolist()
        addresses = [IPv6Address(self.hosts[host].ip) for host in hosts]
        return ipv6_leaf_prefixes(addresses, self.host_leaf[hosts].tolist(), self.planes.network[0].tolist())

    @cached_property
    def pod_prefixes(self) -> tuple[tuple[IPv4Network, ...], ...]:
        """[P] the IPv4 prefixes by which cores reach a pod's hosts, for fabrics of three layers."""
        network = self.planes.network[0].tolist()
        return merged_prefixes(self.leaf_prefixes, self.pods.of_leaf.tolist(), network)

    # -- general questions ---------------------------------------------------------------------------------------

    @live_property
    def version(self) -> str:
        """A short hash of the content: equal fabrics have equal versions."""
        content: tuple[object, ...] = (self.layers, self.hosts, self.cables)
        content += (self.link_share,) if self.link_share else ()
        content += (tuple(host.nic for host in self.hosts),) if self.planes.count > 1 else ()
        content += (tuple(map(tuple, self.tenants)),) if self.tenants else ()
        return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


def _folded(ip: str) -> list[int]:
    """Return four octets that depend on all of an IPv6 address."""
    octets = IPv6Address(ip).packed
    return [a ^ b ^ c ^ d for a, b, c, d in zip(*(octets[at : at + 4] for at in (0, 4, 8, 12)), strict=True)]
