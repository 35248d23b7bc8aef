"""The time line of an iteration that a job makes alone."""

from __future__ import annotations

from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.planning.live_traffic import live_traffic
from controller.planning.time_line import time_line
from controller.workload.expand import expand
from controller.workload.job_file import parse_job

FABRIC = clos(4, 2, 8)
GB = 10**9


def spans(**said: Any) -> list[tuple[Any, ...]]:
    sizes = {"dp0": 2, "dp1": 2, "ep": 1, "pp": 3}
    flows = [
        {"src": f"h{i + 1}", "dst": f"h{i + 9}", "bytes": size * GB, "collective": name}
        for i, (name, size) in enumerate(sizes.items())
    ]
    job = parse_job({"name": "a", "flows": flows, "phases": {"pp": 3}} | said)
    return [
        (span.phase, span.name, *map(pytest.approx, (span.begin_seconds, span.end_seconds, span.slack_seconds)))
        for span in time_line(FABRIC, live_traffic(FABRIC, [expand(FABRIC, job)]))
    ]


def test_a_later_phase_waits_for_what_spans_phases() -> None:
    # dp is sent beside pp, and could take as long as that.
    line = spans(compute_seconds=0.1, until={"dp0": "end", "dp1": 3})
    assert line == [
        (0, None, 0.0, 0.1, 0.0),
        (0, "dp*", 0.1, 0.26, 0.16),
        (0, "ep", 0.1, 0.18, 0.0),
        (3, "pp", 0.18, 0.42, 0.0),
    ]
    late = spans(compute_seconds={"0": 0.1, "3": 0.0}, until={"ep": "end"}, after={"ep": ["dp0", "dp1"]})
    assert late == [
        (0, None, 0.0, 0.1, 0.0),
        (0, "dp*", 0.1, 0.26, 0.0),
        (0, "ep", 0.26, 0.34, 0.16),
        (3, "pp", 0.26, 0.5, 0.0),
    ]


def test_phases_without_overlap_follow_each_other() -> None:
    assert spans(compute_seconds={"0": 0.1, "3": 0.2}) == [
        (0, None, 0.0, 0.1, 0.0),
        (0, "dp*", 0.1, 0.26, 0.0),
        (0, "ep", 0.1, 0.26, 0.0),
        (3, None, 0.26, 0.46, 0.0),
        (3, "pp", 0.46, 0.7, 0.0),
    ]


def test_what_overlaps_begins_with_the_computing_and_has_slack() -> None:
    overlap = {"dp0": "compute", "dp1": "compute"}
    assert spans(compute_seconds=0.1, overlap=overlap) == [
        (0, None, 0.0, 0.1, 0.0),
        (0, "dp*", 0.0, 0.16, 0.02),
        (0, "ep", 0.1, 0.18, 0.0),
        (3, "pp", 0.18, 0.42, 0.0),
    ]
    # Where traffic takes longest, computing has slack.
    assert spans(compute_seconds=0.02, overlap=overlap)[0] == (0, None, 0.0, 0.02, 0.06)
    assert spans(compute_seconds=0.1, overlap=overlap, after={"ep": ["dp0"]})[1:4] == [
        (0, "dp*", 0.0, 0.16, 0.0),
        (0, "dp*", 0.0, 0.16, 0.08),
        (0, "ep", 0.16, 0.24, 0.0),
    ]
