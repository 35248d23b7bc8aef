"""What was learned of jobs is compared with what they sent."""

from __future__ import annotations

import math
from typing import Any

import pytest

from emulation.experiments.learned.learned_truth import SentJob, compare, sent_jobs
from emulation.experiments.learned.tally_feeder import TallyFeeder
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import CollectiveResult, PortShare

SPEC = CollectiveSpec("a", "dp", ("h1", "h2"), op="exchange", matrix=((0, 800), (400, 0)), dtype="uint8", iterations=3)
PORTS = {
    ("a", "dp", "h1", "h2"): (PortShare(50000, 0.25), PortShare(50001, 0.75)),
    ("a", "dp", "h2", "h1"): (PortShare(50000),),
}
SENT = SentJob("a", {("h1", "h2", 50000): 200, ("h1", "h2", 50001): 600, ("h2", "h1", 50000): 400}, 2.0)


def document(name: str, edges: dict[tuple[str, str, int], int], period: float | None = 2.0) -> dict[str, Any]:
    flows = [{"src": src, "dst": dst, "udp_src": port, "bytes": size} for (src, dst, port), size in edges.items()]
    return {"summary": {"name": name, "period_seconds": period, "iterations": 3}, "job": {"flows": flows}}


def test_what_jobs_send_follows_from_their_collectives_ports_and_times() -> None:
    result = CollectiveResult("a", "dp", ((0.0, 1.0), (2.1, 3.0), (4.0, 5.0)), 0, 0, 0, True, (), ())
    (job,) = sent_jobs([SPEC], PORTS, [result])
    assert (job.job, job.bytes) == ("a", SENT.bytes)
    assert job.period_seconds == pytest.approx(2.0)


def test_a_job_that_was_learned_as_it_is_has_no_error() -> None:
    learned = [
        document("x", {edge: int(size) for edge, size in SENT.bytes.items()}),
        document("y", {("h3", "h4", 1): 7}),
    ]
    row = compare(SENT, learned)
    assert (row.names, row.recall, row.precision, row.bytes_off, row.period_off) == (("x",), 1, 1, 0, 0)


def test_missed_and_invented_edges_and_errors_of_bytes_and_period_are_told() -> None:
    row = compare(SENT, [document("x", {("h1", "h2", 50000): 220, ("h1", "h9", 1): 5}, period=2.2)])
    assert (row.recall, row.precision) == (pytest.approx(1 / 3), 0.5)
    assert (row.bytes_off, row.period_off) == (pytest.approx(0.1), pytest.approx(0.1))
    nothing = compare(SENT, [])
    assert (nothing.recall, nothing.names) == (0, ())
    assert math.isnan(nothing.bytes_off)


def test_tallies_are_posted_together_and_an_error_of_posting_is_raised() -> None:
    posted: list[Any] = []
    qp = {"src": "10.0.0.1", "dst": "10.0.0.2", "udp_src": 50000, "dst_qp": 256}
    other = qp | {"dst_qp": 257}
    with TallyFeeder(posted.append) as feeder:
        feeder.take({"at": 1.0, "qps": [qp, other], "bytes": [1, 2]})
        feeder.take({"at": 2.0, "qps": [qp], "bytes": [3]})
    rows = [
        (body["qps"][i], at, size)
        for body in posted
        for i, at, size in zip(body["qp"], body["at"], body["bytes"], strict=True)
    ]
    assert rows == [(qp, 1.0, 1), (other, 1.0, 2), (qp, 2.0, 3)]

    def fail(body: Any) -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"), TallyFeeder(fail) as feeder:
        feeder.take({"at": 1.0, "qps": [qp], "bytes": [1]})
