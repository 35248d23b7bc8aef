"""What a client records of a response: only what is sure, and unknown outcomes as such."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.campaigns.cluster.clients import UNKNOWN, recorded
from tests.campaigns.cluster.history import JobOperation

DURING = (1.0, 2.0)


@pytest.mark.parametrize(
    ("method", "status", "content", "expected"),
    [
        ("PUT", 201, {}, [JobOperation("a", True, 7, 1.0, 2.0)]),
        ("DELETE", 204, None, [JobOperation("a", True, None, 1.0, 2.0)]),
        ("GET", 200, {"bytes": 5}, [JobOperation("a", False, 5, 1.0, 2.0)]),
        ("GET", 404, {}, [JobOperation("a", False, None, 1.0, 2.0)]),
        ("DELETE", 404, {}, [JobOperation("a", False, None, 1.0, 2.0)]),
        ("PUT", 503, {}, []),
        ("GET", 503, {}, []),
        ("PUT", 0, None, [JobOperation("a", True, 7, 1.0, math.inf)]),
        ("DELETE", 502, {"type": UNKNOWN}, [JobOperation("a", True, None, 1.0, math.inf)]),
        ("GET", 0, None, []),
    ],
)
def test_a_response_is_recorded(method: str, status: int, content: Any, expected: list[JobOperation]) -> None:
    assert recorded(method, "a", 7, DURING, status, content) == expected


@pytest.mark.parametrize(("method", "status"), [("PUT", 404), ("PUT", 500), ("GET", 500), ("GET", 502), ("PUT", 409)])
def test_what_a_controller_must_not_answer_is_an_error(method: str, status: int) -> None:
    with pytest.raises(ValueError, match=f"{method} of a: {status}"):
        recorded(method, "a", 7, DURING, status, {})
