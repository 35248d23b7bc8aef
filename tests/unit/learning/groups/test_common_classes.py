"""Volumes that jobs have in common are equal numbers, and others stay as they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.learning.infer import with_common_classes
from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.sightings import QpKey
from controller.learning.volumes import SNAP

GB = 1_000_000_000


def job(number: int, size: int, period: float = 1.0, flows: int = 4) -> LearnedJob:
    """Return a job with one group of its own hosts."""
    keys = tuple(QpKey(100 * number + i, 100 * number + (i + 1) % flows, 50000, 1) for i in range(flows))
    return LearnedJob(period, 5, (LearnedGroup(0, "ring", keys, (size,) * flows),), (0.1,), 1.0, 0.0, 5.0)


def sizes(jobs: list[LearnedJob]) -> list[int]:
    return [size for one in jobs for group in one.groups for size in set(group.bytes)]


@given(
    st.lists(st.tuples(st.sampled_from([GB, 3 * GB, 10 * GB]), st.floats(-SNAP / 4, SNAP / 4)), min_size=1, max_size=20)
)
def test_volumes_that_agree_within_the_noise_become_one_and_no_volume_moves_further_than_that(
    drawn: list[tuple[int, float]],
) -> None:
    jobs = [job(i, round(size * (1 + error))) for i, (size, error) in enumerate(drawn)]
    found = with_common_classes(jobs)
    assert [one.name for one in found] == [one.name for one in jobs]
    assert len(set(sizes(found))) == len({size for size, _ in drawn})
    for before, after in zip(sizes(jobs), sizes(found), strict=True):
        assert abs(after / before - 1) <= SNAP


def test_bytes_of_an_iteration_and_of_a_second_are_not_compared() -> None:
    jobs = [job(0, GB), job(1, GB + GB // 1000, period=0.0)]
    assert with_common_classes(jobs) == jobs
    assert with_common_classes([]) == []
