"""The classifier finds the rule that looking at every rule would find."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.southbound.rules.classifier import Classifier, OverlapError
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.rule import Bundle, MatchValue, Output, Rule, match
from controller.southbound.rules.rule_set import RuleBuilder, RuleSet

addresses = st.sampled_from(["10.0.1.1", "10.0.1.2", "10.0.2.1"])
masked_addresses = st.tuples(addresses, st.sampled_from(["255.255.255.0", "255.255.255.255", "0.0.0.0"]))
ports = st.integers(0, 7)
masked_ports = st.tuples(ports, st.sampled_from([0, 1, 3, 6, 7]))
packets = st.fixed_dictionaries({"in_port": st.integers(1, 2)}, optional={"ipv4_dst": addresses, "udp_src": ports})
matchings = st.fixed_dictionaries(
    {},
    optional={
        "in_port": st.integers(1, 2),
        "ipv4_dst": st.one_of(addresses, masked_addresses),
        "udp_src": st.one_of(ports, masked_ports),
    },
)
rules = st.lists(
    st.builds(lambda table, priority, fields: Rule(table, priority, match(**fields)), ports, ports, matchings),
    max_size=20,
    unique_by=lambda rule: rule.key,
)


def number(value: int | str) -> int:
    return value if isinstance(value, int) else int(IPv4Address(value))


def fits(wanted: MatchValue, given_value: int | str) -> bool:
    if isinstance(wanted, tuple):
        value, mask = map(number, wanted)
        return number(given_value) & mask == value & mask
    return wanted == given_value


@given(rules, ports, packets)
def test_the_best_rule_is_found_or_two_that_overlap_are(held: list[Rule], table: int, packet: Any) -> None:
    matching = [
        rule
        for rule in held
        if rule.table == table and all(name in packet and fits(value, packet[name]) for name, value in rule.match)
    ]
    best = [rule for rule in matching if rule.priority == max(each.priority for each in matching)]
    classifier = Classifier(held)
    # Rules with equal values under their masks are one to a switch, whatever else they have behind them.
    if len(best) > 1:
        with suppress(OverlapError):
            assert classifier.best(table, packet) in best
    else:
        assert classifier.best(table, packet) == (best[0] if best else None)


def test_two_rules_of_one_priority_that_match_are_an_error() -> None:
    two = [Rule(0, 1, match(in_port=1)), Rule(0, 1, match(udp_src=2))]
    with pytest.raises(OverlapError):
        Classifier(two).best(0, {"in_port": 1, "udp_src": 2})
    assert Classifier(two).best(0, {"in_port": 1}) == two[0]


def test_every_walk_takes_each_choice_of_each_hash_once() -> None:
    """Leaf 1 hashes over three uplinks; spine 1, by a strange rule, over both leaves: 1 x 2 + 2 ways."""
    fabric = clos(3, 2, 1)
    leaves, held = RuleBuilder(), {}
    leaves.add(Rule(0, 2, match(in_port=1), (Bundle((2, 3, 4)),)))
    held[1] = leaves.build()
    other = RuleBuilder()
    other.add(Rule(0, 1, match(), (Output(1),)))
    held[2] = other.build()
    for spine in fabric.spines:
        builder = RuleBuilder()
        builder.add(Rule(0, 1, match(), (Bundle((1, 2)) if spine.name == "spine1" else Output(2),)))
        held[spine.dpid] = builder.build()
    walks = list(RuleInterpreter(fabric).every_walk(RuleSet(held), {"eth_type": 0x800}, source="h1"))
    taken = [tuple(hop.out_port for hop in walk.hops) for walk in walks]
    assert len(taken) == len(set(taken)) == 4
    assert {ports_[0] for ports_ in taken} == {2, 3, 4}
    assert {ports_[:2] for ports_ in taken if ports_[0] == 2} == {(2, 2), (2,)}
