"""Real paths of flows, derived from the links on which their packets were captured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.telemetry.capture import Counts, TcpTuple, Tuple

Captures = Mapping[str, Counts]
"""Packet counts of each flow by cable (``leaf1-spine2``), captured at either end of the cable."""

Ports = tuple[int | None, int | None]
"""Source and destination port of a flow of TCP, as far as they are stated."""


def cable_of(fabric: Fabric, name: str) -> str:
    """Return the name of the cable that a cable name or a directed link's name refers to.

    Raises:
        InputError: the fabric has no such cable.
    """
    if name in fabric.cable_names:
        return name
    link = fabric.link_index.get(name, -1)
    if link < fabric.first_cable_link:
        raise InputError("the fabric has no cable or link of this name", field="--capture", value=name)
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]


def with_captures(fabric: Fabric, flows: Sequence[Mapping[str, Any]], captures: Captures) -> list[dict[str, Any]]:
    """Return the flows of a trace with the paths on which their packets were captured.

    A capture of a cable contains both directions; the flow's source and destination determine which one applies.
    A flow whose packets are on several uplinks has moved during the capture, or shares its ports with another flow: it
    is assigned to the uplink with the most packets, and ``sure`` is the share of packets there. Packets of TCP are of
    the flow that states most of their ports. Flows without captured packets are returned unchanged, as are flows of
    RoCEv2 whose port is not known, and those of all UDP or all packets.

    Args:
        fabric: the fabric that the flows and cables belong to.
        flows: as in ``schemas.TraceFlow``.
        captures: packet counts by cable.
    """
    stated: dict[tuple[str, str], set[Ports]] = {}
    for flow in flows:
        if flow.get("protocol") == "tcp":
            stated.setdefault((flow["src"], flow["dst"]), set()).add((flow["src_port"], flow["dst_port"]))
    counted = {cable: _OfCable(counts) for cable, counts in captures.items()}
    return [_seen(fabric, flow, counted, stated.get((flow["src"], flow["dst"]), ())) for flow in flows]


class _OfCable:
    """What was captured of one cable, with the connections of two hosts together."""

    def __init__(self, counts: Counts) -> None:
        self.roce = {key: count for key, count in counts.items() if isinstance(key, Tuple)}
        self.tcp: dict[tuple[str, str], list[tuple[TcpTuple, int]]] = {}
        for key, count in counts.items():
            if isinstance(key, TcpTuple):
                self.tcp.setdefault((key.src, key.dst), []).append((key, count))


def _counter(
    flow: Mapping[str, Any], src: str, dst: str, stated: Collection[Ports]
) -> Callable[[_OfCable], int] | None:
    """Return what counts the packets of a flow between two addresses; ``None``: packets do not tell which are its.

    Args:
        flow: the flow.
        src: address of its sender.
        dst: address of its receiver.
        stated: the ports of all flows of TCP between its hosts.
    """
    if flow.get("protocol") == "tcp":
        own: Ports = flow["src_port"], flow["dst_port"]
        others = [ports for ports in stated if ports != own and ports != (None, None)] if own == (None, None) else []

        def of_tcp(cable: _OfCable) -> int:
            rows = cable.tcp.get((src, dst), [])
            return sum(count for key, count in rows if _has(own, key) and not any(_has(ports, key) for ports in others))

        return of_tcp
    if flow["udp_src"] is None:
        return None
    packet = Tuple(src, dst, flow["udp_src"])
    return lambda cable: cable.roce.get(packet, 0)


def _has(ports: Ports, key: TcpTuple) -> bool:
    return ports[0] in (None, key.src_port) and ports[1] in (None, key.dst_port)


def _seen(
    fabric: Fabric, flow: Mapping[str, Any], captures: Mapping[str, _OfCable], stated: Collection[Ports]
) -> dict[str, Any]:
    row = dict(flow)
    if flow["src"] not in fabric.host_index or flow["dst"] not in fabric.host_index:
        return row
    src, dst = fabric.host_index[flow["src"]], fabric.host_index[flow["dst"]]
    count = _counter(flow, fabric.hosts[src].ip, fabric.hosts[dst].ip, stated)
    if count is None:
        return row
    a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
    paths: Counter[int] = Counter()
    for path in range(fabric.n_paths):
        between = fabric.ways.links_of(a, b, path)
        if a == b or min(between) < 0:
            continue
        seen = [count(captures[name]) for name in (_cable(fabric, link) for link in between) if name in captures]
        # Packets that were captured at one end only, although both ends have a capture, are on another path.
        paths[path] = min(seen) if seen and 0 not in seen else 0
    total = paths.total()
    if not total:
        return row
    path, many = paths.most_common(1)[0]
    real = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, path)]
    differs = flow["planned"] is not None and real != flow["planned"]
    row |= {"real": real, "how": "capture", "sure": many / total, "differs": differs}
    row["why"] = (flow["why"] or "its packets were captured on other links than planned") if differs else ""
    return row


def _cable(fabric: Fabric, link: int) -> str:
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]
