"""``segment_routing`` enforcement: the ingress leaf writes the path on each packet, as a stack of two MPLS labels.

The outer label is the spine's, the inner one the egress leaf's (labels.py). The spine pops its own in table 0 and, as
penultimate hop (RFC 3031, section 3.16), the egress leaf's in the label table; so the egress leaf gets plain IP. All
rules outside the ingress leaf stand for switches and cables, not for flows, and do not change with the plan.

Where the planned uplink is dead, the ingress leaf's fail-over group pushes the label of another spine instead; the
inner label is right for every spine.

In three layers the outer label is that of a core. The leaf's uplink says which aggregation switch forwards the packet:
it pops the label and sends to that core; the core sends to the pod of the inner label, whose aggregation switch pops it
as penultimate hop. A path within a pod has only the inner label. A leaf whose planned uplink is dead asks the other
aggregation switch for any core that reaches the leaf, by a label for that. With parallel cables of leaves the inner
label is that of a cable (labels.py).

Packets grow by 8 bytes between leaves: the MTU of switch ports must have room for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.ingress import place_flows
from controller.southbound.enforcement.labels import LabelBlock, widest
from controller.southbound.forwarding.base import ETH_IPV4, base_builders, down_to
from controller.southbound.forwarding.destinations import Destinations
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.forwarding.prefix_rules import spread
from controller.southbound.rules.priorities import BELOW, LABEL
from controller.southbound.rules.rule_set import ETH_MPLS, PopMpls, PushMpls, Rule, RuleBuilder, RuleSet, ToGroup, match

LABELS = 2
"""The table in which a spine looks up inner labels (table 1 has parallel cables, base.py)."""


def compile_segment_routing(
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    *,
    usable: Fabric | None = None,
    ecmp_action: str = "bundle",
    learn: bool = False,
    labels: LabelBlock = LabelBlock(),  # noqa: B008 (frozen)
) -> RuleSet:
    """Return base rules, the label rules above leaves, and one rule a placement unit (or piece) at its ingress leaf.

    Args:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        traffic: the flows of all jobs.
        encoding: source ports and paths of their pieces.
        usable: the fabric without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller.
        labels: the block that node and adjacency labels are taken from.

    Raises:
        InputError: the labels do not suffice for the fabric.
    """
    labels.check(fabric)
    usable = usable or fabric
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    number = fabric.choices[0].number.tolist()

    def towards(leaf: int, path: int) -> tuple[PushMpls]:
        return (PushMpls(labels.leaf(leaf, number[fabric.ways.first_choice(path)])),)

    if len(fabric.layers) == 2:
        for s, spine in enumerate(fabric.spines):
            _label_rules(fabric, usable, s, labels, builders[spine.dpid])
        place_flows(
            fabric,
            traffic,
            encoding,
            builders,
            usable=usable,
            towards=towards,
            over=lambda far, spine: (PushMpls(labels.spine(spine)),),
        )
    else:
        _pod_label_rules(fabric, usable, labels, builders)
        place_flows(
            fabric,
            traffic,
            encoding,
            builders,
            usable=usable,
            towards=towards,
            over=lambda far, agg: (PushMpls(labels.any_core(fabric)),) if far else (),
            planned=lambda core: (PushMpls(labels.spine(core)),),
        )
    return RuleSet({dpid: builder.build() for dpid, builder in builders.items()})


def _label_rules(fabric: Fabric, usable: Fabric, s: int, labels: LabelBlock, builder: RuleBuilder) -> None:
    own = match(eth_type=ETH_MPLS, mpls_label=labels.spine(s), mpls_bos=0)
    builder.add(Rule(0, LABEL, own, (PopMpls(ETH_MPLS),), goto=LABELS))
    for b in range(fabric.n_leaves):
        # After a fail-over, the number may be one of a cable that this spine does not have.
        for number in range(widest(fabric)):
            actions = down_to(fabric, usable, fabric.cables_between(b, s), number, builder)
            if actions:
                fields = match(eth_type=ETH_MPLS, mpls_label=labels.leaf(b, number), mpls_bos=1)
                builder.add(Rule(LABELS, LABEL, fields, (PopMpls(ETH_IPV4), *actions)))


def _pod_label_rules(fabric: Fabric, usable: Fabric, labels: LabelBlock, builders: Mapping[int, RuleBuilder]) -> None:
    """Add the label rules of aggregation switches and cores."""
    to, hops = Destinations(fabric), NextHops(usable)
    # The number is that of the cable up: the leaf below may have fewer to the same switch.
    inner = [
        (b, number, match(eth_type=ETH_MPLS, mpls_label=labels.leaf(b, number), mpls_bos=1))
        for b in range(fabric.n_leaves)
        for number in range(widest(fabric))
    ]
    for x, agg in enumerate(fabric.layers[1]):
        builder = builders[agg.dpid]
        for b, number, fields in inner:
            cables = to.cables_below[0][x].get(b, [])
            actions = down_to(fabric, usable, cables, number, builder) if cables else ()
            if actions:
                builder.add(Rule(0, BELOW, fields, (PopMpls(ETH_IPV4), *actions)))
        _to_cores(fabric, x, hops, labels, builder)
        for b, _, fields in inner:
            ports = hops.ports(x, b, 1) if to.pod_of_leaf[b] != to.pod_of(1, x) else ()
            if ports:
                builder.add(Rule(LABELS, LABEL, fields, spread(builder, ports, "select")))
    for core, cables_to in zip(fabric.spines, to.cables_below[1], strict=True):
        builder = builders[core.dpid]
        for b, _, fields in inner:
            between = cables_to.get(to.pod(to.pod_of_leaf[b]), [])
            actions = down_to(fabric, usable, between, 0, builder)
            if actions:
                builder.add(Rule(0, LABEL, fields, actions))


def _to_cores(fabric: Fabric, x: int, hops: NextHops, labels: LabelBlock, builder: RuleBuilder) -> None:
    """Add the rules of an aggregation switch for outer labels: a core, or another one while its uplink is dead."""
    outer = match(eth_type=ETH_MPLS, mpls_label=labels.any_core(fabric), mpls_bos=0)
    builder.add(Rule(0, LABEL, outer, (PopMpls(ETH_MPLS),), goto=LABELS))
    failover = Failover(builder)
    tier = fabric.tier_cables[1]
    for core, link in zip(*(column[tier.lower == x].tolist() for column in (tier.upper, tier.uplink)), strict=True):
        cable = fabric.cables[(link - fabric.first_cable_link) // 2]
        if cable.lower_port is not None:
            group = failover.group(cable.lower_port, hops.live(x, 1))
            outer = match(eth_type=ETH_MPLS, mpls_label=labels.spine(core), mpls_bos=0)
            builder.add(Rule(0, LABEL, outer, (PopMpls(ETH_MPLS), ToGroup(group))))
