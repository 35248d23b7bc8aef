"""Components are those of the graph."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.paths.grouping import components


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60))
def test_components_are_those_of_networkx(n: int, pairs: list[tuple[int, int]]) -> None:
    pairs = [(a, b) for a, b in pairs if a < n and b < n]
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(pairs)
    a, b = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    label = components(a, b, n)
    assert {frozenset(np.flatnonzero(label == name).tolist()) for name in set(label.tolist())} == {
        frozenset(part) for part in nx.connected_components(graph)
    }
    assert all(label[node] <= node for node in range(n))


def test_long_chains_take_few_rounds() -> None:
    n = 100_000
    chain = np.arange(n - 1, dtype=np.int32)
    assert (components(chain, chain + 1, n) == 0).all()
