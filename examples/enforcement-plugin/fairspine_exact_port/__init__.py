"""An enforcement for switches that match no masked UDP ports: one rule per source port at each switch on the way up."""

from __future__ import annotations

from fairspine import enforcing as fe


def compile_rules(inputs: fe.RuleInputs) -> fe.RuleSet:
    """Return base rules, and a rule for each planned source port on its way up."""
    builders = inputs.builders()
    fe.place_flows(
        inputs,
        builders,
        towards=lambda leaf, path: (),
        over=lambda far, upper: (),
        layers=len(inputs.fabric.layers) - 1,
    )
    # QPs with neighbouring ports have one rule until here.
    rules = fe.rules_of(builders)
    return fe.RuleSet({dpid: fe.with_exact_ports(held) for dpid, held in rules.switches.items()})


ENFORCEMENT = fe.Enforcement(
    "exact_port",
    "one rule per source port, without masks, at the first leaf",
    hosts="use the source port of /v1/routes",
    encode=fe.kept_ports,
    compile=compile_rules,
    is_planned=fe.is_of_a_flow,
)
