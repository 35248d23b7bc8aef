"""Speeds of ports as devices write them."""

from __future__ import annotations

import re
from typing import Any

from controller.model.errors import InputError
from controller.model.files.fabric_forms import MAX_GBPS
from controller.workload.importers.base import Source

_MAU = re.compile(r"(\d{1,4})(G|T)?(?:b|B)(?:ase|ASE)")
_FACTORS = {None: 1e-3, "G": 1.0, "T": 1e3}


def from_mbps(value: Any, source: Source, field: str) -> float | None:
    """Return a speed in Gbit/s of one in Mbit/s; ``None``: there is none.

    Raises:
        InputError: it is not a number above 0.
    """
    if value is None or value == "":
        return None
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) or not 0 < int(text) <= MAX_GBPS * 1000:
        raise InputError("is not a speed in Mbit/s", source=source.name, field=field, value=value)
    return int(text) / 1000


def from_media(text: Any) -> float | None:
    """Return the speed in Gbit/s of a medium's name (IEEE 802.3, 1.2.3), such as 100GBASE-CR4; ``None``: unknown."""
    match = _MAU.search(text) if isinstance(text, str) else None
    if match is None:
        return None
    gbps = int(match[1]) * _FACTORS[match[2]]
    return gbps if 0 < gbps <= MAX_GBPS else None
