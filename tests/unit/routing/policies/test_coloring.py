from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.traffic import Collective
from controller.routing import assign
from controller.routing.kernels.placing import edge_coloring
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of


@st.composite
def multigraphs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:  # type: ignore[type-arg]
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_vertices, n_edges = draw(st.integers(1, 9)), draw(st.integers(1, 150))
    src, dst = rng.integers(0, n_vertices, (2, n_edges)).astype(np.int32)
    return src, dst, n_vertices


def color(src: np.ndarray, dst: np.ndarray, n: int, degree: int, seed: int) -> np.ndarray:  # type: ignore[type-arg]
    order = np.arange(len(src), dtype=np.int32)
    left, n_left = edge_coloring.slots(src, order, n, degree)
    right, n_right = edge_coloring.slots(dst, order, n, degree)
    return edge_coloring.color(left, right, max(n_left, n_right), degree, seed)


@settings(max_examples=examples(75, 450), deadline=None)
@given(multigraphs(), st.integers(1, 40), st.integers(0, 1000))
def test_every_color_has_at_most_the_rounded_up_share_of_every_vertex(
    graph: tuple[np.ndarray, np.ndarray, int],  # type: ignore[type-arg]
    degree: int,
    seed: int,
) -> None:
    src, dst, n = graph
    hue = color(src, dst, n, degree, seed)
    assert ((hue >= 0) & (hue < degree)).all()
    for end in (src, dst):
        count = np.zeros((n, degree), dtype=int)
        np.add.at(count, (end, hue), 1)
        edges = count.sum(axis=1)
        assert (count.max(axis=1) <= -(-edges // degree)).all()
        assert (count.min(axis=1) >= edges // degree).all()


@settings(max_examples=examples(15, 90), deadline=None)
@given(multigraphs(), st.integers(0, 1000))
def test_as_many_colors_as_the_largest_degree_make_every_color_a_matching_as_networkx_sees_it(
    graph: tuple[np.ndarray, np.ndarray, int],  # type: ignore[type-arg]
    seed: int,
) -> None:
    src, dst, n = graph
    degree = int(max(np.bincount(src).max(), np.bincount(dst).max()))
    hue = color(src, dst, n, degree, seed)
    whole = nx.MultiGraph([(f"l{a}", f"r{b}") for a, b in zip(src, dst, strict=True)])
    assert max(d for _, d in whole.degree) == degree
    for c in range(degree):
        edges = {(f"l{a}", f"r{b}") for a, b in zip(src[hue == c], dst[hue == c], strict=True)}
        assert len(edges) == int((hue == c).sum())
        assert nx.is_matching(nx.Graph(whole), edges)


def test_adjacent_loads_of_a_leaf_are_spread_over_all_spines_before_one_is_used_twice() -> None:
    fabric = clos(3, 2, 6)
    sizes = [9, 9, 9, 1, 1, 1]
    traffic = traffic_of([(i, 6 + i, s * 10**6, 0) for i, s in enumerate(sizes)], [Collective("a", "c")])
    paths = assign("coloring", fabric, traffic).assignment.path
    assert sorted(paths[:3].tolist()) == [0, 1, 2]
    assert sorted(paths[3:].tolist()) == [0, 1, 2]
