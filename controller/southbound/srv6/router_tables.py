"""The static tables of routers, which no plan changes: where a packet goes whose address begins with which ids.

A router has entries for itself (remove the id, look up the rest), for each neighbour, for the leaves below it, for its
hosts, and for the layers as a whole:

- An id of a switch above to which no cable leads any more is passed over: the router looks up the next id. In the end
  that is the leaf of the receiver, which the router reaches over any of its uplinks. So a packet whose planned uplink
  is dead takes another one, at once, without a word to its sender.
- A leaf below to which no cable leads is unreachable: a packet that came down never goes up again.

Each entry either takes an id out of the carrier, or sends the packet up towards a leaf that is not below, or down
towards one that is. So no packet comes twice to a router with the same ids, whatever is down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from controller.model.fabric import Fabric
from controller.model.files.locators import ID_BITS
from controller.southbound.srv6.segment_ids import IdRange, SegmentIds


@dataclass(frozen=True)
class RemoveId:
    """Remove the first id and look up the rest: End with NEXT-CSID (RFC 9800, section 4.1.1), ``uN``."""


@dataclass(frozen=True)
class SendOver:
    """Send over one of these directed links, by a hash of the packet's inner header, if any of them is up."""

    links: tuple[int, ...]


@dataclass(frozen=True)
class Unreachable:
    """Drop the packet, and tell its sender (ICMPv6, RFC 4443, section 3.1)."""


Action: TypeAlias = RemoveId | SendOver | Unreachable


@dataclass(frozen=True)
class TableEntry:
    """What a router does with packets whose first id is in a range; of several entries, the longest one is used.

    Attributes:
        ids: the range.
        action: what is done.
        last: used only where no other entry of the same range can be used.
    """

    ids: IdRange
    action: Action
    last: bool = False


RouterTable = tuple[TableEntry, ...]


def router_tables(ids: SegmentIds) -> dict[str, RouterTable]:
    """Return the table of each switch by name. What is down does not matter: routers see that themselves.

    Raises:
        InputError: there are not enough ids (``SegmentIds.check``).
    """
    ids.check()
    return _Tables(ids).of_all()


class _Tables:
    def __init__(self, ids: SegmentIds) -> None:
        self._ids, fabric = ids, ids.fabric
        self._fabric: Fabric = fabric
        sizes = [len(layer) for layer in fabric.layers]
        # For each layer and switch: the neighbours above and below, each with the links to it by number of cable.
        self._above: list[list[dict[int, list[int]]]] = [[{} for _ in range(size)] for size in sizes]
        self._below: list[list[dict[int, list[int]]]] = [[{} for _ in range(size)] for size in sizes]
        ends = zip(fabric.cable_tier.tolist(), fabric.cable_lower.tolist(), fabric.cable_upper.tolist(), strict=True)
        for cable, (tier, lower, upper) in enumerate(ends):
            uplink = fabric.first_cable_link + 2 * cable
            self._above[tier][lower].setdefault(upper, []).append(uplink)
            self._below[tier + 1][upper].setdefault(lower, []).append(uplink + 1)
        self._hosts: list[list[int]] = [[] for _ in fabric.leaves]
        for host, leaf in enumerate(fabric.host_leaf.tolist()):
            self._hosts[leaf].append(host)
        self._leaves_below = self._reach_down()
        self._reach = self._reach_up()

    def of_all(self) -> dict[str, RouterTable]:
        return {
            switch.name: tuple(self._entries(layer, index))
            for layer, switches in enumerate(self._fabric.layers)
            for index, switch in enumerate(switches)
        }

    def _reach_down(self) -> list[list[dict[int, tuple[int, ...]]]]:
        """Return, for each layer and switch, the leaves below it with the downlinks that lead to each."""
        links_down: list[list[dict[int, tuple[int, ...]]]] = [[{i: ()} for i in range(self._fabric.n_leaves)]]
        for layer in range(1, len(self._fabric.layers)):
            of_layer = []
            for below in self._below[layer]:
                links: dict[int, list[int]] = {}
                for lower, downlinks in below.items():
                    for leaf in links_down[layer - 1][lower]:
                        links.setdefault(leaf, []).extend(downlinks)
                of_layer.append({leaf: tuple(sorted(chosen)) for leaf, chosen in links.items()})
            links_down.append(of_layer)
        return links_down

    def _reach_up(self) -> list[list[dict[int, tuple[int, ...]]]]:
        """Return, for each layer and switch, the leaves that its uplinks lead to and that are not below it."""
        layers = len(self._fabric.layers)
        links_up: list[list[dict[int, tuple[int, ...]]]] = [[] for _ in range(layers)]
        links_up[-1] = [{} for _ in self._fabric.layers[-1]]
        for layer in range(layers - 2, -1, -1):
            for index, above in enumerate(self._above[layer]):
                links: dict[int, list[int]] = {}
                for upper, uplinks in above.items():
                    for leaf in {*self._leaves_below[layer + 1][upper], *links_up[layer + 1][upper]}:
                        if leaf not in self._leaves_below[layer][index]:
                            links.setdefault(leaf, []).extend(uplinks)
                links_up[layer].append({leaf: tuple(sorted(chosen)) for leaf, chosen in links.items()})
        return links_up

    def _entries(self, layer: int, index: int) -> list[TableEntry]:
        entries = [TableEntry(self._ids.switch(layer, index), RemoveId())]
        for upper, links in self._above[layer][index].items():
            entries += self._neighbour(layer + 1, upper, links)
        for lower, links in self._below[layer][index].items():
            entries += self._neighbour(layer - 1, lower, links)
        entries += self._to_leaves(layer, index)
        # Switches above the leaves to which no entry leads are passed over; for a top switch, also those below.
        entries += [
            TableEntry(ids, RemoveId(), last=True)
            for other in range(1, len(self._fabric.layers))
            for ids in self._ids.layer(other)
            if ids != self._ids.switch(layer, index)
        ]
        if layer == 0:
            for host in self._hosts[index]:
                over = SendOver((self._fabric.n_hosts + host,))
                entries += [TableEntry(IdRange(self._ids.host(host, inner=inner)), over) for inner in (4, 6)]
        return entries

    def _neighbour(self, layer: int, index: int, links: list[int]) -> list[TableEntry]:
        """Return the entries for a neighbour: by any of the cables to it, and by each where there are several."""
        every = self._ids.switch(layer, index)
        entries = [TableEntry(every, SendOver(tuple(links)))] if layer > 0 else []
        if every.bits < ID_BITS:
            entries += [TableEntry(IdRange(every.first + n), SendOver((link,))) for n, link in enumerate(links)]
        return entries

    def _to_leaves(self, layer: int, index: int) -> list[TableEntry]:
        """Return the entries for leaves: those below one by one, most of the others together."""
        entries = []
        for leaf, links in self._leaves_below[layer][index].items():
            if links:
                every = self._ids.switch(0, leaf)
                entries += [TableEntry(every, SendOver(links)), TableEntry(every, Unreachable(), last=True)]
        above = self._reach[layer][index]
        usual = max(sorted(set(above.values())), key=list(above.values()).count, default=())
        if usual and not self._ids.given:
            entries += [TableEntry(ids, SendOver(usual)) for ids in self._ids.layer(0)]
        entries += [
            TableEntry(self._ids.switch(0, leaf), SendOver(links))
            for leaf, links in above.items()
            if links != usual or self._ids.given
        ]
        return entries
