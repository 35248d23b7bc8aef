"""Walk a packet through the tables of routers, as they would forward it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address

from controller.model.fabric import Fabric
from controller.southbound.srv6.router_tables import RemoveId, RouterTable, SendOver, TableEntry
from controller.southbound.srv6.segment_ids import SegmentIds

MOST_HOPS = 64
"""The hop limit with which Linux and most others send."""


@dataclass(frozen=True)
class RouterWalk:
    """Where a packet went.

    Attributes:
        links: directed links over which it was sent, in the order of travel.
        host: host that it has reached; ``None``: it was dropped.
        ids: the ids that were left in the carrier.
        reason: why it was dropped; empty: it was not.
    """

    links: tuple[int, ...]
    host: int | None
    ids: tuple[int, ...]
    reason: str = ""


def walk(
    ids: SegmentIds,
    fabric: Fabric,
    tables: Mapping[str, RouterTable],
    src: int,
    carrier: IPv6Address,
    pick: Callable[[Sequence[int]], int] = min,
) -> RouterWalk:
    """Return where a packet goes.

    Args:
        ids: the ids of the fabric.
        fabric: the fabric with what is up now.
        tables: the tables of ``router_tables``.
        src: host that sends.
        carrier: the destination address that it writes.
        pick: chooses one of several links, as the hash of a router does.
    """
    up, names, first_cable = fabric.link_up, [switch.name for switch in fabric.switches], fabric.first_cable_link
    start_of_layer = [0]
    for layer in fabric.layers:
        start_of_layer.append(start_of_layer[-1] + len(layer))
    left, links = list(ids.ids_of(carrier)), [src]
    if not up[src]:
        return RouterWalk((), None, tuple(left), "the sender's link is down")
    at = int(fabric.host_leaf[src])
    while len(links) < MOST_HOPS:
        entry = _entry(tables[names[at]], left[0], fabric) if left else None
        if entry is None:
            what = f"{left[0]:#06x}" if left else "the end of the carrier"
            return RouterWalk(tuple(links), None, tuple(left), f"{names[at]} has no entry for {what}")
        if isinstance(entry.action, RemoveId):
            left.pop(0)
            continue
        if not isinstance(entry.action, SendOver):
            return RouterWalk(tuple(links), None, tuple(left), f"{names[at]} cannot reach {left[0]:#06x}")
        link = pick([each for each in entry.action.links if up[each]])
        links.append(link)
        if link < first_cable:
            return RouterWalk(tuple(links), link - fabric.n_hosts, tuple(left))
        cable, down = divmod(link - first_cable, 2)
        above, ends = int(fabric.cable_tier[cable]) + (not down), fabric.cable_lower if down else fabric.cable_upper
        at = start_of_layer[above] + int(ends[cable])
    return RouterWalk(tuple(links), None, tuple(left), "the hop limit was reached")


def _entry(table: RouterTable, number: int, fabric: Fabric) -> TableEntry | None:
    """Return the entry that a router uses for an id; entries whose links are all down are none."""
    usable = [entry for entry in table if number in entry.ids and _works(entry, fabric)]
    return max(usable, key=lambda entry: (entry.ids.bits, not entry.last), default=None)


def _works(entry: TableEntry, fabric: Fabric) -> bool:
    return not isinstance(entry.action, SendOver) or any(fabric.link_up[link] for link in entry.action.links)
