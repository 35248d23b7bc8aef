"""The result of all algorithms, and edges that several algorithms share."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import NamedTuple

import numpy as np

from controller.model.fabric import IntArray
from controller.model.traffic import Int64Array


class Flows(NamedTuple):
    """[F] sender, [F] receiver (positions in the list of ranks), [F] bytes."""

    src: IntArray
    dst: IntArray
    bytes: Int64Array


def around(n: int, size: Fraction) -> Flows:
    """Return ``size`` bytes from each rank to the next, and from the last to the first."""
    if n < 2:
        return alike([], [], size)
    src = np.arange(n, dtype=np.int32)
    return alike(src, (src + 1) % np.int32(n), size)


def every_pair(n: int, size: Fraction) -> Flows:
    """Return ``size`` bytes from each rank to each other."""
    src, dst = np.nonzero(~np.eye(n, dtype=np.bool_))
    return alike(src, dst, size)


def alike(src: IntArray | Int64Array | list[int], dst: IntArray | Int64Array | list[int], size: Fraction) -> Flows:
    """Return ``size`` bytes over each edge; part of a byte counts as a byte."""
    return Flows(
        np.asarray(src, dtype=np.int32), np.asarray(dst, dtype=np.int32), np.full(len(src), ceil(size), dtype=np.int64)
    )


def joined(*parts: Flows) -> Flows:
    """Concatenate the parts."""
    return Flows(
        np.concatenate([part.src for part in parts]),
        np.concatenate([part.dst for part in parts]),
        np.concatenate([part.bytes for part in parts]),
    )
