"""``segment_routing`` enforcement: the ingress leaf writes the path on each packet, as a stack of two MPLS labels.

The outer label is the spine's, the inner one the egress leaf's (labels.py). The spine pops its own in table 0 and, as
penultimate hop (RFC 3031, section 3.16), the egress leaf's in the label table; so the egress leaf gets plain IP. All
rules outside the ingress leaf stand for switches and cables, not for flows, and do not change with the plan.

Where the planned uplink is dead, the ingress leaf's fail-over group pushes the label of another spine instead; the
inner label is right for every spine.

Packets grow by 8 bytes between leaves: the MTU of switch ports must have room for them.
"""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.base import ETH_IPV4, LABEL, base_builders, down_to
from controller.southbound.flow_encoding import FlowEncoding
from controller.southbound.ingress import place_flows
from controller.southbound.labels import LabelBlock, cable_number, widest
from controller.southbound.rules import ETH_MPLS, PopMpls, PushMpls, Rule, RuleBuilder, RuleSet, match

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
    """Return base rules, the spines' label rules, and one rule a placement unit (or piece) at its ingress leaf.

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
    for s, spine in enumerate(fabric.spines):
        _label_rules(fabric, usable, s, labels, builders[spine.dpid])
    number = cable_number(fabric).tolist()
    place_flows(
        fabric,
        traffic,
        encoding,
        builders,
        usable=usable,
        towards=lambda leaf, path: (PushMpls(labels.leaf(leaf, number[path])),),
        over=lambda spine: (PushMpls(labels.spine(spine)),),
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
