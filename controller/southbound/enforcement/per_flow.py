"""``per_flow`` enforcement: each switch on the way up sends a planned flow up its uplink; no other has a rule for it.

In two layers this is the ingress leaf. In three it is also the aggregation switch, for flows to other pods. The static
rules of the others (base.py) take it from there, because a path is fixed by its uplinks: a spine has one cable to the
egress leaf, or picks the one that belongs to the cable in. Only where an aggregation switch has several cables to the
egress leaf, it has a rule for the flow's way down, too.
"""

from __future__ import annotations

from controller.southbound.enforcement.base import Enforcement, RuleInputs
from controller.southbound.enforcement.flow_encoding import kept_ports
from controller.southbound.enforcement.ingress import is_of_a_flow, place_flows
from controller.southbound.forwarding.base import rules_of
from controller.southbound.rules.rule_set import RuleSet


def compile_per_flow(inputs: RuleInputs) -> RuleSet:
    """Return base rules plus one rule a placement unit (or piece of a split flow) at its switches on the way up."""
    builders = inputs.builders()
    place_flows(
        inputs,
        builders,
        towards=lambda leaf, path: (),
        over=lambda far, upper: (),
        layers=len(inputs.fabric.layers) - 1,
    )
    return rules_of(builders)


ENFORCEMENT = Enforcement(
    "per_flow",
    "one rule per flow at its first leaf",
    hosts="use the source port of /v1/routes",
    encode=kept_ports,
    compile=compile_per_flow,
    is_planned=is_of_a_flow,
    incremental=True,
)
