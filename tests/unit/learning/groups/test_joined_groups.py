"""Groups that only together have a shape are joined; others stay as they are."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.groups import groups_of, joined
from controller.learning.learned_job import LearnedGroup
from controller.learning.sightings import QpKey

SIZE = 10**9
SHAPES = st.sampled_from(["ring", "direct"])


def keys_of(shape: str, hosts: list[int]) -> list[QpKey]:
    """Return the QPs of a ring, or of each host to each other one."""
    edges = [(a, b) for a in hosts for b in hosts if a != b]
    if shape == "ring":
        edges = list(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    return [QpKey(a, b, 49152 + n, n) for n, (a, b) in enumerate(edges)]


def groups(keys: list[QpKey], phase: int = 0, size: int = SIZE) -> list[LearnedGroup]:
    return groups_of(keys, np.full(len(keys), float(size)), phase)


@given(SHAPES, st.integers(3, 8), st.integers(2, 4), st.randoms(use_true_random=False))
def test_a_shape_whose_qps_are_taken_for_several_clusters_is_one_group(
    shape: str, n: int, clusters: int, rng: random.Random
) -> None:
    keys = keys_of(shape, rng.sample(range(100), n))
    of = [rng.randrange(clusters) for _ in keys]
    parts = [
        each
        for k in range(clusters)
        if k in of
        for each in groups([q for q, c in zip(keys, of, strict=True) if c == k])
    ]
    rng.shuffle(parts)
    whole = joined(parts)
    assert sorted(key for group in whole for key in group.qps) == sorted(keys)
    if all(part.shape == "flows" for part in parts):
        assert whole == tuple(groups(keys))


@given(st.lists(SHAPES, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_groups_with_a_shape_stay_as_they_are_also_where_they_share_hosts(
    shapes: list[str], rng: random.Random
) -> None:
    made = [each for shape in shapes for each in groups(keys_of(shape, rng.sample(range(12), rng.randint(3, 6))))]
    assert joined(made) == tuple(sorted(made, key=lambda group: (group.phase, group.qps)))


@given(st.integers(3, 8), st.sampled_from([(1, SIZE), (0, SIZE // 2)]))
def test_parts_of_other_phases_or_bytes_are_not_joined(n: int, other: tuple[int, int]) -> None:
    keys = keys_of("ring", list(range(n)))
    parts = [*groups(keys[:1]), *groups(keys[1:], *other)]
    assert set(joined(parts)) == set(parts)


def test_what_has_no_shape_together_stays_apart() -> None:
    keys = keys_of("ring", list(range(5)))[:-1]
    parts = [*groups(keys[:2]), *groups(keys[2:])]
    assert joined(parts) == tuple(parts)
