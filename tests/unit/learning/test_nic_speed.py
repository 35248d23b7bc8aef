"""What hosts report cannot give them more of a plan than their NICs can send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.nic_speed import within_speed
from controller.learning.sightings import QpKey

SPEED = 1e9


def job_of(sizes: list[list[tuple[tuple[int, int], int]]], period: float) -> LearnedJob:
    groups = tuple(
        LearnedGroup(
            phase, "flows", tuple(QpKey(src, dst, 50000, 1) for (src, dst), _ in rows), tuple(size for _, size in rows)
        )
        for phase, rows in enumerate(sizes)
    )
    return LearnedJob(period, 5, groups, (), 1.0, 0.0, 0.0)


@given(
    st.lists(
        st.lists(
            st.tuples(st.tuples(st.integers(1, 4), st.integers(5, 8)), st.integers(1, 2**62)), min_size=1, max_size=6
        ),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([0.0, 0.01, 1.0, 60.0]),
)
def test_no_host_has_more_than_its_nic_sends_and_hosts_with_less_keep_theirs(
    sizes: list[list[tuple[tuple[int, int], int]]], period: float
) -> None:
    before = job_of(sizes, period)
    after = within_speed(before, lambda _address: SPEED)
    most = SPEED * (period or 1.0)
    for host in range(1, 5):
        pairs = [
            (old, new)
            for one, other in zip(before.groups, after.groups, strict=True)
            for key, old, new in zip(one.qps, one.bytes, other.bytes, strict=True)
            if key.src == host
        ]
        if sum(old for old, _ in pairs) <= most:
            assert all(old == new for old, new in pairs)
        else:
            assert sum(new for _, new in pairs) <= most + len(pairs)
            # In the same proportions.
            (largest, its_new) = max(pairs)
            assert all(new == pytest.approx(old / largest * its_new, abs=2) for old, new in pairs)
    assert [(group.phase, group.qps) for group in after.groups] == [(group.phase, group.qps) for group in before.groups]
