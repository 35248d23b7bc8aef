"""Rules of a switch, drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from controller.southbound.rules.priorities import HOST
from controller.southbound.rules.rule import (
    ETH_MPLS,
    GROUP_BASE,
    Action,
    Bucket,
    Bundle,
    Group,
    Output,
    Rule,
    RuleKey,
    ToGroup,
    match,
)
from controller.southbound.rules.rule_set import SwitchRules


@st.composite
def switch_rules(draw: st.DrawFn, most_port: int = 6) -> SwitchRules:
    """Rules and groups of one switch, groups within groups, some of the rules for labelled packets."""
    port = st.integers(1, most_port)
    groups: dict[int, Group] = {}
    for number in draw(st.sets(st.integers(0, 3))):
        buckets = tuple(Bucket((Output(p),), watch_port=p) for p in draw(st.lists(port, min_size=1, max_size=3)))
        groups[GROUP_BASE + number] = Group(GROUP_BASE + number, "select", buckets)
    inner = sorted(groups)
    for number in draw(st.sets(st.integers(4, 6))) if inner else ():
        low, out = draw(st.sampled_from(inner)), draw(port)
        first = Bucket((Output(out),), watch_port=out)
        groups[GROUP_BASE + number] = Group(
            GROUP_BASE + number, "failover", (first, Bucket((ToGroup(low),), watch_group=low))
        )
    ends: st.SearchStrategy[Action] = st.builds(Output, port) | st.builds(
        Bundle, st.lists(port, min_size=1, max_size=3).map(tuple)
    )
    if groups:
        ends |= st.sampled_from(sorted(groups)).map(ToGroup)
    rules: dict[RuleKey, Rule] = {}
    for table, value, labelled in draw(st.sets(st.tuples(st.integers(0, 2), st.integers(1, 4), st.booleans()))):
        fields = match(eth_type=ETH_MPLS, mpls_label=value) if labelled else match(in_port=value)
        rule = Rule(table, draw(st.integers(1, 2)), fields, draw(st.lists(ends, max_size=2).map(tuple)))
        rules[rule.key] = rule
    if draw(st.booleans()):
        host = Rule(0, HOST, match(ipv4_dst="10.0.1.1"), (Output(1),))
        rules[host.key] = host
    return SwitchRules(rules, groups)
