"""Kinds of failures, by name; apart from their analysis, so that commands start without NumPy."""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """Kinds of failures.

    One cable; one spine, aggregation switch or core; the cables from one leaf to one switch, or from one aggregation
    switch to one core (all parallel ones at once).
    """

    CABLE = "cable"
    SPINE = "spine"
    AGGREGATION = "aggregation"
    CORE = "core"
    UPLINKS = "uplinks"
