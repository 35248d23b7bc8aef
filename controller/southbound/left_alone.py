"""The sentence about switches that nothing here changes."""

from __future__ import annotations

from collections.abc import Iterable

MOST_NAMED = 20
"""Most switches that are named; the rest are counted."""


def left_alone(names: Iterable[str]) -> str:
    """Return what is to be said of switches (at least one) that do not speak OpenFlow."""
    every = list(names)
    named = ", ".join(every[:MOST_NAMED])
    more = f", and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    if len(every) == 1:
        return f"{named} is not an OpenFlow switch: fairspine does not change it"
    return f"{named}{more} are not OpenFlow switches: fairspine does not change them"
