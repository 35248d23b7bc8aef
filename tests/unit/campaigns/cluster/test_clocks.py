"""A process whose clock is set sees another time of day, and no other change."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulation.errors import LabError
from tests.campaigns.cluster import clocks
from tests.campaigns.cluster.clocks import ShiftedClock, shift_library

HOUR = 3600
WIDE = 1200.0
"""Seconds for which this machine may do nothing between two lines."""

TOLD = """
import datetime, sys, time
for line in sys.stdin:
    print(time.time(), datetime.datetime.now().timestamp(), time.monotonic(), flush=True)
"""


def test_only_the_time_of_day_moves(tmp_path: Path) -> None:
    clock = ShiftedClock(shift_library(tmp_path), tmp_path / "clock")
    with subprocess.Popen(
        [sys.executable, "-c", TOLD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **clock.environment},
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        for seconds in (0, HOUR, -HOUR, 0):
            clock.set(seconds)
            asked.stdin.write("\n")
            asked.stdin.flush()
            told, also_told, monotonic = map(float, asked.stdout.readline().split())
            assert abs(told - time.time() - seconds) < WIDE
            assert abs(also_told - time.time() - seconds) < WIDE
            assert abs(monotonic - time.monotonic()) < WIDE
        asked.stdin.close()


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError, match="a C compiler is needed: apt-get install gcc libc6-dev"):
        shift_library(tmp_path)


def test_a_source_that_does_not_compile_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "wrong.c"
    source.write_text("no C")
    monkeypatch.setattr(clocks, "SOURCE", source)
    with pytest.raises(LabError, match=r"wrong\.c cannot be compiled: "):
        shift_library(tmp_path)
