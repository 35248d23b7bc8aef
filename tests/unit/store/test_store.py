"""The store's promises, on files and in memory."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from setuptools import find_packages

from controller.core.saved.saved_state import ModeSetting, StateChange
from controller.model.errors import InputError
from controller.store import store as store_module
from controller.store import upgrade
from controller.store.errors import StoreError
from controller.store.schema import METADATA, VERSION_TABLE
from controller.store.store import Store
from controller.store.store_mapping import apply
from tests.unit.store.records import job, names_after_a_kill, only_owner, record, sql

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "kept.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    made = Store.open(f"sqlite:///{file}", plans_kept=3)
    yield made
    made.close()


def test_only_its_owner_may_read_it(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    modes = {name: stat.S_IMODE(os.stat(file.parent / name).st_mode) for name in os.listdir(file.parent)}
    assert set(modes.values()) == {0o600}
    assert file.name + "-wal" in modes
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_second_controller_is_refused_until_the_first_has_ended(store: Store, file: Path) -> None:
    link = file.parent.parent / "other-name.db"
    link.symlink_to(file)
    for other in (file, link):
        with pytest.raises(StoreError, match="in use by another controller"):
            Store.open(f"sqlite:///{other}")
    store.commit(StateChange(put=(job("a"),)))
    store.close()
    with closing(Store.open(f"sqlite:///{link}")) as other_store:
        assert [job.name for job in other_store.load().jobs] == ["a"]


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    for use in (store.load, store.plans, lambda: store.commit(StateChange())):
        with pytest.raises(StoreError, match="is closed"):
            use()


def test_a_change_is_kept_with_all_its_parts_or_not_at_all(store: Store) -> None:
    store.commit(StateChange(put=(job("a"),), drained=frozenset({"spine1"}), plans=(record(1),)))
    broken = record(2)
    object.__setattr__(broken, "policy", None)
    with pytest.raises(StoreError, match="NOT NULL"):
        store.commit(StateChange(put=(job("b"),), deleted=("a",), drained=frozenset(), plans=(broken,)))
    kept = store.load()
    assert ([job.name for job in kept.jobs], kept.drained, kept.epoch) == (["a"], {"spine1"}, 1)
    store.commit(StateChange(deleted=("a",)))
    assert store.load().jobs == ()


def test_paths_are_forgotten_with_their_plans(store: Store, file: Path) -> None:
    for epoch in range(1, 6):
        store.commit(StateChange(plans=(record(epoch),)))
    assert sql(file, "SELECT epoch FROM plan_paths ORDER BY epoch") == [(3,), (4,), (5,)]
    store.commit(StateChange(plans=(record(4, None),)))
    assert store.plan(4).paths is None


def test_more_jobs_than_one_statement_holds_are_changed_at_once(store: Store) -> None:
    names = [f"job{i}" for i in range(1201)]
    store.commit(StateChange(put=tuple(job(name) for name in names)))
    store.commit(StateChange(deleted=tuple(names[1:])))
    assert [job.name for job in store.load().jobs] == ["job0"]


def test_a_store_in_memory_is_everybodys_own() -> None:
    with closing(Store.open("memory")) as one, closing(Store.open("memory")) as other:
        one.commit(StateChange(put=(job("a"),), mode=ModeSetting("ecmp", 1.0, "me"), plans=(record(7),)))
        assert one.load().mode == ModeSetting("ecmp", 1.0, "me")
        assert [plan.epoch for plan in one.plans()] == [7]
        assert other.load().jobs == ()


def test_no_plan_at_all_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="plans_kept"):
        Store.open("memory", plans_kept=0)


# -- databases that are not what they should be -------------------------------------------------------------


def refused(file: Path) -> str:
    with pytest.raises(StoreError) as error:
        Store.open(f"sqlite:///{file}")
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_an_empty_file_is_not_taken_for_a_new_store_unless_it_is_asked_for(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    store.close()
    os.truncate(file, 0)
    assert "is empty (0 bytes)" in refused(file)
    assert "--new-store" in refused(file)
    assert file.stat().st_size == 0
    with closing(Store.open(f"sqlite:///{file}", new=True)) as again:
        assert again.load().jobs == ()
        again.commit(StateChange(put=(job("b"),)))
    # It does not empty a store that has content.
    with closing(Store.open(f"sqlite:///{file}", new=True)) as again:
        assert [job.name for job in again.load().jobs] == ["b"]


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("my notes\n" * 100)
    assert "not a SQLite database" in refused(file)
    assert file.read_text() == "my notes\n" * 100


@pytest.mark.parametrize("table", ["jobs", "other"])
def test_the_database_of_another_program_is_left_alone(tmp_path: Path, table: str) -> None:
    file = tmp_path / "other.db"
    sql(file, f"CREATE TABLE {table} (x)")
    assert "another program" in refused(file)
    assert sql(file, "SELECT name FROM sqlite_master") == [(table,)]
    assert sql(file, "PRAGMA journal_mode") == [("delete",)]


def test_a_newer_store_is_not_touched(store: Store, file: Path) -> None:
    store.close()
    sql(file, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    assert "newer fairspine" in refused(file)
    sql(file, f"UPDATE {VERSION_TABLE} SET version_num = '0005'")
    Store.open(f"sqlite:///{file}").close()


def test_the_plans_of_a_store_from_before_the_three_enforcements_are_per_flow(store: Store, file: Path) -> None:
    store.commit(StateChange(plans=(replace(record(1), enforcement="source_port"),)))
    store.close()
    for column in ("enforcement", "slowest", "reason"):
        sql(file, f"ALTER TABLE plans DROP COLUMN {column}")
    for table in ("cluster", "replicas"):
        sql(file, f"DROP TABLE {table}")
    sql(file, f"UPDATE {VERSION_TABLE} SET version_num = '0001'")
    with closing(Store.open(f"sqlite:///{file}")) as again:
        assert [record.enforcement for record in again.plans()] == ["per_flow"]


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be created or written" in refused(tmp_path / "file" / "kept.db")
    (tmp_path / "folder").mkdir()
    assert "cannot be created or written" in refused(tmp_path / "folder")


def test_a_damaged_file_is_one_clear_error(store: Store, file: Path) -> None:
    store.commit(StateChange(put=tuple(job(f"job{i}", os.urandom(5000)) for i in range(20))))
    store.close()
    content = bytearray(file.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(content)
    assert "damaged" in refused(file)


def test_damaged_contents_are_one_clear_error(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),), plans=(record(1),)))
    sql(file, "UPDATE plan_paths SET paths = x'00'")
    for read in (store.load, lambda: store.plan(1)):
        with pytest.raises(StoreError, match="damaged"):
            read()


# -- what happens to a file under a running controller --------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_that_would_go_to_a_removed_file(store: Store, file: Path, replaced: bool) -> None:
    store.commit(StateChange(put=(job("a"),)))
    file.rename(file.with_suffix(".old"))
    if replaced:
        file.write_bytes(file.with_suffix(".old").read_bytes())
    with pytest.raises(StoreError, match="removed or replaced"):
        store.commit(StateChange(put=(job("b"),)))
    assert [job.name for job in store.load().jobs] == ["a"]


@pytest.mark.parametrize(
    "gone",
    [("-wal",), ("-shm",), ("-wal", "-shm"), ("",), (".lock",), ("", "-wal", "-shm"), ("", "-wal", "-shm", ".lock")],
)
@pytest.mark.parametrize("read_along", [False, True])
def test_what_was_deleted_is_written_again_and_nothing_acknowledged_is_lost(
    store: Store, file: Path, gone: tuple[str, ...], read_along: bool
) -> None:
    store.commit(StateChange(put=(job("a"),), plans=(record(1),)))
    with closing(sqlite3.connect(file)) as reader:
        if read_along:
            # It keeps what is written from leaving the log.
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM jobs").fetchall()
        store.commit(StateChange(put=(job("b"),)))
        for suffix in gone:
            file.with_name(file.name + suffix).unlink()
        store.commit(StateChange(put=(job("c"),)))
        assert names_after_a_kill(file) == ["a", "b", "c"]
    store.commit(StateChange(put=(job("d"),)))
    assert names_after_a_kill(file) == ["a", "b", "c", "d"]
    assert not file.with_name(file.name + ".new").exists()
    assert only_owner(file)
    with pytest.raises(StoreError, match="in use by another controller"):
        Store.open(f"sqlite:///{file}")


def test_what_was_deleted_is_written_again_without_a_change(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    file.unlink()
    store.check()
    assert names_after_a_kill(file) == ["a"]


def test_an_acknowledged_change_needs_no_log(store: Store, file: Path) -> None:
    for number in range(5):
        store.commit(StateChange(put=(job(f"job{number}", bytes(50_000)),)))
        copy = file.with_name("copy.db")
        copy.write_bytes(file.read_bytes())
        with closing(Store.open(f"sqlite:///{copy}")) as other:
            assert len(other.load().jobs) == number + 1


def test_a_log_that_is_deleted_while_a_change_is_committed_takes_nothing_with_it(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit(StateChange(put=(job("a"),)))

    def applied(*args: Any) -> None:
        apply(*args)
        file.with_name(file.name + "-wal").unlink(missing_ok=True)

    monkeypatch.setattr(store_module, "apply", applied)
    store.commit(StateChange(put=(job("b"),)))
    assert names_after_a_kill(file) == ["a", "b"]


def test_a_folder_that_is_removed_or_moved_refuses_changes_until_it_is_back(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    elsewhere = file.parent.with_name("elsewhere")
    file.parent.rename(elsewhere)
    for act in (store.check, lambda: store.commit(StateChange(put=(job("b"),)))):
        with pytest.raises(StoreError, match="removed or replaced"):
            act()
    elsewhere.rename(file.parent)
    store.commit(StateChange(put=(job("c"),)))
    assert names_after_a_kill(file) == ["a", "c"]
    shutil.rmtree(file.parent)
    with pytest.raises(StoreError, match="folder"):
        store.commit(StateChange(put=(job("d"),)))
    file.parent.mkdir()
    store.commit(StateChange(put=(job("e"),)))
    assert names_after_a_kill(file) == ["a", "c", "e"]


def test_a_log_that_was_emptied_takes_nothing_with_it(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    os.truncate(file.with_name(file.name + "-wal"), 0)
    store.commit(StateChange(put=(job("b"),)))
    assert names_after_a_kill(file) == ["a", "b"]


def test_a_backup_made_while_the_controller_runs_is_a_store(store: Store, file: Path, tmp_path: Path) -> None:
    store.commit(StateChange(put=(job("a"),), plans=(record(1),)))
    copy = tmp_path / "backup.db"
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    with closing(Store.open(f"sqlite:///{copy}")) as other:
        assert ([job.name for job in other.load().jobs], other.load().epoch) == (["a"], 1)
    store.commit(StateChange(deleted=("a",)))


def test_changes_of_another_program_are_not_overwritten(store: Store, file: Path) -> None:
    store.commit(StateChange(put=(job("a"),)))
    sql(file, "UPDATE settings SET value = 'theirs' WHERE name = 'last_change'")
    with pytest.raises(StoreError, match="changed by another program"):
        store.commit(StateChange(deleted=("a",)))
    assert store.overtaken
    assert [job.name for job in store.load().jobs] == ["a"]


def test_a_database_that_has_lost_changes_is_found_before_the_next_change(store: Store, file: Path) -> None:
    sql(file, "UPDATE settings SET value = 'earlier' WHERE name = 'last_change'")
    with pytest.raises(StoreError, match="or has lost changes; restart the controller"):
        store.check()
    assert store.overtaken


def test_a_database_that_has_all_changes_is_not_overtaken(store: Store) -> None:
    store.check()
    store.commit(StateChange(put=(job("a"),)))
    store.check()
    assert not store.overtaken


def test_a_file_that_another_program_has_locked_is_refused_and_used_again(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._connection.exec_driver_sql("PRAGMA busy_timeout = 1")  # type: ignore[union-attr]
    store._connection.rollback()  # type: ignore[union-attr]
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="another program has it locked"):
            store.commit(StateChange(put=(job("a"),)))
        assert store.load().jobs == ()
    store.commit(StateChange(put=(job("b"),)))
    assert [job.name for job in store.load().jobs] == ["b"]


def test_a_store_that_became_read_only_is_read(store: Store) -> None:
    store.commit(StateChange(put=(job("a"),)))
    connection = store._connection
    assert connection is not None
    for read_only in (True, False):
        connection.exec_driver_sql(f"PRAGMA query_only = {read_only:d}")
        connection.rollback()
        if read_only:
            with pytest.raises(StoreError, match="read-only"):
                store.commit(StateChange(put=(job("b"),)))
        else:
            store.commit(StateChange(put=(job("c"),)))
    assert [job.name for job in store.load().jobs] == ["a", "c"]


# -- the tables ---------------------------------------------------------------------------------------------


def made_by(make: Callable[[sa.Connection], None]) -> tuple[dict[str, set[Any]], dict[str, list[Any]]]:
    """Return the columns and foreign keys of all tables, and their rows, after ``make`` with an empty database."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        make(connection)
        names = sa.inspect(connection).get_table_names()
        columns: dict[str, set[Any]] = {}
        for name in names:
            rows = connection.exec_driver_sql(f"PRAGMA table_info({name})").all()
            keys = connection.exec_driver_sql(f"PRAGMA foreign_key_list({name})").all()
            columns[name] = {tuple(row[1:]) for row in rows} | {tuple(key) for key in keys}
        content = {name: [tuple(row) for row in connection.exec_driver_sql(f"SELECT * FROM {name}")] for name in names}
    engine.dispose()
    return columns, content


