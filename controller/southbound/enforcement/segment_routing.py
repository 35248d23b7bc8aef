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

Labels have the class of priority of the packet as traffic class (RFC 5462), since switches see no DSCP behind them.

Packets grow by 8 bytes between leaves: the MTU of switch ports must have room for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller.model.fabric import Fabric
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import kept_ports
from controller.southbound.enforcement.ingress import is_of_a_flow, place_flows
from controller.southbound.enforcement.labels import DEFAULT_BASE, LABEL_BASE, LABEL_BYTES, LabelBlock, widest
from controller.southbound.forwarding.base import ETH_IPV4, down_to, rules_of
from controller.southbound.forwarding.destinations import Destinations
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.forwarding.prefix_rules import spread
from controller.southbound.rules.priorities import BELOW, LABEL
from controller.southbound.rules.rule import (
    ETH_MPLS,
    PopMpls,
    PushMpls,
    Rule,
    SetTrafficClass,
    ToGroup,
    match,
)
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet

LABELS = 2
"""The table in which a spine looks up inner labels (table 1 has parallel cables, base.py)."""

MOST_LABELS = 2
"""Of a packet between leaves."""


def block_of(options: OptionValues) -> LabelBlock:
    """Return the block of labels that the options of the controller name."""
    return LabelBlock(options.get(LABEL_BASE, DEFAULT_BASE))


def check_labels(fabric: Fabric, options: OptionValues) -> None:
    """See whether the labels suffice for a fabric.

    Raises:
        InputError: they do not.
    """
    block_of(options).check(fabric)


def label_stack(fabric: Fabric, src_leaf: int, dst_leaf: int, path: int, options: OptionValues) -> tuple[int, ...]:
    """Return the labels of a path between leaves, the outermost first."""
    return block_of(options).stack(fabric, src_leaf, dst_leaf, path)


def compile_segment_routing(inputs: RuleInputs) -> RuleSet:
    """Return base rules, the label rules above leaves, and one rule a placement unit (or piece) at its ingress leaf."""
    fabric, usable, labels, builders = inputs.fabric, inputs.usable, block_of(inputs.options), inputs.builders()
    number = fabric.choices[0].number.tolist()

    def towards(leaf: int, path: int) -> tuple[PushMpls]:
        return (PushMpls(labels.leaf(leaf, number[fabric.ways.first_choice(path)])),)

    def of_class(priority: int) -> tuple[SetTrafficClass]:
        return (SetTrafficClass(priority),)

    if len(fabric.layers) == 2:
        for s, spine in enumerate(fabric.spines):
            _label_rules(fabric, usable, s, labels, builders[spine.key])
        place_flows(
            inputs,
            builders,
            towards=towards,
            of_class=of_class,
            over=lambda far, spine: (PushMpls(labels.spine(spine)),),
        )
    else:
        _pod_label_rules(fabric, usable, labels, builders)
        place_flows(
            inputs,
            builders,
            towards=towards,
            of_class=of_class,
            over=lambda far, agg: (PushMpls(labels.any_core(fabric)),) if far else (),
            planned=lambda core: (PushMpls(labels.spine(core)),),
        )
    return rules_of(builders)


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


def _pod_label_rules(
    fabric: Fabric, usable: Fabric, labels: LabelBlock, builders: Mapping[SwitchKey, RuleBuilder]
) -> None:
    """Add the label rules of aggregation switches and cores."""
    to, hops = Destinations(fabric), NextHops(usable)
    # The number is that of the cable up: the leaf below may have fewer to the same switch.
    inner = [
        (b, number, match(eth_type=ETH_MPLS, mpls_label=labels.leaf(b, number), mpls_bos=1))
        for b in range(fabric.n_leaves)
        for number in range(widest(fabric))
    ]
    for x, agg in enumerate(fabric.layers[1]):
        builder = builders[agg.key]
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
        builder = builders[core.key]
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


ENFORCEMENT = Enforcement(
    "segment_routing",
    "MPLS labels pushed at the first leaf",
    hosts="use the source port of /v1/routes",
    encode=kept_ports,
    compile=compile_segment_routing,
    is_planned=is_of_a_flow,
    check=check_labels,
    labels=label_stack,
    growth=MOST_LABELS * LABEL_BYTES,
    options=(LABEL_BASE,),
    incremental=True,
)
