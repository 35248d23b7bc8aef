"""However often something happens, the log has few lines of it, and each kind has one."""

from __future__ import annotations

import itertools
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.southbound.limits.quiet_log import MOST_CHARACTERS, QuietLog


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def quiet(clock: Clock, **limits: int) -> tuple[QuietLog, list[str]]:
    log = logging.Logger("test")
    lines = Lines()
    log.addHandler(lines)
    return QuietLog(log, seconds=60.0, clock=clock, **limits), lines.texts


def test_a_repeated_event_is_logged_at_once_and_then_once_a_period_with_its_number() -> None:
    clock = Clock()
    log, texts = quiet(clock)
    for _ in range(10_000):
        log.warning(("leaf1", "bad"), "%s sends %s", "leaf1", "junk")
    log.warning(("leaf2", "bad"), "leaf2 sends junk")
    assert texts == ["leaf1 sends junk", "leaf2 sends junk"]
    clock.now += 60
    assert log.warning(("leaf1", "bad"), "%s sends %s", "leaf1", "junk")
    assert texts[2:] == ["leaf1 sends junk (9999 more since the last such line)"]


@given(st.lists(st.tuples(st.integers(0, 30), st.floats(0, 40)), max_size=200))
def test_lines_and_memory_are_bounded_whatever_the_keys_are(events: list[tuple[int, float]]) -> None:
    clock = Clock()
    log, texts = quiet(clock, most_keys=5, most_lines=3)
    written: list[tuple[float, int]] = []
    for key, wait in events:
        clock.now += wait
        if log.warning(key, "event %d", key):
            written.append((clock.now, key))
        assert len(log._written) <= 5
    periods = (clock.now - 100.0) / 60.0 + 1
    assert len(texts) <= (3 + 1) * periods
    for (first, key), (second, other) in itertools.pairwise(written):
        assert key != other or second - first >= 60


@pytest.mark.parametrize("value", ["x" * 70_000, "two\nlines\rthree"])
def test_a_line_is_one_line_of_limited_length(value: str) -> None:
    log, texts = quiet(Clock())
    log.warning("key", "sent: %s", value)
    (text,) = texts
    assert len(text) <= MOST_CHARACTERS + 3
    assert len(text.splitlines()) == 1


def test_the_number_of_suppressed_lines_is_logged_when_the_next_period_begins() -> None:
    clock = Clock()
    log, texts = quiet(clock, most_lines=2)
    for key in range(50):
        log.warning(key, "event")
    clock.now += 61
    log.warning("another", "event")
    assert texts == ["event", "event", "48 similar lines were left out", "event"]
