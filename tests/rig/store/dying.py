"""Commits once, deletes the log's name and ends by SIGKILL around the copy of the log. The store's tests run it:

python -m tests.rig.store.dying DATABASE MOMENT
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.store.store import Store
from tests.rig.store.writer import PLANS_KEPT, step


def die_around_a_copy(path: Path, moment: str) -> None:
    """Commit, delete the log's name and end by SIGKILL, with the pages of a copy written by half where asked for."""
    store = Store.open(f"sqlite:///{path}", plans_kept=PLANS_KEPT)
    files = store._database._files  # type: ignore[attr-defined]
    saved = files.log_saved

    @contextmanager
    def deadly() -> Iterator[None]:
        log = path.with_name(path.name + "-wal")
        if moment == "before the copy":
            log.unlink()
        with saved():
            log.unlink()
            if moment == "in the middle of the copy":
                copy_half(path.with_name(path.name + "-wal-saved").read_bytes(), path)
                os.kill(os.getpid(), signal.SIGKILL)
            yield
            if moment == "after the copy":
                os.kill(os.getpid(), signal.SIGKILL)

    files.log_saved = deadly
    written = files.written

    def dead(*, complete: bool) -> None:
        written(complete=complete)
        os.kill(os.getpid(), signal.SIGKILL)

    files.written = dead
    store.commit(step(9))


def copy_half(log: bytes, path: Path) -> None:
    """Write every second page of a log into the database file ("WAL-mode File Format" of SQLite)."""
    page = int.from_bytes(log[8:12], "big")
    frames = [log[at : at + 24 + page] for at in range(32, len(log), 24 + page)]
    assert len(frames) > 4
    with path.open("r+b") as database:
        for frame in frames[::2]:
            database.seek((int.from_bytes(frame[:4], "big") - 1) * page)
            database.write(frame[24:])


if __name__ == "__main__":
    die_around_a_copy(Path(sys.argv[1]), sys.argv[2])
