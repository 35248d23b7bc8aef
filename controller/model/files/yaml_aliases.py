"""Aliases of YAML documents: limited, because a few nested ones stand for more values than any memory holds.

An alias (YAML 1.2.2, section 7.1) is another place of the same value. Parsers share it, but whatever walks or writes
the document, or merges mappings by ``<<``, meets it once for each place.
"""

from __future__ import annotations

import yaml

from controller.model.errors import InputError

MOST_VALUES = 100_000
"""Values that any document may have with its aliases written out."""

MOST_COPIES = 20
"""How many times as many values a larger document may have with its aliases written out as without."""


def check_aliases(root: yaml.Node | None) -> None:
    """Check a YAML document before its nodes become data.

    Raises:
        InputError: its aliases stand for too many values, or one for a value that contains it.
    """
    if root is None:
        return
    # Values below each node with aliases written out, itself included; None while those below are counted.
    values: dict[int, int | None] = {}
    waiting = [(root, False)]
    while waiting:
        node, is_counted = waiting.pop()
        below = _below(node)
        if is_counted:
            values[id(node)] = 1 + sum(values[id(each)] or 0 for each in below)
        elif id(node) not in values:
            values[id(node)] = None
            waiting.append((node, True))
            waiting += [(each, False) for each in below]
        elif values[id(node)] is None:
            raise InputError("an alias stands for a value that contains it", field=f"line {node.start_mark.line + 1}")
    total = values[id(root)] or 0
    if total > max(MOST_VALUES, MOST_COPIES * len(values)):
        written = f"{total:,}" if total < 10**15 else f"more than {10**15:,}"
        raise InputError(
            f"its aliases stand for too many values: {written} in all, of {len(values):,} that are written"
        )


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
