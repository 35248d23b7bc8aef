"""The rules of planned flows at their ingress leaves, which ``per_flow`` and ``segment_routing`` have in common.

Each rule leads to a fail-over group: the planned uplink while its port is live, then the others. What a packet gets on
its way into the group, and over each uplink, is the enforcement's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.model.fabric import Fabric
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.base import ETH_IPV4, FLOW, NextHops
from controller.southbound.failover import Failover
from controller.southbound.rules import Action, Builder, Match, MatchValue, Rule, RuleKey, ToGroup
from controller.southbound.wire import Wire

UDP = 17
ROCE_PORT = 4791
"""UDP destination port of RoCEv2 (IANA; InfiniBand Architecture Specification, annex A17)."""

Field = tuple[str, MatchValue]
IPV4: Field = ("eth_type", ETH_IPV4)
UDP_ONLY: Field = ("ip_proto", UDP)
TO_ROCE: Field = ("udp_dst", ROCE_PORT)

FLOW_TABLE = 0
"""The table of planned flows' rules."""

Towards = Callable[[int, int], tuple[Action, ...]]
"""What a packet for a leaf (its index) over a path class gets before it goes into the group."""

Over = Callable[[int], tuple[Action, ...]]
"""What a packet to a spine (its index) gets before it leaves."""


def place_flows(
    fabric: Fabric,
    traffic: Traffic,
    wire: Wire,
    builders: Mapping[int, Builder],
    *,
    usable: Fabric,
    towards: Towards,
    over: Over,
) -> None:
    """Add one rule a placement unit (or piece of a split flow) at its ingress leaf.

    Flows within a leaf, unroutable flows, and flows whose leaf ports are not known get none: base forwarding has them.

    Args:
        builders: of every leaf, by datapath id.
        usable: the fabric without the cables that are drained.
    """
    hops = NextHops(usable)
    ingress = [_Ingress(fabric, a, hops, builders[leaf.dpid], towards, over) for a, leaf in enumerate(fabric.leaves)]
    # Rules share what is alike in their matches: objects are what makes many rules slow.
    src_ip: list[Field] = [("ipv4_src", host.ip) for host in fabric.hosts]
    dst_ip: list[Field] = [("ipv4_dst", host.ip) for host in fabric.hosts]
    source, target = traffic.src[wire.flow], traffic.dst[wire.flow]
    columns = (fabric.host_leaf[source], fabric.host_leaf[target], source, target, wire.udp_src, wire.path)
    for a, b, src, dst, port, path in zip(*(column.tolist() for column in columns), strict=True):
        if path >= 0:
            ingress[a].place(flow_key(src_ip[src], dst_ip[dst], port), path, b)


def flow_key(src_ip: Field, dst_ip: Field, udp_src: int) -> RuleKey:
    """What identifies the rule of one placement unit, or of one piece of it, at its ingress leaf."""
    # Flows with a known port are told from the others of the same two hosts by the higher priority.
    return (FLOW_TABLE, FLOW + (udp_src != ANY_PORT), _match(src_ip, dst_ip, udp_src))


def _match(src_ip: Field, dst_ip: Field, udp_src: int) -> Match:
    """The match of one placement unit's packets, written out in order: sorting would take longer than all the rest."""
    if udp_src == ANY_PORT:
        return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE)
    return (IPV4, UDP_ONLY, dst_ip, src_ip, TO_ROCE, ("udp_src", udp_src))


class _Ingress:
    """The planned rules of one leaf; what flows have in common is made once."""

    def __init__(
        self, fabric: Fabric, leaf: int, hops: NextHops, builder: Builder, towards: Towards, over: Over
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
    """[K] the port by which each path class leaves a leaf; ``None`` where there is none, or it is not known."""
    return [
        None if link < 0 else fabric.cables[(link - fabric.first_cable_link) // 2].leaf_port
        for link in fabric.up_link[leaf].tolist()
    ]
