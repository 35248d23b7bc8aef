"""The version of a traffic: a hash of its content, which stays the same from release to release."""

from __future__ import annotations

import dataclasses
import hashlib

from hypothesis import given
from hypothesis import strategies as st

from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.timing import JobTiming
from controller.model.traffic import Collective, Traffic


@given(
    st.lists(
        st.builds(
            Collective,
            job=st.text(),
            name=st.text(),
            weight=st.floats(allow_nan=False, allow_infinity=False),
            phase=st.integers(0, 99),
            timing=st.sampled_from([None, JobTiming(period_seconds=1.0)]),
            qps=st.builds(QueuePairs, st.integers(1, 9)),
        ),
        max_size=3,
    )
)
def test_the_version_of_a_traffic_without_qps_and_times_stays_what_it_was(rows: list[Collective]) -> None:
    """Plans that were saved by earlier releases are known by it."""
    plain = tuple(dataclasses.replace(row, timing=None, qps=ONE_QP) for row in rows)
    traffic = dataclasses.replace(Traffic.empty(), collectives=plain)
    assert traffic.version == hashlib.blake2b(repr(plain).encode(), digest_size=8).hexdigest()
    known = {dataclasses.replace(traffic, collectives=each).version for each in (plain, tuple(rows))}
    assert len(known) == 1 + (plain != tuple(rows))
