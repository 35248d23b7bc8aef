"""Learned groups are those of the jobs that were drawn: the F1 score over pairs of QPs in one group."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.learned_job import LearnedJob
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, Transfers, edges, exchange, polled_counters, sampled_packets

GB = 1_000_000_000
Group = frozenset[QpKey]


def pairs(groups: Iterable[Collection[QpKey]]) -> set[Group]:
    return {frozenset(two) for group in groups for two in combinations(group, 2)}


def f1(true: Iterable[Group], jobs: Iterable[LearnedJob]) -> float:
    """Return the harmonic mean of precision and recall of the pairs of QPs that are in one group."""
    wanted, found = pairs(true), pairs(group.qps for job in jobs for group in job.groups)
    return 2 * len(wanted & found) / (len(wanted) + len(found))


def see(odometers: Odometers, parts: Iterable[Transfers], draw: Draw, by: str, seed: int) -> None:
    """Add what a feeder sees of transfers that run in the same iterations."""
    for part in parts:
        # The same seed: one job's iterations are as long for all of its transfers.
        rng = np.random.default_rng(seed)
        sampled = by == "samples"
        odometers.add(sampled_packets(part, draw, rng) if sampled else polled_counters(part, draw, 0.05, rng))


def ring_of(hosts: Iterable[int], size: int, begin: float, end: float, *, first_qp: int) -> Transfers:
    order = list(hosts)
    return edges(list(zip(order, order[1:] + order[:1], strict=True)), size, begin, end, first_qp=first_qp)


@pytest.mark.parametrize("by", ["samples", "readings"])
@settings(max_examples=examples(12, 75), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.floats(0.5, 1.0), st.floats(0.4, 0.8))
def test_disjoint_rings_that_pause_long_enough_are_learned_as_their_groups(
    by: str, seed: int, count: int, period: float, idle: float
) -> None:
    """The 64 sightings that are kept of a QP must show two pauses at least, and those of three QPs no short ones."""
    rng = np.random.default_rng(seed)
    odometers, true = Odometers(), []
    for number in range(count):
        hosts = 100 * number + rng.permutation(int(rng.integers(3, 17)))
        size = int(rng.integers(2, 9)) * GB
        own = period * rng.uniform(1, 2)
        part = ring_of(hosts.tolist(), size, idle * own, own, first_qp=100 * number)
        draw = Draw(own, 10, period_jitter=0.03, bytes_jitter=0.01, sampling=20_000, loss=0.1)
        see(odometers, [part], draw, by, number)
        true.append(frozenset(part.keys))
    assert f1(true, infer(odometers, -500.0, rng)) >= 0.99


def mixed(rng: np.random.Generator, period: float, phases: int) -> list[Transfers]:
    """Return transfers of which each phase has its own: a ring in an order of its own, or an all-to-all."""
    begins = period * np.arange(phases) / phases
    hosts = int(rng.integers(4, 13))
    found = []
    for number, begin in enumerate(begins.tolist()):
        size, end = int(rng.integers(2, 9)) * GB, begin + period / phases * rng.uniform(0.3, 0.7)
        if number and rng.random() < 0.3:
            found.append(exchange(range(hosts), size, begin, end, first_qp=1000 * number))
        else:
            order = rng.permutation(hosts).tolist()
            found.append(ring_of(order, size, begin, end, first_qp=1000 * number))
    return found


@pytest.mark.parametrize("by", ["samples", "readings"])
@pytest.mark.parametrize("phases", [2, 3, 4])
def test_phases_of_the_same_hosts_are_learned_as_their_groups(by: str, phases: int) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        period = float(rng.uniform(1, 4))
        parts = mixed(rng, period, phases)
        odometers = Odometers()
        draw = Draw(period, 10, period_jitter=0.03, bytes_jitter=0.01, sampling=20_000, loss=0.1)
        see(odometers, parts, draw, by, seed)
        assert f1([frozenset(part.keys) for part in parts], infer(odometers, -500.0, rng)) >= 0.95
