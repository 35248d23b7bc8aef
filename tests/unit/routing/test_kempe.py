from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.paths.ways import Tier
from controller.routing.kernels.lookup import first_rows
from controller.routing.kernels.placing import kempe
from tests.unit.laws import examples


@st.composite
def crowds(draw: st.DrawFn) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """A proper plan of alike units on L leaves and K classes; some units have lost their place."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_leaves, n_paths = draw(st.integers(2, 7)), draw(st.integers(1, 8))
    # As many permutations of the leaves as there are classes: everybody can have a slot.
    src = np.tile(np.arange(n_leaves, dtype=np.int32), n_paths)
    dst = np.concatenate([rng.permutation(n_leaves) for _ in range(n_paths)]).astype(np.int32)
    path = np.repeat(np.arange(n_paths, dtype=np.int32), n_leaves)
    kept = rng.random(len(src)) < draw(st.floats(0.2, 1.0))
    path[rng.random(len(src)) < draw(st.floats(0.0, 1.0))] = -1
    order = rng.permutation(int(kept.sum()))
    up = np.arange(n_leaves * n_paths, dtype=np.int32).reshape(n_leaves, n_paths)
    return src[kept][order], dst[kept][order], up, up + n_leaves * n_paths, path[kept][order]


def users(path: np.ndarray, src: np.ndarray, dst: np.ndarray) -> list[int]:  # type: ignore[type-arg]
    placed = path >= 0
    return [
        int(np.unique(np.stack([end[placed], path[placed]]), axis=1, return_counts=True)[1].max(initial=0))
        for end in (src, dst)
    ]


@settings(max_examples=examples(100, 600), deadline=None)
@given(crowds())
def test_where_all_units_fit_every_one_gets_a_slot_of_its_own(case: tuple[np.ndarray, ...]) -> None:  # type: ignore[type-arg]
    src, dst, up, down, before = case
    path = before.copy()
    kempe.insert(src, dst, Tier(up, down), path)
    assert (path >= 0).all()
    assert max(users(path, src, dst)) <= 1


@settings(max_examples=examples(100, 600), deadline=None)
@given(crowds(), st.floats(0.0, 0.6), st.integers(0, 2**32 - 1))
def test_no_unit_is_placed_on_a_dead_link_and_no_slot_is_used_twice(
    case: tuple[np.ndarray, ...],  # type: ignore[type-arg]
    dead: float,
    seed: int,
) -> None:
    src, dst, up, down, before = case
    rng = np.random.default_rng(seed)
    up, down = (np.where(rng.random(table.shape) < dead, np.int32(-1), table) for table in (up, down))
    path = before.copy()
    kempe.insert(src, dst, Tier(up, down), path)
    live = (path >= 0) & (up[src, path] >= 0) & (down[dst, path] >= 0)
    assert ((path == before) | live).all(), "whoever moves gets a live path"
    had = (before >= 0) & (up[src, before] >= 0) & (down[dst, before] >= 0)
    assert live[had].all(), "whoever had a live path still has one"
    on = np.where(live, path, np.int32(-1))
    assert max(users(on, src, dst)) <= 1


def test_of_two_units_on_one_link_the_second_moves_if_there_is_a_slot_and_stays_if_there_is_none() -> None:
    src, dst = np.array([0, 0], np.int32), np.array([1, 1], np.int32)
    for n_paths, after in ((2, [0, 1]), (1, [0, 0])):
        up = np.arange(2 * n_paths, dtype=np.int32).reshape(2, n_paths)
        path = np.zeros(2, np.int32)
        kempe.insert(src, dst, Tier(up, up + 2 * n_paths), path)
        assert path.tolist() == after


def test_it_is_for_alike_units_and_links_with_room_for_one_only() -> None:
    up = np.arange(4, dtype=np.int32).reshape(2, 2)
    gbps = np.full(8, 100.0)
    assert kempe.one_slot(np.full(3, 100.0), Tier(up, up + 4), gbps)
    assert kempe.one_slot(np.full(3, 60.0), Tier(up, up + 4), gbps)
    assert not kempe.one_slot(np.full(3, 50.0), Tier(up, up + 4), gbps), "two fit"
    assert not kempe.one_slot(np.full(3, 101.0), Tier(up, up + 4), gbps), "none fits"
    assert not kempe.one_slot(np.array([90.0, 100.0]), Tier(up, up + 4), gbps), "not alike"
    assert not kempe.one_slot(np.zeros(0), Tier(up, up + 4), gbps)


@settings(max_examples=examples(100, 600), deadline=None)
@given(st.lists(st.integers(0, 2**62)), st.lists(st.integers(0, 2**62)), st.integers(0, 2**32 - 1))
def test_a_key_is_found_at_its_first_row_and_an_unknown_one_nowhere(
    keys: list[int], more: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    key = np.sort(np.array(keys + keys[: len(keys) // 2], dtype=np.int64))
    wanted = rng.permutation(np.array(keys + more, dtype=np.int64))
    row = first_rows(key, wanted)
    at = np.searchsorted(key, wanted)
    known = np.isin(wanted, key)
    np.testing.assert_array_equal(row, np.where(known, at, -1))
