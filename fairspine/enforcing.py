"""What a distribution needs to add an enforcement: a way to make switches follow a plan.

``examples/enforcement-plugin`` is a complete example.
"""

from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import FlowEncoding, kept_ports
from controller.southbound.enforcement.ingress import is_of_a_flow, place_flows, with_exact_ports
from controller.southbound.forwarding.base import rules_of
from controller.southbound.forwarding.failover import Failover
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rules import priorities
from controller.southbound.rules.rule import Bucket, Output, PopMpls, PushMpls, Rule, ToGroup, match, port_bucket
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet

__all__ = [
    "Bucket",
    "Enforcement",
    "Failover",
    "FlowEncoding",
    "NextHops",
    "OptionValues",
    "Output",
    "PopMpls",
    "PushMpls",
    "Rule",
    "RuleBuilder",
    "RuleInputs",
    "RuleSet",
    "ToGroup",
    "is_of_a_flow",
    "kept_ports",
    "match",
    "place_flows",
    "port_bucket",
    "priorities",
    "rules_of",
    "with_exact_ports",
]
