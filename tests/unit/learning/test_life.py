"""Learned jobs appear when it is sure that they are there, keep their volumes, and go when they are silent."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.life import AGREEING, DIFFERENT, LEAST_SILENCE, LearnedLife
from controller.learning.sightings import QpKey
from controller.model.traffic import ANY_PORT
from controller.workload.job_file import parse_job

QPS = tuple(QpKey(i, (i + 1) % 4, 49152 + i, i) for i in range(4))


def job(iterations: int = 5, size: int = 1000, seen: float = 0.0, period: float = 1.0) -> LearnedJob:
    group = LearnedGroup(0, "ring", QPS, (size,) * len(QPS))
    return LearnedJob(period, iterations, (group,), (0.4,), 1.0, seen, seen)


@given(st.integers(0, 10))
def test_a_job_appears_after_three_iterations(iterations: int) -> None:
    life = LearnedLife()
    life.step([job(iterations)], 0.0)
    assert bool(life.jobs) == (iterations >= AGREEING)


def test_a_job_without_a_period_appears_after_three_looks() -> None:
    life = LearnedLife()
    counts = []
    for at in range(AGREEING):
        life.step([job(0, period=0.0, seen=float(at))], float(at))
        counts.append(len(life.jobs))
    assert counts == [0] * (AGREEING - 1) + [1]


@pytest.mark.parametrize(("period", "stays"), [(1.0, LEAST_SILENCE), (10.0, 50.0)])
def test_a_silent_job_is_forgotten(period: float, stays: float) -> None:
    life = LearnedLife()
    life.step([job(period=period)], 0.0)
    life.step([], stays - 0.1)
    assert len(life.jobs) == 1
    life.step([], stays + 0.1)
    assert not life.jobs


@given(st.lists(st.integers(985, 1015), max_size=30))
def test_volumes_that_drift_a_little_stay(sizes: list[int]) -> None:
    life = LearnedLife()
    life.step([job()], 0.0)
    (first,) = life.jobs.values()
    for at, size in enumerate(sizes):
        life.step([job(size=size, seen=float(at))], float(at))
        (now,) = life.jobs.values()
        assert now.groups == first.groups
        assert now.seen == float(at)


def test_another_volume_is_taken_after_three_looks() -> None:
    life = LearnedLife()
    life.step([job()], 0.0)
    sizes = []
    for at in range(DIFFERENT):
        life.step([job(size=2000)], float(at))
        sizes.append(next(iter(life.jobs.values())).groups[0].bytes[0])
    assert sizes == [1000] * (DIFFERENT - 1) + [2000]


def test_other_groups_are_taken_after_three_looks() -> None:
    life = LearnedLife()
    parts = tuple(LearnedGroup(0, "flows", qps, (1000,) * len(qps)) for qps in (QPS[:1], QPS[1:]))
    life.step([dataclasses.replace(job(), groups=parts)], 0.0)
    shapes = []
    for at in range(DIFFERENT):
        life.step([job()], float(at))
        shapes.append([group.shape for one in life.jobs.values() for group in one.groups])
    assert shapes == [["flows", "flows"]] * (DIFFERENT - 1) + [["ring"]]


def test_volumes_of_a_second_are_replaced_as_soon_as_iterations_show() -> None:
    life = LearnedLife()
    for at in range(AGREEING):
        life.step([job(0, size=70, period=0.0)], float(at))
    assert [group.bytes[0] for one in life.jobs.values() for group in one.groups] == [70]
    life.step([job()], float(AGREEING))
    assert [group.bytes[0] for one in life.jobs.values() for group in one.groups] == [1000]


def test_a_job_that_is_not_found_while_its_hosts_have_another_one_has_ended() -> None:
    life = LearnedLife()
    life.step([job()], 0.0)
    keys = tuple(QpKey(key.dst, key.src, 50000, 7) for key in QPS)
    new = dataclasses.replace(job(), groups=(LearnedGroup(0, "ring", keys, (5,) * len(keys)),))
    elsewhere = tuple(QpKey(key.src + 100, key.dst + 100, 50000, 7) for key in QPS)
    beside = dataclasses.replace(job(), groups=(LearnedGroup(0, "ring", elsewhere, (5,) * len(keys)),))
    life.step([beside], 1.0)
    assert set(life.jobs) == {job().name, beside.name}
    life.step([beside, new], 2.0)
    assert set(life.jobs) == {new.name, beside.name}


def test_a_job_whose_qps_send_otherwise_now_makes_room_for_the_new_one() -> None:
    life = LearnedLife()
    life.step([job()], 0.0)
    other = QPS[::-1]
    ring = LearnedGroup(0, "flows", (*other[:2], QpKey(9, 1, 50000, 3)), (5, 5, 5))
    new = dataclasses.replace(job(), groups=(ring,))
    life.step([new], 5.0)
    assert list(life.jobs) == [new.name]


def test_a_forgotten_job_appears_again() -> None:
    life = LearnedLife()
    life.step([job()], 0.0)
    life.forget(job().name)
    assert not life.jobs
    life.step([job()], 1.0)
    assert list(life.jobs) == [job().name]


def test_qps_that_no_switch_can_tell_apart_are_one_flow_of_the_document() -> None:
    alike = QpKey(0, 1, 49152, 99)
    groups = (LearnedGroup(0, "ring", QPS, (1000,) * len(QPS)), LearnedGroup(1, "flows", (alike,), (500,)))
    made = LearnedJob(1.0, 5, groups, (0.4, 0.1), 1.0, 0.0, 0.0)
    parsed = parse_job(made.document(lambda address: f"h{address + 1}"))
    assert sorted(parsed.flows.bytes.tolist()) == [1000, 1000, 1000, 1500]


def test_where_the_port_of_one_qp_is_not_known_hosts_alone_tell_the_flows_of_the_job_apart() -> None:
    unknown = QpKey(1, 0, ANY_PORT, 7)
    groups = (LearnedGroup(0, "ring", QPS, (1000,) * len(QPS)), LearnedGroup(1, "flows", (unknown,), (500,)))
    made = LearnedJob(1.0, 5, groups, (0.4, 0.1), 1.0, 0.0, 0.0)
    parsed = parse_job(made.document(lambda address: f"h{address + 1}"))
    assert not parsed.ports_known
    hosts = {(f"h{key.src + 1}", f"h{key.dst + 1}") for key in (*QPS, unknown)}
    assert set(zip(parsed.flows.src, parsed.flows.dst, strict=True)) == hosts
    assert len(parsed.flows.bytes) == len(hosts)
    assert parsed.flows.bytes.sum() == 1000 * len(QPS) + 500
