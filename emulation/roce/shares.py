"""Shares of a split flow: the part of its bytes and of its rate that each piece has."""

from __future__ import annotations

import math
from collections.abc import Sequence

from controller.model.errors import InputError
from controller.model.tolerances import TOLERANCE


def check_shares(shares: Sequence[float], *, field: str = "shares") -> None:
    """Shares are more than 0 and add up to 1.

    Raises:
        InputError: they do not.
    """
    if not all(0 < share <= 1 for share in shares) or not math.isclose(math.fsum(shares), 1.0, abs_tol=TOLERANCE):
        raise InputError("shares are more than 0 and add up to 1", field=field, value=list(shares))


def split(length: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """(start, end) of each piece of ``length`` bytes: whole bytes, all of them, in proportion to the shares."""
    total = math.fsum(shares)
    ends = [min(length, round(length * math.fsum(shares[:i]) / total)) for i in range(len(shares))]
    return list(zip(ends, [*ends[1:], length], strict=True))
