"""A database file into which another program writes under a running controller."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.saved.saved_state import ModeSetting, StateChange
from controller.store.errors import StoreError
from controller.store.store import Store
from tests.unit.laws import examples
from tests.unit.store.records import job, names_after_a_kill, only_owner, record, sql

MODE = ModeSetting("ecmp", 1.0, "me")
LARGE = bytes(range(256)) * 80


def overwrite(file: Path, at: float, data: bytes) -> None:
    """Write into the file in place, at a part of its size, as a program does that has mistaken it for its own."""
    with file.open("r+b") as target:
        target.seek(int(at * file.stat().st_size))
        target.write(data)


@settings(max_examples=examples(12, 300), suppress_health_check=[HealthCheck.too_slow])
@given(
    at=st.floats(0, 1),
    data=st.binary(min_size=1, max_size=200) | st.sampled_from([bytes(8192), os.urandom(8192), os.urandom(1 << 17)]),
    watched=st.booleans(),
)
def test_what_is_acknowledged_is_found_after_a_kill_whatever_is_written_into_the_file(
    at: float, data: bytes, watched: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kept.db")
        with closing(Store.open(f"sqlite:///{file}")) as store:
            instance = store.instance()
            store.commit(StateChange(put=(job("a", LARGE), job("b", os.urandom(9000))), mode=MODE, plans=(record(1),)))
            overwrite(file, at, data)
            if watched:
                store.check()
            else:
                store.commit(StateChange(put=(job("c"),)))
            expected = ["a", "b"] if watched else ["a", "b", "c"]
            assert names_after_a_kill(file) == expected
            store.commit(StateChange(put=(job("d"),), drained=frozenset({"spine1"})))
            assert names_after_a_kill(file) == [*expected, "d"]
        with closing(Store.open(f"sqlite:///{file}")) as again:
            saved = again.load()
            assert (saved.mode, saved.drained, saved.epoch, again.instance()) == (MODE, {"spine1"}, 1, instance)
            assert saved.jobs[0].document == LARGE


@pytest.mark.parametrize("size", [0, 1, 4096, 20_000])
def test_a_file_that_was_cut_short_is_written_anew(tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "kept.db"
    with closing(Store.open(f"sqlite:///{file}")) as store:
        store.commit(StateChange(put=(job("a", os.urandom(100_000)),)))
        os.truncate(file, size)
        store.commit(StateChange(put=(job("b"),)))
        assert names_after_a_kill(file) == ["a", "b"]
        assert file.with_name("kept.db.damaged").stat().st_size == size
        assert only_owner(file)
        with pytest.raises(StoreError, match="in use by another controller"):
            Store.open(f"sqlite:///{file}")
    assert "was overwritten by another program; it was written anew" in caplog.text


def test_the_database_of_another_controller_that_is_copied_over_it_is_put_aside(tmp_path: Path) -> None:
    file, theirs = tmp_path / "kept.db", tmp_path / "theirs.db"
    for name, path in (("theirs", theirs), ("ours", file)):
        with closing(Store.open(f"sqlite:///{path}")) as store:
            store.commit(StateChange(put=(job(name),)))
    with closing(Store.open(f"sqlite:///{file}")) as store:
        store.load()
        store.commit(StateChange(put=(job("more"),)))
        file.write_bytes(theirs.read_bytes())
        store.commit(StateChange(put=(job("last"),)))
        assert names_after_a_kill(file) == ["last", "more", "ours"]
        copy = Path(shutil.copy(file.with_name("kept.db.damaged"), tmp_path / "copy.db"))
        with closing(Store.open(f"sqlite:///{copy}")) as other:
            assert [job.name for job in other.load().jobs] == ["theirs"]


def test_changes_are_refused_until_the_database_can_be_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept.db"
    with closing(Store.open(f"sqlite:///{file}")) as store:
        store.commit(StateChange(put=(job("a"),)))
        os.truncate(file, 0)
        with monkeypatch.context() as patched:
            patched.setattr("controller.store.sqlite_files.SqliteFiles.put_back", failing)
            for act in (store.check, lambda: store.commit(StateChange(put=(job("b"),)))):
                with pytest.raises(StoreError, match="overwritten by another program and cannot be written again"):
                    act()
        store.check()
        assert names_after_a_kill(file) == ["a"]


def failing(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("statements", [("VACUUM",), ("UPDATE plans SET policy = policy", "PRAGMA wal_checkpoint"), ()])
def test_what_other_programs_do_by_sqlite_or_to_the_times_of_the_file_keeps_the_history(
    tmp_path: Path, statements: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "kept.db"
    with closing(Store.open(f"sqlite:///{file}")) as store:
        store.commit(StateChange(put=(job("a"),), plans=tuple(record(epoch) for epoch in range(1, 6))))
        for statement in statements:
            with closing(sqlite3.connect(file)) as other:
                other.execute(statement)
                other.commit()
        os.utime(file)
        store.check()
        store.commit(StateChange(put=(job("b"),)))
        assert [plan.epoch for plan in store.plans()] == [5, 4, 3, 2, 1]
    assert not file.with_name("kept.db.damaged").exists()
    assert "overwritten" not in caplog.text
    assert sql(file, "SELECT count(*) FROM jobs") == [(2,)]
