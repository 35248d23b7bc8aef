"""``per_flow`` enforcement: each switch on the way up sends a planned flow up its uplink; no other has a rule for it.

In two layers this is the ingress leaf. In three it is also the aggregation switch, for flows to other pods. The static
rules of the others (base.py) take it from there, because a path is fixed by its uplinks: a spine has one cable to the
egress leaf, or picks the one that belongs to the cable in. Only where an aggregation switch has several cables to the
egress leaf, it has a rule for the flow's way down, too.
"""

from __future__ import annotations

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.ingress import place_flows
from controller.southbound.forwarding.base import base_builders
from controller.southbound.rules.rule_set import RuleSet


def compile_per_flow(
    fabric: Fabric,
    traffic: Traffic,
    encoding: FlowEncoding,
    *,
    usable: Fabric | None = None,
    ecmp_action: str = "bundle",
    learn: bool = False,
) -> RuleSet:
    """Return base rules plus one rule a placement unit (or piece of a split flow) at its switches on the way up.

    Args:
        fabric: with the port numbers that are known; a cable or host without them gets no rule.
        traffic: the flows of all jobs.
        encoding: source ports and paths of their pieces.
        usable: the fabric without the cables that are drained; ``None``: none is.
        ecmp_action: ``bundle`` or ``select``.
        learn: send ARP for unknown targets to the controller.
    """
    builders = base_builders(fabric, usable=usable, ecmp_action=ecmp_action, learn=learn)
    place_flows(
        fabric,
        traffic,
        encoding,
        builders,
        usable=usable or fabric,
        towards=lambda leaf, path: (),
        over=lambda far, upper: (),
        layers=len(fabric.layers) - 1,
    )
    return RuleSet({dpid: builder.build() for dpid, builder in builders.items()})
