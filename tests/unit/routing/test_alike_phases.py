"""Phases that load the network alike: which are, and what plans and paces make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, assign
from controller.routing.objective.fairness import compare_levels, evaluate
from controller.routing.pacing.paces import wire_paces
from controller.routing.problem.alike_phases import first_alike, for_all, kept_rows
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of

FABRIC = clos(4, 4, 8)


def rings(seed: int, jobs: int, phases: int, *, factor: int = 1) -> Traffic:
    """Rings on drawn hosts; each sends over its edges in every phase, ``factor`` times as much as in the one before."""
    hosts = np.random.default_rng(seed).permutation(FABRIC.n_hosts).reshape(jobs, -1).tolist()
    rows = [Collective(f"j{j}", f"p{p}", phase=p) for j in range(jobs) for p in range(phases)]
    flows = [
        (src, dst, 10**6 * factor**p, j * phases + p)
        for j, own in enumerate(hosts)
        for p in range(phases)
        for src, dst in zip(own, own[1:] + own[:1], strict=True)
    ]
    return traffic_of(flows, rows)


@settings(max_examples=examples(8, 150), deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([1, 2, 4]), st.integers(2, 3), st.integers(1, 3), st.sampled_from([0, 8]))
def test_alike_phases_have_the_same_paths_and_the_levels_and_paces_of_one(
    seed: int, jobs: int, phases: int, factor: int, splits: int
) -> None:
    traffic = rings(seed, jobs, phases, factor=factor)
    first = first_alike(traffic)
    assert first is not None
    np.testing.assert_array_equal(traffic.src[first], traffic.src)
    np.testing.assert_array_equal(traffic.dst[first], traffic.dst)
    assert (traffic.phase[traffic.collective[first]] == 0).all()
    options = Options(max_splits=splits)
    plan = assign("fair", FABRIC, traffic, options=options).assignment
    row = kept_rows(first, plan)
    assert row is not None
    np.testing.assert_array_equal(plan.path[row], plan.path)
    # Levels and paces are those of jobs that have the first phase alone.
    once = rings(seed, jobs, 1)
    begins = np.flatnonzero(traffic.phase[traffic.collective[plan.flow]] == 0)
    number = np.cumsum(first == np.arange(traffic.n_flows)) - 1
    part = Assignment(number[plan.flow[begins]].astype(np.int32), plan.path[begins], plan.share[begins])
    speed = evaluate(FABRIC, once, part).speed
    assert compare_levels(np.repeat(speed, phases), evaluate(FABRIC, traffic, plan).speed) == 0
    paces = wire_paces(FABRIC, once, part)
    np.testing.assert_allclose(wire_paces(FABRIC, traffic, plan)[begins], paces, rtol=10 * TOLERANCE)
    np.testing.assert_array_equal(wire_paces(FABRIC, traffic, plan)[row], wire_paces(FABRIC, traffic, plan))


@settings(max_examples=examples(8, 100), deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 3))
def test_what_stands_for_flows_is_given_to_all_of_them(seed: int, phases: int) -> None:
    traffic = rings(seed, 2, phases)
    first = first_alike(traffic)
    assert first is not None
    kept = np.flatnonzero(first == np.arange(traffic.n_flows))
    part = assign("split", FABRIC, traffic.of_flows(kept), options=Options(max_splits=None)).assignment
    whole = for_all(first, kept, part)
    for flow in range(traffic.n_flows):
        mine, its = whole.flow == flow, kept[part.flow] == first[flow]
        np.testing.assert_array_equal(whole.path[mine], part.path[its])
        np.testing.assert_array_equal(whole.share[mine], part.share[its])


def _other_bytes(traffic: Traffic) -> Traffic:
    size = traffic.bytes.copy()
    size[-1] *= 2
    return dataclasses.replace(traffic, bytes=size)


def _with(traffic: Traffic, **fields: object) -> Traffic:
    rows = traffic.collectives
    return dataclasses.replace(traffic, collectives=(*rows[:-1], dataclasses.replace(rows[-1], **fields)))  # type: ignore[arg-type]


def _one_port(traffic: Traffic) -> Traffic:
    return dataclasses.replace(traffic, udp_src=np.zeros_like(traffic.udp_src))


@pytest.mark.parametrize(
    "unlike",
    [
        _other_bytes,
        lambda traffic: _with(traffic, timing=JobTiming(compute=((1, 0.1),))),
        lambda traffic: _with(traffic, in_turns=True),
        lambda traffic: _with(traffic, priority=1),
        lambda traffic: _with(traffic, phase=0),
        _one_port,
    ],
    ids=["other bytes", "computing", "flows in turns", "another class", "the same phase", "flows of one port"],
)
def test_other_phases_keep_paths_of_their_own(unlike) -> None:  # type: ignore[no-untyped-def]
    assert first_alike(rings(1, 1, 2)) is not None
    assert first_alike(unlike(rings(1, 1, 2))) is None


def test_alike_flows_on_other_paths_are_not_taken_as_one() -> None:
    traffic = rings(3, 2, 2)
    first = first_alike(traffic)
    assert first is not None
    drawn = assign("random", FABRIC, traffic, seed=1).assignment
    assert kept_rows(first, drawn) is None
    # The jobs meet, and it is not known in which phases.
    assert np.isnan(wire_paces(FABRIC, traffic, drawn)).all()
