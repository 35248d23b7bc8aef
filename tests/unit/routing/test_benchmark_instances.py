"""The irregular instances of the benchmarks are fabrics and flows that can be planned."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.plans.instances import odd
from controller.routing import assign
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
@settings(max_examples=examples(20, 120))
def test_irregular_instances_are_planned(seed: int, phases: bool, weights: bool) -> None:
    fabric, traffic = odd(np.random.default_rng(seed), phases=phases, weights=weights)
    assert {cable.lower for cable in fabric.cables} <= {leaf.name for leaf in fabric.leaves}
    validate_assignment(fabric, traffic, assign("greedy", fabric, traffic).assignment)
