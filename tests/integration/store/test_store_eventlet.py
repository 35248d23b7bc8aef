"""The store under eventlet, as the controller uses it: the event loop is never blocked by the database."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.store.postgres import PostgresServer

AT_ONCE = 12
"""Epochs that ``many`` commits."""


class Program:
    """The program, and questions to it."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "tests.rig.store.under_eventlet", url]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.line() == "open"

    def ask(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """What came of the command; an answer to ``ask``."""
        while (line := self.line()) == "the loop goes on":
            pass
        return json.loads(line)

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        """It ends by itself when there are no more questions."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            assert self.process.wait(PATIENCE_SECONDS) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()


@contextmanager
def locked_file(file: Path) -> Iterator[None]:
    """Another program writes to the file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def locked_row(url: str) -> Iterator[None]:
    """Another program holds a lock on what every change writes."""
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM settings FOR UPDATE")
        yield


def test_a_commit_that_waits_for_a_locked_file_does_not_hold_the_event_loop(tmp_path: Path) -> None:
    file = tmp_path / "kept.db"
    with closing(Program(f"sqlite:///{file}")) as program:
        with locked_file(file):
            program.ask("one")
            assert program.line() == "the loop goes on"
        assert program.answer() == {"error": "", "epoch": 1}


def test_a_commit_that_waits_for_a_server_does_not_hold_the_event_loop(postgres_url: str) -> None:
    with closing(Program(postgres_url)) as program:
        with locked_row(postgres_url):
            program.ask("one")
            assert program.line() == "the loop goes on"
        assert program.answer() == {"error": "", "epoch": 1}


@pytest.mark.parametrize("kind", ["file", "server"])
def test_many_greenlets_may_use_the_store_at_once(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/kept.db" if kind == "file" else request.getfixturevalue("postgres_url")
    with closing(Program(url)) as program:
        program.ask("many")
        assert program.answer()["epoch"] == AT_ONCE


def test_a_server_that_comes_back_is_used_again_under_eventlet(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    with closing(Program(postgres_url)) as program:
        for epoch in (1, 2):
            program.ask("one")
            assert program.answer()["epoch"] == epoch
            postgres_server.stop()
            program.ask("one")
            assert "No such file" in program.answer()["error"]
            postgres_server.start()


def test_threads_and_the_event_loop_log_at_the_same_time() -> None:
    command = [sys.executable, "-m", "tests.rig.store.logs_under_eventlet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stdout) == (0, "[2000, 2000, 2000, 2000]\n"), done.stderr[-2000:]
    assert done.stderr.count("a thread: 1999\n") == 4
