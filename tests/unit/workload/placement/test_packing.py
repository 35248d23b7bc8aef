"""Blocks in pools of limited size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import IntArray
from controller.workload.placement.packing import Affinity, grow, pack, refine


@st.composite
def cases(draw: st.DrawFn) -> tuple[Affinity, IntArray]:
    """Random talk, and pools with room for all."""
    n = draw(st.integers(0, 12))
    capacity = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    while sum(capacity) < n:
        capacity.append(draw(st.integers(1, 6)))
    talk = draw(
        st.lists(st.tuples(*[st.integers(0, max(n - 1, 0))] * 2, st.integers(0, 1000)), max_size=40 if n else 0)
    )
    src, dst, sent = (
        np.array(column, dtype=np.int64) for column in (zip(*talk, strict=True) if talk else ([], [], []))
    )
    return Affinity.of(n, src, dst, sent), np.array(capacity, dtype=np.int32)


def cut(affinity: Affinity, pool: IntArray) -> float:
    return float(affinity.bytes[pool[affinity.first] != pool[affinity.second]].sum()) / 2


def fits(pool: IntArray, capacity: IntArray) -> bool:
    return bool((np.bincount(pool, minlength=len(capacity)) <= capacity).all())


@pytest.mark.parametrize("method", [pack, grow])
@given(case=cases())
def test_every_block_gets_a_pool_and_no_pool_gets_too_many(
    method: Callable[[Affinity, IntArray], IntArray], case: tuple[Affinity, IntArray]
) -> None:
    affinity, capacity = case
    pool = method(affinity, capacity)
    assert len(pool) == affinity.n
    assert fits(pool, capacity)


@given(case=cases(), data=st.data())
def test_refining_never_lets_more_be_said_between_pools(case: tuple[Affinity, IntArray], data: st.DataObject) -> None:
    affinity, capacity = case
    places = np.repeat(np.arange(len(capacity), dtype=np.int32), capacity)
    start = places[data.draw(st.permutations(range(len(places))))][: affinity.n]
    after = refine(affinity, start, capacity)
    assert fits(after, capacity)
    assert cut(affinity, after) <= cut(affinity, start)


@given(case=cases())
def test_what_is_said_both_ways_is_added_up_and_talk_to_oneself_left_out(case: tuple[Affinity, IntArray]) -> None:
    affinity, capacity = case
    everything = np.stack([affinity.row(block) for block in range(affinity.n)]) if affinity.n else np.zeros((0, 0))
    assert (everything == everything.T).all()
    assert (np.diag(everything) == 0).all()
    one_pool = np.zeros(affinity.n, dtype=np.int32)
    assert affinity.to_pools(one_pool, len(capacity))[:, 0].tolist() == everything.sum(axis=1).tolist()


@given(order=st.permutations(range(24)))
def test_a_ring_is_cut_into_arcs_whatever_its_order(order: list[int]) -> None:
    ring = np.array(order, dtype=np.int64)
    affinity = Affinity.of(24, ring, np.roll(ring, -1), np.full(24, 10))
    capacity = np.full(5, 6, dtype=np.int32)
    assert cut(affinity, grow(affinity, capacity)) == 4 * 10


@given(order=st.permutations(range(12)))
def test_cliques_stay_together_whatever_their_order(order: list[int]) -> None:
    members = np.array(order, dtype=np.int64).reshape(3, 4)
    src = np.repeat(members, 4, axis=1).ravel()
    dst = np.tile(members, (1, 4)).ravel()
    # A little talk between the cliques, which must not mislead.
    src, dst = np.append(src, members[:, 0]), np.append(dst, np.roll(members[:, 1], 1))
    sent = np.append(np.full(48, 100), [1, 1, 1])
    affinity = Affinity.of(12, src, dst, sent)
    for method in (pack, grow):
        assert cut(affinity, method(affinity, np.full(3, 4, dtype=np.int32))) == 3
