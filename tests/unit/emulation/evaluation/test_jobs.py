from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.workload.job_document import document_of
from controller.workload.job_file import parse_job
from emulation.evaluation.data_files import folder_of, jobs_of_folder
from emulation.evaluation.generator import SHAPES, Mix, generate
from emulation.evaluation.timed_job import TimedJob, scaled, sending_at_once, simulated_jobs
from tests.unit.laws import examples

PAPER = clos(32, 64, 32)


def test_the_shapes_send_the_bytes_a_step_that_the_files_of_the_paper_have() -> None:
    steps = {name: [-(-shape.ring_bytes // n) for n in (2, 4, 8)] for name, shape in SHAPES.items()}
    assert steps["GPT_3"] == [5_468_750_000, 2_734_375_000, 1_367_187_500]
    assert steps["BLOOM"] == [7_333_333_334, 3_666_666_667, 1_833_333_334]
    assert steps["LLaMA2_70B"][:2] == [1_093_750_000, 546_875_000]


@settings(max_examples=examples(20, 120), deadline=None)
@given(
    st.integers(1, 5),
    st.sampled_from([2, 4, 8]),
    st.integers(0, 2**31),
    st.sampled_from(["leaves", "scattered"]),
    st.booleans(),
    st.sampled_from([0, 10**6]),
)
def test_generated_jobs_have_hosts_of_their_own_and_rings_over_all_of_them(
    jobs: int, ring: int, seed: int, placement: str, unequal: bool, to_all: int
) -> None:
    made = generate(PAPER, Mix(jobs, ring, placement=placement, unequal=unequal, all_to_all=to_all), 3, seed)  # type: ignore[arg-type]
    assert len(made) == jobs
    used = Counter(host for each in made for host in each.job.hosts)
    assert set(used.values()) == {1}
    for each in made:
        rings = [call for call in each.job.collectives if call.op == "all_reduce"]
        assert sorted(rank for call in rings for rank in call.ranks) == list(range(len(each.job.hosts)))
        assert len({len(call.ranks) for call in rings}) == 1
        assert 2 <= len(rings[0].ranks) <= ring


def test_equal_seeds_give_equal_jobs_and_others_others() -> None:
    def documents(seed: int) -> list:
        return [(document_of(each.job), each.start) for each in generate(PAPER, Mix(3, 4), 2, seed)]

    assert documents(1) == documents(1)
    assert documents(1) != documents(2)


@pytest.mark.parametrize("placement", ["leaves", "scattered"])
def test_jobs_are_drawn_on_nics_whatever_the_number_of_their_ports(placement: str) -> None:
    one, two = (clos(4, 24, 16, planes=planes) for planes in (1, 2))
    mix = Mix(2, 3, models=("LLaMA2_70B", "GPT_3"), placement=placement)  # type: ignore[arg-type]
    drawn = [[document_of(each.job) for each in generate(fabric, mix, 2, 7)] for fabric in (one, two)]
    assert drawn[0] == drawn[1]


def test_a_replica_fills_leaf_after_leaf_as_in_the_files() -> None:
    made = generate(PAPER, Mix(1, 4, models=("GPT_3",)), 1, 5)[0]
    leaves = Counter(PAPER.host_leaf[PAPER.host_index[host]] for host in made.job.hosts)
    assert sorted(leaves.values()) == [32] * 8


def test_jobs_that_come_and_go_have_a_half_to_all_of_the_epochs() -> None:
    made = generate(PAPER, Mix(5, 2, come_and_go=20.0), 10, 5)
    assert all(5 <= each.epochs <= 10 and 0 <= each.start <= 20 for each in made)


def test_a_fabric_that_is_too_small_is_reported() -> None:
    with pytest.raises(InputError, match="too few"):
        generate(clos(4, 4, 4), Mix(1, 2), 1, 0)


def test_a_ring_of_one_is_reported() -> None:
    with pytest.raises(InputError, match="at least two hosts"):
        generate(PAPER, Mix(1, 1, unequal=True), 1, 0)


@pytest.mark.parametrize("seed", range(8))
def test_where_room_is_short_rings_get_smaller_but_never_to_a_single_host(seed: int) -> None:
    made = generate(clos(4, 24, 16), Mix(2, 3, models=("LLaMA2_70B", "GPT_3")), 1, seed)
    assert {len(each.job.collectives[0].ranks) for each in made} <= {2, 3}


def test_the_files_of_the_paper_give_rings_with_steps_and_times(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, 1, 2)
    folder.mkdir(parents=True)
    # Two leaves, two spines, two hosts a leaf: hosts are nodes 4 to 7.
    (folder / "job_0-X.txt").write_text(
        "#src dst src_tor dst_tor start_time flow_size compute_time stage_index\n"
        "4 6 0 1 2500000000 1000 1500000000 0\n"
        "6 4 1 0 2500000000 1000 1500000000 0\n"
    )
    fabric = clos(2, 2, 2)
    (timed,) = jobs_of_folder(fabric, folder, 7)
    assert (timed.start, timed.compute_seconds, timed.epochs) == (2.5, 1.5, 7)
    (made,) = simulated_jobs(fabric, [timed])
    assert made.schedule.repeat.tolist() == [2]
    np.testing.assert_array_equal(made.schedule.bytes, [1000, 1000])
    assert [fabric.host_names[host] for host in made.traffic.src.tolist()] == ["h1", "h3"]


def test_a_folder_without_files_or_for_another_fabric_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no traffic file"):
        jobs_of_folder(PAPER, tmp_path, 1)
    (tmp_path / "job_0.txt").write_text("4 6 0 1 0 1000 0 0\n6 4 1 0 0 1000 0 0\n")
    with pytest.raises(InputError, match=r"job_0\.txt"):
        jobs_of_folder(PAPER, tmp_path, 1)


def test_two_jobs_of_one_name_are_reported_with_the_second_ones_file() -> None:
    job = generate(PAPER, Mix(1, 2), 1, 0)[0].job
    with pytest.raises(InputError, match=r"b\.yaml: name: .*has this name"):
        simulated_jobs(PAPER, [TimedJob(job, source="a.yaml"), TimedJob(job, source="b.yaml")])


def test_a_job_computes_as_it_says_before_each_phase_unless_the_scenario_says_otherwise() -> None:
    calls = [
        {"name": name, "phase": phase, "op": "all_reduce", "ranks": [0, 1], "bytes": 10**9}
        for name, phase in (("a", 0), ("b", 1))
    ]
    document = {"name": "j", "hosts": ["h1", "h33"], "collectives": calls, "compute_seconds": {"0": 0.5, "1": 0.25}}
    (own,) = simulated_jobs(PAPER, [TimedJob(parse_job(document))])
    assert own.compute_seconds == 0.5
    (waits,) = np.flatnonzero(own.schedule.delay)
    assert own.schedule.delay[waits] == 0.25
    assert own.traffic.phase[own.schedule.collective[waits]] == 1
    (other,) = simulated_jobs(PAPER, [TimedJob(parse_job(document), compute_seconds=0.125)])
    assert (other.compute_seconds, other.schedule.delay.max()) == (0.125, 0.0)
    assert other.traffic.collectives[0].timing == JobTiming(((0, 0.125),))
    del document["compute_seconds"]
    (measured,) = simulated_jobs(PAPER, [TimedJob(parse_job(document | {"period_seconds": 1.0}))])
    # Each all-reduce of two ranks sends its whole buffer once: 0.08 s at 100 Gbit/s.
    assert measured.compute_seconds == pytest.approx(1.0 - 2 * 0.08)


def test_scaled_jobs_have_the_same_times_in_proportion() -> None:
    calls = [{"name": "a", "op": "all_reduce", "ranks": [0, 1], "bytes": 10**9}]
    flows = [{"src": "h1", "dst": "h65", "bytes": 3, "collective": "b"}]
    document = {"name": "j", "hosts": ["h1", "h33"], "collectives": calls, "flows": flows, "compute_seconds": 0.5}
    whole = TimedJob(parse_job(document), start=2.0)
    (own,), (part,) = (simulated_jobs(PAPER, [each]) for each in (whole, scaled(whole, 0.01)))
    assert (part.compute_seconds, part.start) == pytest.approx((own.compute_seconds / 100, own.start / 100))
    assert part.schedule.bytes == pytest.approx(np.maximum(own.schedule.bytes / 100, 1))
    assert part.traffic.bytes.tolist() == [max(1, each // 100) for each in own.traffic.bytes.tolist()]
    periodic = TimedJob(parse_job({**document, "compute_seconds": None, "period_seconds": 1.0}))
    (own,), (part,) = (simulated_jobs(PAPER, [each]) for each in (periodic, scaled(periodic, 0.01)))
    assert part.compute_seconds == pytest.approx(own.compute_seconds / 100)
    assert scaled(whole, 1.0) is whole


def test_jobs_that_send_at_once_do_not_compute() -> None:
    first = generate(PAPER, Mix(1, 2), 1, 0)[0]
    assert first.compute_seconds
    assert first.start > 0
    for timed in (first, TimedJob(dataclasses.replace(first.job, timing=JobTiming(((0, 0.5),))), start=1.0)):
        (own,) = simulated_jobs(PAPER, [sending_at_once(timed)])
        assert (own.compute_seconds, own.start) == (0.0, 0.0)
        assert own.traffic.collectives[0].timing is None
