"""``fair`` against the placements that it starts from, by the flow simulator, for drawn jobs that compute by turns."""

from __future__ import annotations

import pytest

from benchmarks.shared_links import OVERSUBSCRIPTION, SIMPLE, drawn, slowdowns


@pytest.mark.parametrize("oversubscription", OVERSUBSCRIPTION)
@pytest.mark.parametrize("seed", range(2))
def test_iterations_take_at_most_a_200th_longer_than_under_the_best_simple_placement(
    seed: int, oversubscription: int
) -> None:
    fabric, jobs = drawn(seed, oversubscription, hosts=4)
    *simple, ours = slowdowns(fabric, jobs, (*SIMPLE, "fair"), draws=4)
    assert ours <= 1.005 * min(simple)
