"""The rules of planned flows at their ingress leaves, which ``per_flow`` and ``segment_routing`` have in common.

Each rule leads to a fail-over group: the planned uplink while its port is live, then the others. What a packet gets on
its way into the group, and over each uplink, is the enforcement's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.model.fabric import Fabric
from controller.model.port_numbers import ROCE_PORT
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.base import ETH_IPV4, FLOW, NextHops
from controller.southbound.failover import Failover
from controller.southbound.flow_encoding import FlowEncoding
from controller.southbound.rules import Action, Match, MatchValue, Rule, RuleBuilder, RuleKey, ToGroup

UDP = 17
"""UDP destination port of RoCEv2 (IANA; InfiniBand Architecture Specification, annex A17)."""

Field = tuple[str, MatchValue]
IPV4: Field = ("eth_type", ETH_IPV4)
UDP_ONLY: Field = ("ip_proto", UDP)
TO_ROCE: Field = ("udp_dst", ROCE_PORT)

FLOW_TABLE = 0
"""The table of planned flows' rules."""

Towards = Callable[[int, int], tuple[Action, ...]]
"""The actions on a packet for a leaf (its index) over a path class, before the group."""

Over = Callable[[int], tuple[Action, ...]]
"""The actions on a packet to a spine (its index) before it leaves."""


def place_flows(
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    builders: Mapping[int, RuleBuilder],
    *,
    usable: Fabric,
    towards: Towards,
    over: Over,
) -> None:
    """Add one rule a placement unit (or piece of a split flow) at its ingress leaf.

    Flows within a leaf, unroutable flows, and flows whose leaf ports are not known get none: base forwarding has them.

    Args:
        fabric: with the port numbers that are known.
        traffic: the flows.
        encoding: source ports and paths of their pieces.
        builders: of every leaf, by datapath id.
        usable: the fabric without the cables that are drained.
        towards: see ``Towards``.
        over: see ``Over``.
    """
    hops = NextHops(usable)
    ingress = [_Ingress(fabric, a, hops, builders[leaf.dpid], towards, over) for a, leaf in enumerate(fabric.leaves)]
    # Rules share equal parts of their matches: the number of objects limits the speed.
    src_ip: list[Field] = [("ipv4_src", host.ip) for host in fabric.hosts]
    dst_ip: list[Field] = [("ipv4_dst", host.ip) for host in fabric.hosts]
    source, target = traffic.src[encoding.flow], traffic.dst[encoding.flow]
    columns = (fabric.host_leaf[source], fabric.host_leaf[target], source, target, encoding.udp_src, encoding.path)
    for a, b, src, dst, port, path in zip(*(column.tolist() for column in columns), strict=True):
        if path >= 0:
            ingress[a].place(flow_key(src_ip[src], dst_ip[dst], port), path, b)


def flow_key(src_ip: Field, dst_ip: Field, udp_src: int) -> RuleKey:
    """Return the key of the rule of one placement unit, or of one piece of it, at its ingress leaf."""
    # A higher priority separates flows with a known port from the others of the same two hosts.
    return (FLOW_TABLE, FLOW + (udp_src != ANY_PORT), _match(src_ip, dst_ip, udp_src))


def _match(src_ip: Field, dst_ip: Field, udp_src: int) -> Match:
    """Return the match of one placement unit's packets, written out in order: sorting would dominate the run time."""
    if udp_src == ANY_PORT:
        return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE)
    return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE, ("udp_src", udp_src))


class _Ingress:
    """The planned rules of one leaf; what flows have in common is made once."""

    def __init__(
        self, fabric: Fabric, leaf: int, hops: NextHops, builder: RuleBuilder, towards: Towards, over: Over
    ) -> None:
        self._leaf, self._hops, self._builder, self._towards = leaf, hops, builder, towards
        self._uplinks = uplinks(fabric, leaf)
        spine_of = dict(zip(self._uplinks, fabric.path_spine.tolist(), strict=True))
        self._failover = Failover(builder, lambda port: over(spine_of[port]))
        self._actions: dict[tuple[int, int], tuple[Action, ...]] = {}

    def place(self, key: RuleKey, path: int, b: int) -> None:
        if (path, b) not in self._actions:
            self._actions[path, b] = self._way(path, b)
        actions = self._actions[path, b]
        if actions:
            self._builder.add(Rule(*key, actions))

    def _way(self, path: int, b: int) -> tuple[Action, ...]:
        planned = self._uplinks[path]
        if planned is None:
            return ()
        group = self._failover.group(planned, self._hops.ports(self._leaf, b))
        return (*self._towards(b, path), ToGroup(group))


def uplinks(fabric: Fabric, leaf: int) -> list[int | None]:
    """Return the port [K] by which each path class leaves a leaf; ``None`` if there is none, or it is not known."""
    return [
        None if link < 0 else fabric.cables[(link - fabric.first_cable_link) // 2].leaf_port
        for link in fabric.up_link[leaf].tolist()
    ]
