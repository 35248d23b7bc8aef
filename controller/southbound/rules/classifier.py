"""Lookup of the rule that a packet matches, without a scan of all rules: tuple space search.

Rules that match the same fields under the same masks are of one *shape*, and a shape's rules are found by one look into
a dictionary (Srinivasan, Suri and Varghese, SIGCOMM 1999; Open vSwitch does the same). A leaf with thousands of flows
has about ten shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller.southbound.rules.rule import Match, MatchValue, Rule, number_of

Fields = Mapping[str, int | str]
"""Header fields by OpenFlow name, and ``in_port`` and ``metadata``."""


class OverlapError(ValueError):
    """Two matching rules of the same priority: OpenFlow leaves open which one wins."""


class _Shape(NamedTuple):
    """Field names and masks, in the order of the match; ``None``: all of the field."""

    priority: int
    fields: tuple[tuple[str, int | None], ...]


class Classifier:
    """The rules of one switch, by table."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        """Group the rules by table and shape."""
        tables: dict[int, dict[_Shape, dict[tuple[int | str, ...], Rule]]] = {}
        for rule in rules:
            shape = _Shape(rule.priority, tuple((name, _mask(value)) for name, value in rule.match))
            tables.setdefault(rule.table, {}).setdefault(shape, {})[_wanted(rule.match)] = rule
        self._tables = {
            table: sorted(shapes.items(), key=lambda item: -item[0].priority) for table, shapes in tables.items()
        }

    def best(self, table: int, fields: Fields) -> Rule | None:
        """Return the matching rule of highest priority.

        Raises:
            OverlapError: two matching rules have that priority.
        """
        best: Rule | None = None
        for shape, rules in self._tables.get(table, ()):
            if best is not None and shape.priority < best.priority:
                break
            key = _given(shape, fields)
            rule = None if key is None else rules.get(key)
            if rule is None:
                continue
            if best is not None:
                raise OverlapError(f"{best} and {rule} overlap")
            best = rule
        return best


def _given(shape: _Shape, fields: Fields) -> tuple[int | str, ...] | None:
    """Return the packet's values in the fields of this shape; ``None``: it lacks one of them."""
    values: list[int | str] = []
    for name, mask in shape.fields:
        value = fields.get(name)
        if value is None:
            return None
        values.append(value if mask is None else number_of(value) & mask)
    return tuple(values)


def _wanted(match: Match) -> tuple[int | str, ...]:
    return tuple(number_of(value[0]) & number_of(value[1]) if isinstance(value, tuple) else value for _, value in match)


def _mask(value: MatchValue) -> int | None:
    return number_of(value[1]) if isinstance(value, tuple) else None
