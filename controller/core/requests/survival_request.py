"""The failures to analyse, as an interface reads them from a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from controller.model.choices.failure_kind import FailureKind


@dataclass(frozen=True)
class SurvivalRequest:
    """The failures to analyse.

    Attributes:
        kinds: what fails.
        pairs: every two failures at the same time, in place of each one.
        above: the speed for which the worst failures are applied one after another; ``None``: they are not.
    """

    kinds: tuple[FailureKind, ...] = tuple(FailureKind)
    pairs: bool = False
    above: float | None = None


ReadSurvival = Callable[[bytes], SurvivalRequest]
"""Reads the body of a request, and raises ``InputError`` where it is wrong."""
