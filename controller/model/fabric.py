"""The fabric: switches, hosts and directed links, as one immutable value.

Numbering, which every array in the program follows (H hosts, C cables, E = 2H + 2C directed links):

* hosts 0..H-1 and leaves 0..L-1 and spines 0..S-1 in the order given;
* link ``h`` is host h -> its leaf, link ``H + h`` is that leaf -> host h;
* link ``2H + 2c`` is cable c from leaf to spine (an uplink), ``2H + 2c + 1`` the same cable from spine to leaf
  (a downlink).

A *path* between two leaves is chosen by one number k, the path's *class*: in two tiers, a spine and one of its
parallel cables. ``up_link[a, k]`` and ``down_link[b, k]`` are the links by which class k leaves leaf a and reaches
leaf b (-1: no such link). A spine maps the i-th cable in to the (i mod n)-th cable out by a static rule on the
in-port, so the class alone determines both. Classes keep their number when links fail: plans stay comparable.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Network

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric_parts import Cable as Cable
from controller.model.fabric_parts import Host as Host
from controller.model.fabric_parts import Switch as Switch
from controller.model.ways import NO_LINK, Tier, Ways, one_tier

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True)
class Fabric:
    """A two-tier Clos fabric. Build it with ``fabric_file`` or ``clos``: they validate, this class does not.

    Attributes:
        link_share: [E] part of each link's capacity that plans count on, above 0; empty: all of it.
    """

    leaves: tuple[Switch, ...]
    spines: tuple[Switch, ...]
    hosts: tuple[Host, ...]
    cables: tuple[Cable, ...]
    link_share: tuple[float, ...] = ()

    # -- names -----------------------------------------------------------------------------------------------

    @cached_property
    def leaf_index(self) -> dict[str, int]:
        """The index of each leaf, by name."""
        return {leaf.name: i for i, leaf in enumerate(self.leaves)}

    @cached_property
    def spine_index(self) -> dict[str, int]:
        """The index of each spine, by name."""
        return {spine.name: i for i, spine in enumerate(self.spines)}

    @cached_property
    def host_index(self) -> dict[str, int]:
        """The index of each host, by name."""
        return {host.name: i for i, host in enumerate(self.hosts)}

    @cached_property
    def switch_by_dpid(self) -> dict[int, Switch]:
        """The switch of each OpenFlow datapath id."""
        return {switch.dpid: switch for switch in (*self.leaves, *self.spines)}

    @cached_property
    def cable_names(self) -> tuple[str, ...]:
        """[C] names: ``leaf1-spine2``; the second cable between the same two is ``leaf1-spine2:1``, and so on."""
        return tuple(
            f"{cable.leaf}-{cable.spine}" + (f":{number}" if number else "")
            for cable, number in zip(self.cables, self.cable_number.tolist(), strict=True)
        )

    @cached_property
    def link_ids(self) -> tuple[str, ...]:
        """The name of each directed link, by link index: ``h1->leaf1``, ``leaf1->spine2``, ``spine2->leaf1:1``."""
        ids = [f"{host.name}->{host.leaf}" for host in self.hosts]
        ids += [f"{host.leaf}->{host.name}" for host in self.hosts]
        for cable, number in zip(self.cables, self.cable_number.tolist(), strict=True):
            suffix = f":{number}" if number else ""
            ids.append(f"{cable.leaf}->{cable.spine}{suffix}")
            ids.append(f"{cable.spine}->{cable.leaf}{suffix}")
        return tuple(ids)

    @cached_property
    def link_index(self) -> dict[str, int]:
        """The index of each directed link, by link id."""
        return {name: i for i, name in enumerate(self.link_ids)}

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
        """The number S of spines."""
        return len(self.spines)

    @property
    def n_links(self) -> int:
        """The number E of directed links."""
        return 2 * len(self.hosts) + 2 * len(self.cables)

    @property
    def n_paths(self) -> int:
        """The number K of path classes; a path index is 0..K-1 for every pair of leaves."""
        return len(self._classes)

    @property
    def first_cable_link(self) -> int:
        """Link index of the first uplink: links below it belong to hosts."""
        return 2 * len(self.hosts)

    @cached_property
    def host_leaf(self) -> IntArray:
        """[H] leaf index of each host."""
        return np.array([self.leaf_index[host.leaf] for host in self.hosts], dtype=np.int32)

    @cached_property
    def host_names(self) -> tuple[str, ...]:
        """[H] names by host index."""
        return tuple(host.name for host in self.hosts)

    @cached_property
    def host_ip(self) -> NDArray[np.uint32]:
        """[H] IPv4 address of each host as a number."""
        octets = np.array([host.ip.split(".") for host in self.hosts], dtype=np.uint32).reshape(-1, 4)
        number: NDArray[np.uint32] = octets @ np.array([1 << 24, 1 << 16, 1 << 8, 1], dtype=np.uint32)
        return number

    @cached_property
    def link_gbps(self) -> FloatArray:
        """[E] capacity in Gbit/s, whether the link is up or not."""
        hosts = [host.gbps for host in self.hosts]
        cables = [cable.gbps for cable in self.cables]
        gbps = np.concatenate([hosts, hosts, np.repeat(np.array(cables, dtype=np.float64), 2)]).astype(np.float64)
        return gbps * np.array(self.link_share) if self.link_share else gbps

    @cached_property
    def link_up(self) -> BoolArray:
        """[E] whether the link carries traffic."""
        hosts = np.array([host.up for host in self.hosts], dtype=np.bool_)
        cables = np.array([cable.up for cable in self.cables], dtype=np.bool_)
        return np.concatenate([hosts, hosts, np.repeat(cables, 2)])

    @cached_property
    def cable_leaf(self) -> IntArray:
        """[C] leaf index of each cable."""
        return np.array([self.leaf_index[cable.leaf] for cable in self.cables], dtype=np.int32)

    @cached_property
    def cable_spine(self) -> IntArray:
        """[C] spine index of each cable."""
        return np.array([self.spine_index[cable.spine] for cable in self.cables], dtype=np.int32)

    @cached_property
    def cable_number(self) -> IntArray:
        """[C] number of earlier cables between the same two switches."""
        seen: dict[tuple[str, str], int] = {}
        numbers = []
        for cable in self.cables:
            key = (cable.leaf, cable.spine)
            numbers.append(seen.get(key, 0))
            seen[key] = numbers[-1] + 1
        return np.array(numbers, dtype=np.int32)

    @cached_property
    def parallel(self) -> IntArray:
        """[L, S] number of cables between each leaf and spine, up or not."""
        count = np.zeros((self.n_leaves, self.n_spines), dtype=np.int32)
        np.add.at(count, (self.cable_leaf, self.cable_spine), 1)
        return count

    @cached_property
    def _classes(self) -> tuple[tuple[int, int], ...]:
        """(spine, number of the cable in) of each path class."""
        widest = self.parallel.max(axis=0, initial=0)
        return tuple((s, i) for s in range(self.n_spines) for i in range(int(widest[s])))

    @cached_property
    def path_spine(self) -> IntArray:
        """[K] the spine of each path class. For display and for the rule compilers; routing needs only links."""
        return np.array([spine for spine, _ in self._classes], dtype=np.int32)

    @cached_property
    def path_names(self) -> tuple[str, ...]:
        """[K] ``spine2``, or ``spine2:1`` for the class of its second parallel cable."""
        return tuple(self.spines[s].name + (f":{i}" if i else "") for s, i in self._classes)

    @cached_property
    def up_link(self) -> IntArray:
        """[L, K] link by which path class k leaves a leaf, -1 where it has no such cable."""
        table = np.full((self.n_leaves, self.n_paths), NO_LINK, dtype=np.int32)
        column = self._first_class[self.cable_spine] + self.cable_number
        table[self.cable_leaf, column] = self.first_cable_link + 2 * np.arange(len(self.cables), dtype=np.int32)
        return table

    @cached_property
    def down_link(self) -> IntArray:
        """[L, K] link by which path class k reaches a leaf, -1 where its spine has no cable to it."""
        cables = self.parallel[:, self.path_spine]
        number = np.arange(self.n_paths) - self._first_class[self.path_spine]
        column = self._first_class[self.path_spine] + number % np.maximum(cables, 1)
        up = np.take_along_axis(self.up_link, column, axis=1)
        return np.ascontiguousarray(np.where(cables > 0, up + 1, NO_LINK), dtype=np.int32)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """The live links between each tier of switches and the tier above, from the leaves up."""
        return tuple(self.live_ways.tier(t) for t in range(self.live_ways.n_tiers))

    @cached_property
    def ways(self) -> Ways:
        """All paths between leaves, whether their cables are up or not."""
        return one_tier(self.up_link, self.down_link)

    @cached_property
    def live_ways(self) -> Ways:
        """The paths between leaves over cables that are up."""
        return self.ways.only(self.link_up)

    @cached_property
    def path_type(self) -> IntArray:
        """[K] type 0, 1, .. of each path class, equal for those that no leaf can distinguish; -1: no leaf can use it.

        Alike means: the same capacity up and down at every leaf, and no link in common. Free splitting may then treat
        all of them as one path of the total capacity.
        """
        gbps = np.concatenate([self.link_gbps, [0.0]])
        up, down = self.tiers[0]
        column = np.concatenate([gbps[up], gbps[down]]).T
        kind = np.full(self.n_paths, -1, dtype=np.int32)
        usable = np.flatnonzero((up >= 0).any(axis=0) & (down >= 0).any(axis=0))
        if self.shares_links:
            kind[usable] = np.arange(len(usable))
            return kind
        column = np.ascontiguousarray(column)
        number: dict[bytes, int] = {}
        for k in usable.tolist():
            kind[k] = number.setdefault(column[k].tobytes(), len(number))
        return kind

    @cached_property
    def shares_links(self) -> bool:
        """Whether two path classes reach a leaf by one link (a spine with more cables to one leaf than to another)."""
        down = self.down_link[self.down_link != NO_LINK]
        return len(np.unique(down)) < len(down)

    @cached_property
    def _first_class(self) -> IntArray:
        """[S] the first path class of each spine."""
        widest = self.parallel.max(axis=0, initial=0)
        first: IntArray = (np.cumsum(widest) - widest).astype(np.int32)
        return first

    def cables_between(self, leaf: int, spine: int) -> list[int]:
        """Return the cable indices between a leaf and a spine, in their static order; up or not."""
        return self._between.get((leaf, spine), [])

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[int]]:
        """Cable indices by leaf and spine index."""
        found: dict[tuple[int, int], list[int]] = {}
        for c, ends in enumerate(zip(self.cable_leaf.tolist(), self.cable_spine.tolist(), strict=True)):
            found.setdefault(ends, []).append(c)
        return found

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

    def _parts_of(self, name: str) -> tuple[list[int], list[int]]:
        """Return the cables and host links (by index) that are down when the part of this name is.

        Raises:
            KeyError: there is no such part.
        """
        if name in self._cable_index:
            return [self._cable_index[name]], []
        if name in self.spine_index:
            return np.flatnonzero(self.cable_spine == self.spine_index[name]).tolist(), []
        if name in self.leaf_index:
            leaf = self.leaf_index[name]
            return np.flatnonzero(self.cable_leaf == leaf).tolist(), np.flatnonzero(self.host_leaf == leaf).tolist()
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
        for name in _STRUCTURAL:
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name]
        # The next step, usually a plan after a failure, needs this table at once.
        _ = other.link_up
        return other

    # -- prefixes ----------------------------------------------------------------------------------------------

    @cached_property
    def leaf_prefixes(self) -> tuple[tuple[IPv4Network, ...], ...]:
        """[L] the IPv4 prefixes by which spines and other leaves reach a leaf's hosts.

        A /24 whose hosts all sit on one leaf is that leaf's; hosts of a mixed /24 are routed one by one (/32).
        """
        owners: dict[IPv4Network, set[int]] = {}
        for host, leaf in zip(self.hosts, self.host_leaf.tolist(), strict=True):
            owners.setdefault(IPv4Network(f"{host.ip}/24", strict=False), set()).add(leaf)
        prefixes: list[list[IPv4Network]] = [[] for _ in self.leaves]
        for net, leaves in owners.items():
            if len(leaves) == 1:
                prefixes[next(iter(leaves))].append(net)
        for host, leaf in zip(self.hosts, self.host_leaf.tolist(), strict=True):
            if len(owners[IPv4Network(f"{host.ip}/24", strict=False)]) > 1:
                prefixes[leaf].append(IPv4Network(f"{host.ip}/32"))
        return tuple(tuple(sorted(nets)) for nets in prefixes)

    # -- general questions ---------------------------------------------------------------------------------------

    @cached_property
    def version(self) -> str:
        """A short hash of the content: equal fabrics have equal versions."""
        content: tuple[object, ...] = (self.leaves, self.spines, self.hosts, self.cables)
        content += (self.link_share,) if self.link_share else ()
        return hashlib.blake2b(repr(content).encode(), digest_size=8).hexdigest()


# Tables that do not depend on ``up``: planning after a link failure need not compute them again.
_STRUCTURAL = (
    "leaf_index", "spine_index", "host_index", "switch_by_dpid", "cable_names", "link_ids", "link_index", "host_names",
    "host_leaf", "host_ip", "link_gbps", "cable_leaf", "cable_spine", "cable_number", "parallel", "_classes",
    "_first_class", "_between", "path_spine", "path_names", "up_link", "down_link", "ways", "shares_links",
    "leaf_prefixes", "_cable_index", "_host_link_index",
)  # fmt: skip
