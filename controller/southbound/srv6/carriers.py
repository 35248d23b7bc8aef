"""The carrier of a path: the address by which a sender makes its packets take it."""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.southbound.srv6.segment_ids import SegmentIds


def path_ids(ids: SegmentIds, src: int, dst: int, path: int, *, inner: int | None = None) -> tuple[int, ...]:
    """Return the ids of the switches behind the sender's leaf on a path, and that of the receiver.

    Args:
        ids: the ids of the fabric.
        src: host that sends.
        dst: host that receives.
        path: number of the path between their leaves; negative: they have the same leaf.
        inner: version of the IP packets in the carrier; ``None``: that of the receiver's address.
    """
    fabric = ids.fabric
    if path < 0:
        leaf = int(fabric.host_leaf[dst])
        return ids.over_cable(0, leaf, 0), ids.host(dst, inner=inner)
    links = fabric.flow_links(src, dst, path)[1:-1]
    return (*_ends(ids, fabric, links), ids.host(dst, inner=inner))


def path_nodes(fabric: Fabric, src: int, dst: int, path: int) -> tuple[str, ...]:
    """Return the names of the switches and the host that consume the ids of ``path_ids``, in the same order."""
    receiver = fabric.hosts[dst]
    if path < 0:
        return receiver.leaf, receiver.name
    return *(_end(fabric, link)[0] for link in fabric.flow_links(src, dst, path)[1:-1]), receiver.name


def probe_ids(ids: SegmentIds, src: int, dst: int, path: int) -> tuple[int, ...] | None:
    """Return the ids of the way over a path to the receiver's leaf, and by the same cables back to the sender.

    ``None``: a carrier has no room for them.
    """
    fabric = ids.fabric
    out = fabric.flow_links(src, dst, path)[1:-1] if path >= 0 else ()
    # Each cable is two links, the one up before the one down.
    back = tuple(link ^ 1 for link in reversed(out))
    there = (*_ends(ids, fabric, (*out, *back)), ids.host(src, inner=6))
    return there if len(there) <= ids.places else None


def backup_paths(fabric: Fabric, src: int, dst: int, path: int, most: int = 2) -> tuple[int, ...]:
    """Return other paths between the leaves of two hosts whose cables are up, those first that share fewest cables."""
    if path < 0:
        return ()
    planned = set(fabric.flow_links(src, dst, path))
    others = [other for other in fabric.live_paths(*map(int, fabric.host_leaf[[src, dst]])).tolist() if other != path]
    return tuple(sorted(others, key=lambda other: len(planned & set(fabric.flow_links(src, dst, other))))[:most])


def _ends(ids: SegmentIds, fabric: Fabric, links: tuple[int, ...]) -> tuple[int, ...]:
    """Return the id of the switch at the end of each link between switches, over its cable."""
    return tuple(ids.over_cable(*_end(fabric, link)[1:]) for link in links)


def _end(fabric: Fabric, link: int) -> tuple[str, int, int, int]:
    """Return name, layer and index of the switch at the end of a link between switches, and the number of the cable."""
    cable, down = divmod(link - fabric.first_cable_link, 2)
    tier = int(fabric.cable_tier[cable])
    layer, index = (tier, fabric.cable_lower[cable]) if down else (tier + 1, fabric.cable_upper[cable])
    return fabric.layers[layer][int(index)].name, layer, int(index), int(fabric.cable_number[cable])
