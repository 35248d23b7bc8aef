"""A controller that is killed at any moment has lost nothing that it has acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from controller.store.store import Store
from tests.integration.store_writer import PLANS_KEPT, step
from tests.unit.store.kept import Model, plain

KILLS = 50


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.integration.store_writer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0


def run_and_kill(writer: subprocess.Popen[str], url: str, seconds: float) -> list[int]:
    """Let a controller work for so long, kill it, and return what it has acknowledged."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(url + "\n")
    writer.stdin.flush()
    word, pid = writer.stdout.readline().split()
    assert word == "pid"
    time.sleep(seconds)
    os.kill(int(pid), signal.SIGKILL)
    return [int(line) for line in iter(writer.stdout.readline, "ended\n")]


def check_kills(writer: subprocess.Popen[str], url: str, seed: int) -> None:
    """Kill many controllers on one store, each some way into its work or its start, and look what is left."""
    moments = random.Random(seed)
    model, epoch, longest = Model(PLANS_KEPT), 0, 0
    for _ in range(KILLS):
        acknowledged = run_and_kill(writer, url, moments.choice([0.01, 0.05, 0.15]) * moments.random())
        assert acknowledged == list(range(epoch + 1, epoch + 1 + len(acknowledged)))
        last = epoch + len(acknowledged)
        with closing(Store.open(url, plans_kept=PLANS_KEPT)) as store:
            kept = store.load()
            # The last change may have been kept and not been acknowledged yet.
            assert kept.epoch in (last, last + 1)
            for number in range(epoch + 1, kept.epoch + 1):
                model.commit(step(number))
            assert plain(kept) == plain(model.load())
            assert [plain(plan) for plan in store.plans()] == model.listed()
        longest = max(longest, len(acknowledged))
        epoch = kept.epoch
    assert longest > 1, "no controller came to do anything"


def test_a_file_has_everything_that_was_acknowledged_before_50_kills(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    check_kills(writer, f"sqlite:///{tmp_path}/kept.db", 7)


def test_a_server_has_everything_that_was_acknowledged_before_50_kills(
    writer: subprocess.Popen[str], postgres_url: str
) -> None:
    check_kills(writer, postgres_url, 8)
