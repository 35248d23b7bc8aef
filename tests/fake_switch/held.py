"""Conversion of Ryu's flow statistics and group descriptions to rules and groups for comparison."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.rule import GROUP_BASE, GROUP_MASK, Group, Rule, RuleKey


def rules_of(entries: Iterable[Any]) -> dict[RuleKey, Rule]:
    """Return the rules of flow statistics, or of the flow-mods that created them."""
    return {rule.key: rule for rule in map(messages.rule_from, entries)}


def groups_of(entries: Iterable[Any]) -> dict[int, Group]:
    """Return the groups in the controller's range of ids, from group descriptions or group-mods."""
    every = messages.every_group(entries)
    return {number: group for number, group in every.items() if number & GROUP_MASK == GROUP_BASE}
