"""Measures of how unevenly the links of a layer are used.

FlowTracer (arXiv 2410.17078) measures ECMP by a flow imbalance metric of each layer of a leaf-spine network. The metric
here is the mean over the layer's links of ``|n - mean| / mean``, where n is the load of a link: twice the fraction of
all flows that would have to move for an even load. Two common measures complement it: the maximum load over the mean,
which tells how much slower the slowest link is than under an even load, and the coefficient of variation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.fabric import FloatArray


@dataclass(frozen=True)
class Imbalance:
    """Three measures of one layer; 0, 1 and 0 where all links carry the same (or nothing).

    Attributes:
        fim: mean of |n - mean| / mean; from 0 to 2 (links - 1) / links.
        max_over_mean: from 1 to the number of links.
        cv: standard deviation (of all links, not of a sample) over mean; from 0 to the root of (links - 1).
    """

    fim: float = 0.0
    max_over_mean: float = 1.0
    cv: float = 0.0


def imbalance(load: FloatArray | Sequence[float]) -> Imbalance:
    """Return the imbalance of a layer's links.

    >>> imbalance([2, 0, 1, 1])
    Imbalance(fim=0.5, max_over_mean=2.0, cv=0.7071067811865476)

    Args:
        load: [N] load of each link, at least 0, in any unit: only ratios count.
    """
    each = np.asarray(load, dtype=np.float64)
    heaviest = float(each.max(initial=0.0))
    if heaviest <= 0:
        return Imbalance()
    # Scale to at most 1, so that sums of huge or tiny loads do not overflow or underflow.
    each = each / heaviest
    mean = float(each.mean())
    return Imbalance(
        fim=float(np.abs(each - mean).mean() / mean),
        max_over_mean=max(1.0, 1.0 / mean),
        cv=float(each.std() / mean),
    )
