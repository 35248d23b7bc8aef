"""Selection of the compiler of a plan's rules by the name of an enforcement."""

from __future__ import annotations

from controller.model.choices.enforcement import Enforcement
from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.labels import LabelBlock
from controller.southbound.enforcement.per_flow import compile_per_flow
from controller.southbound.enforcement.segment_routing import compile_segment_routing
from controller.southbound.enforcement.source_port import compile_source_port
from controller.southbound.rules.rule_set import RuleSet


def compile_rules(
    enforcement: Enforcement,
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    *,
    usable: Fabric | None = None,
    ecmp_action: str = "bundle",
    learn: bool = False,
    labels: LabelBlock = LabelBlock(),  # noqa: B008 (frozen)
) -> RuleSet:
    """Return the rules of every switch, by datapath id.

    Args:
        enforcement: the kind of rules.
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        traffic: the flows of all jobs.
        encoding: made for the same enforcement.
        usable: the fabric without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller.
        labels: of ``segment_routing``.

    Raises:
        InputError: the labels do not suffice for the fabric.
    """
    if enforcement == "per_flow":
        return compile_per_flow(fabric, traffic, encoding, usable=usable, ecmp_action=ecmp_action, learn=learn)
    if enforcement == "segment_routing":
        return compile_segment_routing(
            fabric, traffic, encoding, usable=usable, ecmp_action=ecmp_action, learn=learn, labels=labels
        )
    return compile_source_port(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
