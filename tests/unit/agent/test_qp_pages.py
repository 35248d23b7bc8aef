"""Any number of open QPs reaches the controller, in reports of a page each, of which some may be lost."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.verbs import qp_pages
from agent.verbs.qp_pages import MOST_PAGES, MOST_REPORTED, QpPages
from controller import host_qps
from controller.core.ports.host_agents import HostReport
from controller.host_qps import HostQps
from controller.model.errors import InputError
from controller.rest.readers import read_host_report


def row(number: int, port: int = 50000) -> dict[str, Any]:
    return {"dst": "10.0.2.1", "qp": number, "remote_qp": number + 1, "port": port, "number": None}


def read(part: dict[str, Any], run: str = "a") -> HostReport:
    return read_host_report(
        json.dumps({"epoch": None, "run": run * 16, "ports": {"state": "searching", **part}}).encode()
    )


def told(report: HostReport) -> dict[int, int] | None:
    """The port of each QP."""
    assert report.ports is not None
    return None if report.ports.qps is None else {each.qp: each.port for each in report.ports.qps}


sets = st.dictionaries(st.integers(1, (1 << 24) - 2), st.integers(49152, 65000), max_size=14)


@given(st.lists(st.tuples(sets, st.lists(st.booleans(), max_size=8)), min_size=1, max_size=5))
def test_what_is_told_becomes_what_is_open_whatever_was_lost_before(
    steps: list[tuple[dict[int, int], list[bool]]],
) -> None:
    pages, known = QpPages(), HostQps()
    with patch.object(qp_pages, "MOST_REPORTED", 4):
        for opened, arrives in steps:
            rows = [row(number, port) for number, port in opened.items()]
            pages.take(rows)
            for arrived in arrives:
                part = pages.next()
                assert len(part["qps"]) <= 4
                if arrived:
                    known.whole("h1", read(part))
            # Reports go on: each page comes again.
            for _ in range(2 * MOST_PAGES):
                last = known.whole("h1", read(pages.next()))
            assert told(last) == opened
            assert not pages.take(list(rows))


@given(sets.filter(lambda opened: len(opened) > 4), st.data())
def test_a_change_is_told_first_and_nothing_is_known_of_a_host_before_all_pages_are(
    opened: dict[int, int], data: st.DataObject
) -> None:
    pages, known = QpPages(), HostQps()
    with patch.object(qp_pages, "MOST_REPORTED", 4):
        assert pages.take([row(*each) for each in opened.items()])
        while pages.lacks:
            last = known.whole("h1", read(pages.next()))
            assert told(last) == (None if pages.lacks else opened)
        other = data.draw(st.sampled_from(sorted(opened)))
        after = opened | {other: 65001}
        assert pages.take([row(*each) for each in after.items()])
        assert told(known.whole("h1", read(pages.next()))) == after
        # An agent that has started again has told nothing yet.
        assert told(known.whole("h1", read(pages.next(), run="b"))) is None


def test_ten_thousand_qps_are_told_by_two_reports_and_too_many_by_none(caplog: pytest.LogCaptureFixture) -> None:
    pages, known = QpPages(), HostQps()
    assert pages.take([row(64 * number) for number in range(1, 10_001)])
    assert told(known.whole("h1", read(pages.next()))) is None
    last = told(known.whole("h1", read(pages.next())))
    assert last is not None
    assert len(last) == 10_000
    assert not pages.lacks
    many = [row(number) for number in range(MOST_PAGES * MOST_REPORTED + 1)]
    assert pages.take(many)
    assert pages.next() == {}
    assert caplog.messages == ["98305 QPs are open, and at most 98304 can be told: the controller hears of none"]
    assert not pages.take(many[:])
    assert told(known.whole("h1", read(pages.next()))) is None
    assert pages.take([row(1)])
    assert told(known.whole("h1", read(pages.next()))) == {1: 50000}


def test_a_host_that_tells_more_than_there_may_be_is_known_to_have_told_nothing() -> None:
    known = HostQps()
    with patch.object(host_qps, "MOST_QPS", 2):
        parts = [{"qps": [row(n), row(n + 1)], "qps_page": n // 2, "qps_pages": 2} for n in (0, 2)]
        assert [told(known.whole("h1", read(part))) for part in parts] == [None, None]
    with pytest.raises(InputError, match="qps_page"):
        read({"qps": [], "qps_page": 1})
