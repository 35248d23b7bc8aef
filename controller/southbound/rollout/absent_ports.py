"""Rules for a switch that lacks some of the ports they name: found before anything is sent."""

from __future__ import annotations

from controller.southbound.rules.rule import Action, Bucket, Bundle, Output, ToController, ToGroup
from controller.southbound.rules.rule_set import SwitchRules

RESERVED = 0xFFFFFF00
"""Port numbers from here on are for special uses (OpenFlow 1.3.5, section 7.2.1)."""

SENDING = (Output, Bundle, ToGroup, ToController)


def without_ports(want: SwitchRules, ports: frozenset[int]) -> tuple[SwitchRules, tuple[int, ...]]:
    """Return rules with the same forwarding that name no absent ports, and the ports left out.

    Some switches refuse a rule that names an absent port; others (Open vSwitch) accept it and drop the packets that
    match.
    Such a rule therefore becomes one that drops, and a bucket that leads to such a port is left out.
    """
    missing: set[int] = set()
    rules, groups = {}, dict(want.groups)
    # Most rules of a switch share one of a few action lists.
    possible: dict[int, tuple[Action, ...]] = {}
    for key, rule in want.rules.items():
        actions = possible.get(id(rule.actions))
        if actions is None:
            actions = possible[id(rule.actions)] = _actions(rule.actions, ports, missing)
        if actions is not rule.actions:
            rules[key] = rule._replace(actions=actions)
    for id_, group in want.groups.items():
        buckets = tuple(bucket for bucket in group.buckets if _leads_somewhere(bucket, ports, missing))
        if len(buckets) != len(group.buckets):
            groups[id_] = group._replace(buckets=buckets)
    return (SwitchRules({**want.rules, **rules}, groups), tuple(sorted(missing))) if missing else (want, ())


def _actions(actions: tuple[Action, ...], ports: frozenset[int], missing: set[int]) -> tuple[Action, ...]:
    """Return the actions, or replacements where they name absent ports, which are added to ``missing``."""
    lacking = {port for action in actions for port in _ports(action) if port not in ports and port < RESERVED}
    if not lacking:
        return actions
    missing |= lacking
    kept: list[Action] = []
    for action in actions:
        if isinstance(action, Bundle):
            left = tuple(port for port in action.ports if port in ports)
            if left:
                kept.append(Bundle(left))
        elif not lacking.intersection(_ports(action)):
            kept.append(action)
    # A packet that is not sent anywhere needs no other action.
    return tuple(kept) if any(isinstance(action, SENDING) for action in kept) else ()


def _leads_somewhere(bucket: Bucket, ports: frozenset[int], missing: set[int]) -> bool:
    named = {port for action in bucket.actions for port in _ports(action)}
    if bucket.watch_port is not None:
        named.add(bucket.watch_port)
    lacking = {port for port in named if port not in ports and port < RESERVED}
    missing |= lacking
    return not lacking


def _ports(action: Action) -> tuple[int, ...]:
    if isinstance(action, Output):
        return (action.port,)
    return action.ports if isinstance(action, Bundle) else ()