def test_the_migrations_make_the_tables_that_the_program_uses() -> None:
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade.migrate(connection)
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_a_new_database_has_the_tables_and_rows_that_the_migrations_make() -> None:
    columns, content = made_by(upgrade.create)
    assert (columns, content) == made_by(upgrade.migrate)
    assert columns.keys() == METADATA.tables.keys() | {VERSION_TABLE}
    assert content[VERSION_TABLE] == [(upgrade.steps()[0],)]


def test_the_names_of_the_migrations_are_their_steps_in_their_order() -> None:
    walked = ScriptDirectory.from_config(upgrade._config()).walk_revisions()
    assert upgrade.steps() == [step.revision for step in walked]


STARTS = """
import sys
from controller.store.store import Store
for _ in range(2):
    store = Store.open(sys.argv[1])
    store.load()
    store.close()
print(*sorted({"alembic", "mako", "psycopg"} & sys.modules.keys()))
"""


def test_a_store_that_is_new_or_up_to_date_is_opened_without_alembic_and_postgresql(file: Path) -> None:
    started = [sys.executable, "-c", STARTS, f"sqlite:///{file}"]
    assert subprocess.run(started, cwd=ROOT, check=True, capture_output=True, text=True).stdout == "\n"


def test_tables_of_an_earlier_version_are_upgraded(file: Path) -> None:
    file.parent.mkdir()
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        config = upgrade._config()
        config.attributes["connection"] = connection
        command.upgrade(config, upgrade.steps()[-1])
    engine.dispose()
    with closing(Store.open(f"sqlite:///{file}")) as store:
        store.commit(StateChange(put=(job("a"),), plans=(record(1),)))
        assert store.plan(1).enforcement == record(1).enforcement
    with closing(sqlite3.connect(file)) as connection_of_file:
        (step,) = connection_of_file.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
    assert step == upgrade.steps()[0]


def test_the_migrations_are_installed_with_the_package() -> None:
    packages = find_packages(str(ROOT), include=["controller*"])
    folder = Path(store_module.__file__).parent / "migrations"
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in folder.glob("**/*.py")}
    assert found == {"controller.store.migrations", "controller.store.migrations.versions"}
    assert found <= set(packages)


def test_a_store_has_an_instance_that_stays_and_another_store_has_another(tmp_path: Path) -> None:
    found = []
    for name in ("a", "a", "b", "b", "c"):
        store = Store.open(f"sqlite:///{tmp_path / name}.db")
        assert 1 <= store.instance() == store.instance() <= 0xFFFF
        found.append(store.instance())
        store.commit(StateChange(put=(job("one"),)))
        store.close()
    assert (found[0], found[2]) == (found[1], found[3])
    # Three equal ones would be one in four billion.
    assert len({found[0], found[2], found[4]}) > 1
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("UPDATE settings SET value = 'none' WHERE name = 'instance'")
        database.commit()
    store = Store.open(f"sqlite:///{tmp_path / 'a'}.db")
    with pytest.raises(StoreError, match="damaged: its instance is not a number"):
        store.instance()
    store.close()
