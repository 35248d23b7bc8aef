"""How long the controller waits for more changes of the network before it reconciles."""

from __future__ import annotations

REST, LONGEST_REST = 2.0, 10.0
"""Pause before the next reconciliation: a multiple of the duration of the last one, and its maximum in seconds."""


def pause(debounce: float, took: float, rested: float) -> float:
    """Return the seconds to wait for more changes: the debounce time, or more if reconciliations are long and frequent.

    Hundreds of switches that connect one by one would otherwise cause as many reconciliations, each of them on the
    whole network. After a rest, the first change waits for no longer than the debounce time.

    Args:
        debounce: seconds.
        took: seconds that the last reconciliation took.
        rested: seconds since its end.
    """
    return max(debounce, min(REST * took, LONGEST_REST) - rested)
