"""Disks that fill up or become read-only: what changes something is refused, and everything else goes on."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from controller.store.errors import StoreError
from controller.store.store import Store
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.store.on_small_disk import commit_until_refused
from tests.rig.store.postgres import PostgresServer, need_postgres
from tests.rig.store.writer import PLANS_KEPT, step


@pytest.fixture(autouse=True, scope="module")
def _root() -> None:
    """A disk of a test's own is a mount, and only root can make one."""
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("these tests mount a disk, and only root can")
        pytest.skip("these tests mount a disk, and only root can")


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the program has seen on its small disk."""
    folder = tmp_path_factory.mktemp("disk")
    command = ["unshare", "--mount", sys.executable, "-m", "tests.rig.store.on_small_disk", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_full_disk_refuses_changes_and_is_read(seen: Any) -> None:
    assert seen["full"].endswith(": the disk is full")
    one_before_the_refused, has_paths, has_history = -1, True, True
    assert seen["read on a full disk"] == [one_before_the_refused, has_paths, has_history]


def test_changes_are_taken_again_when_there_is_room(seen: Any) -> None:
    assert seen["after there was room"] == 0


def test_a_controller_that_starts_on_a_full_disk_says_so_or_works_and_loses_nothing(seen: Any) -> None:
    opened = seen["opened on a full disk"]
    assert opened.isdigit() or opened.endswith(": the disk is full")
    assert seen["opened with room"] == 0


def test_a_controller_that_starts_on_a_read_only_disk_says_so_and_loses_nothing(seen: Any) -> None:
    assert "Read-only file system" in seen["opened on a read-only disk"]
    assert seen["opened again"] == 0


@pytest.fixture
def small_server() -> Iterator[PostgresServer]:
    """A server with a small disk for one of its databases."""
    need_postgres()
    user = pwd.getpwnam("postgres")
    server = PostgresServer(mounted=f"size=14m,uid={user.pw_uid},gid={user.pw_gid},mode=700")
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_a_server_whose_disk_is_full_refuses_changes_and_is_read(small_server: PostgresServer) -> None:
    server = small_server
    server.sql("postgres", f"CREATE TABLESPACE small LOCATION '{server.small}'")
    url = server.url(server.create("TABLESPACE small"))
    # A new database is a file of holes until it is written out, and no disk has promised the space for them.
    server.sql("postgres", "CHECKPOINT")
    with closing(Store.open(url, plans_kept=PLANS_KEPT)) as store:
        store.commit(step(1))
        refused, why = commit_until_refused(store, 2)
        assert why.endswith("the server's disk is full")
        kept = store.load()
        assert kept.epoch == refused - 1
        assert kept.plan is not None
        assert store.plan(kept.epoch).paths is not None
        enter = ["nsenter", f"--mount=/proc/{server.pid}/ns/mnt"]
        subprocess.run([*enter, "mount", "-o", "remount,size=64m", str(server.small)], check=True)
        store.commit(step(refused))
        assert store.load().epoch == refused


def test_a_server_that_becomes_read_only_refuses_changes_and_is_read(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    with closing(Store.open(postgres_url)) as store:
        store.commit(step(1))
        postgres_server.sql("postgres", "ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            postgres_server.sql("postgres", "SELECT pg_reload_conf()")
            # Sessions learn of it when they are next idle, so the first changes may still be taken.
            number, why = 1, ""
            while not why:
                number, why = number + 1, refusal(store, number + 1)
            assert why.endswith("the server is read-only")
            assert store.load().epoch == number - 1
        finally:
            (postgres_server.folder / "data" / "postgresql.auto.conf").write_text("")
            postgres_server.sql("postgres", "SELECT pg_reload_conf()")
        while refusal(store, number):
            assert store.load().epoch == number - 1
        assert store.load().epoch == number


def refusal(store: Store, number: int) -> str:
    """Why a change is not taken; empty: it is."""
    try:
        store.commit(step(number))
    except StoreError as error:
        return str(error)
    return ""
