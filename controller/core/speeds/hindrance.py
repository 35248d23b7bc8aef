"""The effect of rules of others on the flows of jobs: packets are walked through the rules of both. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.core.controller_state import ControllerState
from controller.core.speeds.speeds_now import Hindrance
from controller.model.switch_key import SwitchKey
from controller.southbound.enforcement.flow_packets import open_fields, packet_of
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.rollout.drift import MOST_STRANGERS, overlap
from controller.southbound.rules.classifier import OverlapError
from controller.southbound.rules.interpreter import Packet, RuleInterpreter, Walk
from controller.southbound.rules.rule import ETH_MPLS, Rule
from controller.southbound.rules.rule_set import RuleSet, SwitchRules

MOST_WALKED = 2000
"""Flows that are walked at most; where rules of others may match more, the speeds of jobs count as not known."""

_ELSEWHERE = frozenset({"in_port", "metadata"})
"""Fields of a match that depend on the place of a packet, not on the flow."""

_BEFORE_LABELS = frozenset({"eth_src", "eth_dst"})


def hindrance(state: ControllerState, foreign: Mapping[SwitchKey, Sequence[Rule]]) -> Hindrance:
    """Return which jobs are stopped or kept off their paths by rules of others.

    Args:
        state: with the rules that switches should hold, and have confirmed.
        foreign: rules of others that catch packets, by the keys of switches.
    """
    if state.fabric is None or state.candidate is None or state.encoding is None or state.compiled is None:
        return Hindrance()
    by_hosts = ENFORCEMENTS.named(state.desired.enforcement).by_hosts
    if by_hosts or not isinstance(state.compiled, RuleSet):
        # Nothing here knows what rules mean beside what hosts do.
        return Hindrance(diverted=bool(foreign))
    others = [rule for rules in foreign.values() for rule in rules]
    if any(len(rules) >= MOST_STRANGERS for rules in foreign.values()):
        return Hindrance(diverted=True)
    own, both = state.compiled, _with(state.compiled, foreign)
    walker, fabric, wire, traffic = RuleInterpreter(state.fabric), state.fabric, state.encoding, state.candidate.traffic
    stopped, off_path, diverted, walked = set[str](), set[str](), False, 0
    for row in range(len(wire.flow)):
        flow = int(wire.flow[row])
        job = traffic.collectives[traffic.collective[flow]].job
        if job in stopped:
            continue
        source, target, port = fabric.hosts[traffic.src[flow]], fabric.hosts[traffic.dst[flow]], int(wire.udp_src[row])
        packet = packet_of(source, target, port)
        unknown = open_fields(port)
        sure = {name: value for name, value in packet.items() if name not in unknown}
        matching = [rule for rule in others if _may_match(rule, sure)]
        if not matching:
            continue
        walked += 1
        if walked > MOST_WALKED or source.port is None or _reads(matching, unknown):
            diverted = True
            continue
        try:
            without = set(walker.every_walk(own, packet, source=source.name))
            walks = set(walker.every_walk(both, packet, source=source.name))
        except OverlapError:
            diverted = True
            off_path.add(job)
            continue
        if walks == without:
            continue
        off_path.add(job)
        if all(walk.host != target.name for walk in walks):
            stopped.add(job)
        diverted |= _is_diverted(walks, target.name)
    return Hindrance(frozenset(stopped), diverted, frozenset(off_path))


def _is_diverted(walks: set[Walk], target: str) -> bool:
    """Return whether packets load links that they should not: all do that are not simply dropped."""
    return any(walk.host == target or walk.end != "dropped" for walk in walks)


def _with(rules: RuleSet, foreign: Mapping[SwitchKey, Sequence[Rule]]) -> RuleSet:
    """Return the rules of all switches with those of others."""
    every = dict(rules.switches)
    for dpid, more in foreign.items():
        if not isinstance(dpid, int):
            continue
        held = rules[dpid]
        every[dpid] = SwitchRules({**held.rules, **{rule.key: rule for rule in more}}, held.groups)
    return RuleSet(every)


def _may_match(rule: Rule, packet: Packet) -> bool:
    fields = tuple((name, value) for name, value in rule.match if name not in _ELSEWHERE)
    if ("eth_type", ETH_MPLS) in fields:
        # Any packet may be behind a label, which hides all but its addresses of Ethernet.
        fields = tuple((name, value) for name, value in fields if name in _BEFORE_LABELS)
    return overlap(fields, tuple(packet.items()))


def _reads(rules: Sequence[Rule], fields: frozenset[str]) -> bool:
    return any(name in fields for rule in rules for name, _ in rule.match)
