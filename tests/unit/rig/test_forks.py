"""The near side of the process that controllers of tests are forked off."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.forks import Forked, Forks, ForkServerError

ONE = "input(); print('pid 999999999', flush=True)"
"""A process that forks nothing, though it says so once."""


@pytest.fixture
def started(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Forks, Forked]]:
    made = Forks([sys.executable, "-c", f"{ONE}; {request.param}"])
    yield made, made.start([], tmp_path / "log")
    made.close()


@pytest.mark.parametrize("started", ["input(); import sys; sys.exit(3)"], indirect=True)
def test_nobody_waits_for_a_process_whose_end_cannot_be_told_any_more(
    started: tuple[Forks, Forked], tmp_path: Path
) -> None:
    forks, process = started
    with pytest.raises(ForkServerError, match="status 3"):
        forks.start([], tmp_path / "log")
    with pytest.raises(ForkServerError, match="status 3"):
        process.wait()


@pytest.mark.parametrize("started", ["input()"], indirect=True)
def test_the_end_of_a_process_is_waited_for_for_a_limited_time(started: tuple[Forks, Forked]) -> None:
    _, process = started
    with pytest.raises(subprocess.TimeoutExpired, match="process 999999999 of the fork server"):
        process.wait(0.01)


@pytest.mark.parametrize("started", ["print('999999999 ended 7', flush=True); input()"], indirect=True)
def test_the_status_of_a_process_is_known_once_it_has_ended(started: tuple[Forks, Forked]) -> None:
    _, process = started
    assert (process.wait(), process.poll()) == (7, 7)


@pytest.mark.parametrize(
    "started",
    ["print('999999999 again 999999998', flush=True); input(); print('999999998 ended 7', flush=True); input()"],
    indirect=True,
)
def test_a_process_that_another_one_replaces_has_not_ended(started: tuple[Forks, Forked], tmp_path: Path) -> None:
    forks, process = started
    with process._news:
        assert process._news.wait_for(lambda: process.pid == 999999998, 60)
    assert process.poll() is None
    forks._server.stdin.write("\n")  # type: ignore[union-attr]
    forks._server.stdin.flush()  # type: ignore[union-attr]
    assert process.wait() == 7
