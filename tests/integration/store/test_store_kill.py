"""A controller that is killed at any moment has lost nothing that it has acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from controller.store.store import Store
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.store.writer import PLANS_KEPT, step
from tests.rig.waiting import eventually
from tests.unit.store.kept import Model, plain

KILLS = int(os.environ.get("KILLS", "15"))
"""``make kills`` has the long form."""


@pytest.fixture
def writer() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.rig.store.writer"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0


Meanwhile = Callable[[list[int]], None]
"""Called with what has been acknowledged, which grows; what happens to the controller before it is killed."""


def run_and_kill(writer: subprocess.Popen[str], url: str, meanwhile: Meanwhile) -> list[int]:
    """Let a controller work, kill it, and return what it has acknowledged."""
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdin.write(url + "\n")
    writer.stdin.flush()
    word, pid = writer.stdout.readline().split()
    assert word == "pid"
    acknowledged: list[int] = []
    lines = iter(writer.stdout.readline, "ended\n")
    reader = threading.Thread(target=lambda: acknowledged.extend(map(int, lines)))
    reader.start()
    try:
        meanwhile(acknowledged)
    finally:
        os.kill(int(pid), signal.SIGKILL)
        reader.join()
    return acknowledged


def check_kills(writer: subprocess.Popen[str], url: str, seed: int, files: Path | None = None) -> None:
    """Kill many controllers on one store, each some way into its work or its start, and look what is left.

    ``files``: the database of which files are deleted under each controller.
    """
    moments = random.Random(seed)
    model, epoch, longest = Model(PLANS_KEPT), 0, 0

    def wait(acknowledged: list[int]) -> None:
        # On a busy machine a start alone may take longer than that: some get as long as they need.
        if moments.random() < 0.4:
            eventually(lambda: len(acknowledged) > 1, "changes are acknowledged")
        time.sleep(moments.choice([0.01, 0.05, 0.15]) * moments.random())

    def delete(acknowledged: list[int]) -> None:
        assert files is not None
        eventually(lambda: bool(acknowledged), "a change is acknowledged")
        for _ in range(moments.randint(1, 4)):
            time.sleep(0.03 * moments.random())
            gone = moments.choice([("-wal",), ("-shm",), ("-wal", "-shm"), ("-wal",), ("", "-wal", "-shm")])
            for suffix in gone:
                files.with_name(files.name + suffix).unlink(missing_ok=True)
            if "" in gone:
                # Nothing is on the disk now. It is again as soon as a change was begun and acknowledged since.
                before = len(acknowledged)
                eventually(partial(lambda n: len(acknowledged) > n, before + 2), "changes are acknowledged again")

    for _ in range(KILLS):
        acknowledged = run_and_kill(writer, url, wait if files is None else delete)
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


def test_a_file_has_everything_that_was_acknowledged_before_many_kills(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    check_kills(writer, f"sqlite:///{tmp_path}/kept.db", 7)


def test_a_file_has_everything_that_was_acknowledged_although_files_were_deleted_under_the_controller(
    writer: subprocess.Popen[str], tmp_path: Path
) -> None:
    check_kills(writer, f"sqlite:///{tmp_path}/kept.db", 9, files=tmp_path / "kept.db")


def test_a_server_has_everything_that_was_acknowledged_before_many_kills(
    writer: subprocess.Popen[str], postgres_url: str
) -> None:
    check_kills(writer, postgres_url, 8)


@pytest.mark.parametrize("moment", ["before the copy", "in the middle of the copy", "after the copy"])
def test_a_process_killed_around_the_copy_of_a_log_that_was_deleted_loses_nothing(tmp_path: Path, moment: str) -> None:
    """Half of the database file's new pages are written when the process ends, and only the log had the others."""
    path = tmp_path / "kept.db"
    with closing(Store.open(f"sqlite:///{path}", plans_kept=PLANS_KEPT)) as store:
        for number in range(1, 9):
            store.commit(step(number))
    command = [sys.executable, "-m", "tests.rig.store.dying", str(path), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    with closing(Store.open(f"sqlite:///{path}", plans_kept=PLANS_KEPT)) as store:
        kept = store.load()
        assert kept.epoch in (8, 9)
        model = Model(PLANS_KEPT)
        for number in range(1, kept.epoch + 1):
            model.commit(step(number))
        assert plain(kept) == plain(model.load())
    assert not list(tmp_path.glob("*saved*"))
