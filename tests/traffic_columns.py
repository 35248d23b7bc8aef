"""Traffic from plain columns, for tests that care about some of its columns only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from controller.model.traffic import Collective, Traffic

ONE_COLLECTIVE = (Collective("j", "c"),)


def traffic_of_columns(
    src: ArrayLike,
    dst: ArrayLike,
    udp_src: ArrayLike,
    *,
    size: ArrayLike = 1,
    collective: ArrayLike = 0,
    number: ArrayLike | None = None,
    collectives: Sequence[Collective] = ONE_COLLECTIVE,
) -> Traffic:
    """Return traffic of F flows; ``size`` and ``collective`` may be one value for all, ``number`` counts by default."""
    source = np.asarray(src, np.int32)
    n = len(source)
    return Traffic(
        source,
        np.asarray(dst, np.int32),
        np.broadcast_to(np.asarray(size, np.int64), n),
        np.broadcast_to(np.asarray(collective, np.int32), n),
        np.arange(n, dtype=np.int32) if number is None else np.asarray(number, np.int32),
        np.asarray(udp_src, np.int32),
        tuple(collectives),
    )
