"""Kinds of failures, by name; apart from their analysis, so that commands start without NumPy."""

from __future__ import annotations

from enum import StrEnum


class FailureKind(StrEnum):
    """Kinds of failures: one cable; one spine; the uplinks of one leaf to one spine (all parallel cables at once)."""

    CABLE = "cable"
    SPINE = "spine"
    UPLINKS = "uplinks"
