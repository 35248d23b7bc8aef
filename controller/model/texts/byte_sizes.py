"""Numbers of bytes as people write them: ``1GB``, ``1.5 GiB``, ``100e9``."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from controller.model.units import LARGEST_EXACT

MAX_BYTES = LARGEST_EXACT
"""Most bytes of one flow or collective."""

_FACTORS = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "pb": 10**15,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
    "pib": 2**50,
}

PATTERN = r"^ *([0-9]+(?:\.[0-9]+)?(?:[eE]\+?[0-9]{1,2})?) *((?:[kKmMgGtTpP][iI]?)?[bB])? *$"
"""The text of a number of bytes, as a regular expression of JSON Schema."""


def byte_count(value: Any) -> Any:
    """Return the bytes of a text such as ``1GB`` or of a number such as 1e9, as an integer; other values as they are.

    Raises:
        ValueError: the text is not a number of bytes, or a part of a byte is left.
    """
    if isinstance(value, float):
        if not value.is_integer():
            raise ValueError("must be a whole number of bytes")
        return int(value)
    if type(value) is not str:
        return value
    match = re.match(PATTERN, value)
    if match is None:
        raise ValueError("must be a number of bytes, such as 1000000000, 100e9, 1GB or 1.5GiB")
    count = Decimal(match[1]) * _FACTORS[(match[2] or "b").lower()]
    if count != count.to_integral_value():
        raise ValueError("must be a whole number of bytes")
    return int(count)
