"""A plan of jobs whose groups were guessed wrong is still better than hashing, if it knows all flows."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.traffic import Collective, Traffic
from controller.routing import assign
from controller.routing.objective.fairness import evaluate
from tests.unit.laws import examples

FABRIC = clos(8, 4, 4)
HASHES = 5


def rings(rng: np.random.Generator, count: int) -> Traffic:
    """Return disjoint rings over random hosts, of different volumes."""
    hosts = rng.permutation(FABRIC.n_hosts).reshape(count, -1)
    src, dst = (each.ravel().astype(np.int32) for each in (hosts, np.roll(hosts, -1, axis=1)))
    of = np.repeat(np.arange(count, dtype=np.int32), hosts.shape[1])
    number = np.arange(len(src), dtype=np.int32)
    size = rng.integers(1, 9, count)[of] * 10**9
    names = tuple(Collective(f"job{k}", "ring") for k in range(count))
    return Traffic(src, dst, size, of, number, number + np.int32(49152), names)


def misgrouped(traffic: Traffic, rng: np.random.Generator, part: float) -> Traffic:
    """Return the same flows, of which some are taken for members of another group, or of one phase more."""
    of = traffic.collective.copy()
    wrong = rng.random(traffic.n_flows) < part
    of[wrong] = rng.integers(0, len(traffic.collectives), int(wrong.sum()))
    return dataclasses.replace(traffic, collective=of)


@settings(max_examples=examples(20, 120), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 4]), st.floats(0, 1))
def test_a_wrong_group_is_never_worse_than_hashing(seed: int, count: int, part: float) -> None:
    rng = np.random.default_rng(seed)
    true = rings(rng, count)
    believed = misgrouped(true, rng, part)
    planned = evaluate(FABRIC, true, assign("fair", FABRIC, believed).assignment).min_speed
    hashed = [
        evaluate(FABRIC, true, assign("ecmp", FABRIC, true, seed=seed).assignment).min_speed for seed in range(HASHES)
    ]
    assert planned >= np.median(hashed) * (1 - 1e-6)
