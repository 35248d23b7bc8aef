"""``per_flow`` enforcement: the ingress leaf sends each planned flow up its uplink; nobody else has a rule for it.

The spine's and the egress leaf's static rules (base.py) take it from there, because a path is fixed by the uplink: a
spine has one cable to the egress leaf, or picks the one that belongs to the cable in.

Every rule leads to a fail-over group: the planned uplink while its port is live, then a select group over the
others. So the leaf itself moves what would leave by a dead cable, before the controller hears of it.
"""

from __future__ import annotations

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.base import ETH_IPV4, FLOW, NextHops, base_builders
from controller.southbound.rules import Bucket, Builder, Match, Output, Rule, RuleSet, ToGroup, match

UDP = 17
ROCE_PORT = 4791
"""UDP destination port of RoCEv2 (IANA; InfiniBand Architecture Specification, annex A17)."""


def compile_per_flow(
    fabric: Fabric,
    traffic: Traffic,
    assignment: Assignment,
    *,
    usable: Fabric | None = None,
    ecmp_action: str = "bundle",
    learn: bool = False,
) -> RuleSet:
    """Base rules plus one rule a placement unit at its ingress leaf.

    Flows within a leaf, unroutable flows, and flows whose leaf ports are not known get none: base forwarding has them.

    Args:
        usable: the fabric without the cables that are drained; ``None``: none is.

    Raises:
        ValueError: a flow is split; its pieces need source ports of their own first.
    """
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    if assignment.is_split():
        raise ValueError("per-flow rules cannot split a flow: its pieces need source ports of their own")
    hops = NextHops(usable or fabric)
    compilers = [_Leaf(fabric, a, hops, builders[leaf.dpid]) for a, leaf in enumerate(fabric.leaves)]
    source_leaf = fabric.host_leaf[traffic.src[assignment.flow]].tolist()
    target_leaf = fabric.host_leaf[traffic.dst[assignment.flow]].tolist()
    src, dst = traffic.src[assignment.flow].tolist(), traffic.dst[assignment.flow].tolist()
    ports, paths = traffic.udp_src[assignment.flow].tolist(), assignment.path.tolist()
    for a, b, host, peer, port, path in zip(source_leaf, target_leaf, src, dst, ports, paths, strict=True):
        if path >= 0:
            compilers[a].place(flow_match(fabric.hosts[host].ip, fabric.hosts[peer].ip, port), port, path, b)
    return RuleSet({dpid: builder.build() for dpid, builder in builders.items()})


def flow_match(src_ip: str, dst_ip: str, udp_src: int) -> Match:
    """The match of one placement unit's packets."""
    if udp_src == ANY_PORT:
        return match(eth_type=ETH_IPV4, ip_proto=UDP, ipv4_src=src_ip, ipv4_dst=dst_ip, udp_dst=ROCE_PORT)
    return match(eth_type=ETH_IPV4, ip_proto=UDP, ipv4_src=src_ip, ipv4_dst=dst_ip, udp_src=udp_src, udp_dst=ROCE_PORT)


class _Leaf:
    """The planned rules of one leaf; its fail-over groups are shared by all flows that need the same one."""

    def __init__(self, fabric: Fabric, leaf: int, hops: NextHops, builder: Builder) -> None:
        self._fabric, self._leaf, self._hops, self._builder = fabric, leaf, hops, builder
        self._groups: dict[tuple[int, tuple[int, ...]], int] = {}

    def place(self, fields: Match, udp_src: int, path: int, towards: int) -> None:
        link = int(self._fabric.up_link[self._leaf, path])
        port = self._fabric.cables[(link - self._fabric.first_cable_link) // 2].leaf_port
        if port is None:
            return
        others = tuple(p for p in self._hops.ports(self._leaf, towards) if p != port)
        key = (port, others)
        if key not in self._groups:
            self._groups[key] = self._failover(port, others)
        # Flows with a known port are told from the others of the same two hosts by the higher priority.
        priority = FLOW + (udp_src != ANY_PORT)
        self._builder.add(Rule(0, priority, fields, (ToGroup(self._groups[key]),)))

    def _failover(self, port: int, others: tuple[int, ...]) -> int:
        buckets = [Bucket(Output(port), watch_port=port)]
        if len(others) == 1:
            buckets.append(Bucket(Output(others[0]), watch_port=others[0]))
        elif others:
            select = self._builder.group("select", [Bucket(Output(p), watch_port=p) for p in others])
            buckets.append(Bucket(ToGroup(select), watch_group=select))
        return self._builder.group("failover", buckets)
