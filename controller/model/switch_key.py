"""The key of a switch: what names it where people's names do not, and OpenFlow need not be known."""

from __future__ import annotations

from typing import TypeAlias

SwitchKey: TypeAlias = int | str
"""A hashable value that only the side which speaks to the switch looks into.

It is the datapath id of a switch that speaks OpenFlow, and the name of any other.
"""


def shown(key: SwitchKey) -> str:
    """Return a key for people: a datapath id in hexadecimal, a name as it is."""
    return f"{key:#x}" if isinstance(key, int) else key


def in_order(key: SwitchKey) -> tuple[int, str]:
    """Return what keys are sorted by: datapath ids in ascending order, then names."""
    return (key, "") if isinstance(key, int) else (1 << 64, key)
