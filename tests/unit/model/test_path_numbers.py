"""The names of the links of a path lead back to its number, on fabrics of two and three layers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.paths.path_numbers import PathNumbers
from tests.unit.laws import examples
from tests.unit.routing.instances import random_fabric
from tests.unit.routing.pod_fabrics import random_pods


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_pods(rng) if draw(st.booleans()) else random_fabric(rng)


@settings(deadline=None, max_examples=examples(50, 300))
@given(fabrics())
def test_the_links_of_each_path_have_its_number(fabric: Fabric) -> None:
    numbers = PathNumbers.of(fabric)
    one_host = dict(zip(fabric.host_leaf.tolist(), range(fabric.n_hosts), strict=True))
    for src in one_host.values():
        for dst in one_host.values():
            ends = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
            for path in fabric.ways.between(*ends).tolist() if ends[0] != ends[1] else []:
                names = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, path)]
                assert numbers.number(names) == path


def test_links_that_are_no_path_between_leaves_have_none() -> None:
    numbers = PathNumbers.of(random_pods(np.random.default_rng(0), healthy=True))
    for links in ([], ["a"], ["h1->leaf1", "leaf1->h2"], ["h1->leaf1", "leaf1->nobody", "nobody->leaf2", "leaf2->h2"]):
        assert numbers.number(links) is None
