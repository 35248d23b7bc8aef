"""A PostgreSQL server of the tests' own: Debian's programs, a socket in a folder of its own, no TCP, ended by handle.

``postgres_url`` is a fresh database for one test; ``postgres_server`` is the server, to be stopped, killed and started.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian's package ``postgresql`` puts them, a folder for each version."""

READY_SECONDS = 180.0
OWNER = "fairspine"

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "30",
    "shared_buffers": "16MB",
    # The machine is not switched off in a test, and nothing less loses what was written.
    "fsync": "off",
    "autovacuum": "off",
}


def programs() -> Path | None:
    """The folder of the newest server programs; ``None``: there are none."""
    found = [path.parent for path in PROGRAMS.glob("*/bin/postgres") if (path.parent / "initdb").exists()]
    return max(found, key=lambda path: float(path.parent.name), default=None)


class PostgresServer:
    """A server with its data in a folder that is removed on ``close``."""

    def __init__(self, *, mounted: str = "") -> None:
        """``mounted``: options of a tmpfs at ``self.small``, in a mount namespace of the server's own (needs root)."""
        folder = programs()
        assert folder is not None
        self._programs = folder
        # Short, because names of sockets are; its user must reach it.
        self.folder = Path(tempfile.mkdtemp(prefix="fspg"))
        self.small = self.folder / "small"
        self._mounted = mounted
        self._process: subprocess.Popen[bytes] | None = None
        self.small.mkdir()
        if os.geteuid() == 0:
            for path in (self.folder, self.small):
                shutil.chown(path, "postgres", "postgres")
        # The last rule that applies is the first that is written: one role has a password, the owner needs none.
        self._run("initdb", "-U", OWNER, "-E", "UTF8", "--no-locale", "-A", "trust", "--no-sync", "-D", "data")
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())

    def start(self) -> None:
        """Start it and wait until it answers. Harmless when it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = self._as_user(self._program("postgres"), "-D", "data", "-k", str(self.folder), *settings)
        if self._mounted:
            mount = f'mount -t tmpfs -o "{self._mounted}" tmpfs "$0" && exec "$@"'
            command = ["unshare", "--mount", "sh", "-c", mount, str(self.small), *command]
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
            while self._process.poll() is None:
                try:
                    psycopg.connect(self.url("postgres"), connect_timeout=20).close()
                    return
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline, (self.folder / "log").read_text()
                    time.sleep(0.05)
            # After a kill it does not start before the last of the old processes has gone.
            assert time.monotonic() < deadline, (self.folder / "log").read_text()
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """End it the way an administrator does who does not wait for clients ("fast")."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """SIGKILL to all its processes at once."""
        self._end(signal.SIGKILL)

    def stall(self, stalled: bool) -> None:
        """Stop all its processes where they are, or let them go on."""
        self._signal_all(signal.SIGSTOP if stalled else signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        """To the server and its children, each of which has a session of its own."""
        # Stopped, it makes no further ones.
        os.kill(self.pid, signal.SIGSTOP)
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        for pid in (self.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end(self, number: int) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        if number == signal.SIGKILL:
            self._signal_all(number)
        else:
            process.send_signal(number)
        process.wait(READY_SECONDS)

    def close(self) -> None:
        """End it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder)

    def url(self, database: str, *, user: str = OWNER, password: str = "") -> str:
        """The URL of a database, by the socket."""
        return f"postgresql://{user}{':' * bool(password)}{password}@/{database}?host={self.folder}"

    def sql(self, database: str, statement: str) -> None:
        """What an administrator does, outside of any transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def create(self, options: str = "") -> str:
        """A new database; its name."""
        name = f"db{uuid4().hex[:12]}"
        self.sql("postgres", f"CREATE DATABASE {name} {options}")
        return name

    def drop(self, database: str) -> None:
        """Remove it, whoever uses it."""
        self.sql("postgres", f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _as_user(self, *command: str) -> list[str]:
        """A command as the server's user (it refuses to be root), which ends with this process."""
        become = ["setpriv", "--pdeathsig", "KILL"]
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            become += ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
        return [*become, "--", *command]

    def _run(self, name: str, *arguments: str) -> None:
        command: Sequence[str] = self._as_user(self._program(name), *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def need_postgres() -> None:
    """Skip the test where there is no PostgreSQL, but not in CI."""
    if programs() is None:
        lacking = "the tests need PostgreSQL's server: apt-get install postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(lacking)
        pytest.skip(lacking)


@pytest.fixture(scope="session")
def postgres_session() -> Iterator[PostgresServer]:
    """The server of all tests."""
    need_postgres()
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres_server(postgres_session: PostgresServer) -> PostgresServer:
    """The running server, whatever a test before has done to it."""
    postgres_session.start()
    return postgres_session


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh database on the server."""
    name = postgres_server.create()
    yield postgres_server.url(name)
    postgres_server.start()
    postgres_server.drop(name)
