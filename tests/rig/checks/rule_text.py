"""Our rules in the words of ``ovs-ofctl dump-flows``: see ``tests.campaigns.rule_text``."""

from __future__ import annotations

import re

from tests.campaigns.rule_text import held, rule_text, wanted

__all__ = ["held", "rule_text", "source_ports", "wanted"]


def source_ports(match: str) -> int:
    """Return how many UDP source ports a match names: 0 where it names none (and so matches all of them)."""
    found = re.search(r"tp_src=\w+(?:/(\w+))?", match)
    if found is None:
        return 0
    return 1 << (16 - int(found[1], 16).bit_count()) if found[1] else 1
