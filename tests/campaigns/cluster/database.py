"""A PostgreSQL server of a campaign's or a test's own: Debian's programs, a socket in a folder, no TCP."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

import psycopg

from emulation.errors import LabError

PROGRAMS = Path("/usr/lib/postgresql")
"""Where Debian's package ``postgresql`` puts them, a folder for each version."""

READY_SECONDS = 180.0
OWNER = "fairspine"

SOCKET = ".s.PGSQL.5432"
"""Its name in the folder: PostgreSQL's own, with the port."""

_STANDBY = (
    "SELECT state, sync_state, replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication "
    "ORDER BY backend_start DESC LIMIT 1"
)

_WRITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = %s AND backend_xid IS NOT NULL AND NOT starts_with(application_name, %s)"
)

_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "30",
    "shared_buffers": "16MB",
    # The machine is not switched off here, and nothing less loses what was written.
    "fsync": "off",
    "autovacuum": "off",
    # A standby whose primary has ended looks for it again after this time, and is promoted no earlier.
    "wal_retrieve_retry_interval": "100ms",
}


def programs() -> Path | None:
    """Return the folder of the newest server programs; ``None``: there are none."""
    found = [path.parent for path in PROGRAMS.glob("*/bin/postgres") if (path.parent / "initdb").exists()]
    return max(found, key=lambda path: float(path.parent.name), default=None)


class PrivatePostgres:
    """A server with its data in a folder that is removed on ``close``; it ends with this process at the latest."""

    def __init__(
        self, *, primary: PrivatePostgres | None = None, by: Path | None = None, env: Mapping[str, str] = {}
    ) -> None:
        """Make the data of a new server.

        Args:
            primary: the new server is a standby of this one, which must run: it has the same data, and follows it.
            by: the folder of the socket at which the primary is reached (default: its own).
            env: environment variables of its processes, besides those of this one and of the primary.

        Raises:
            LabError: PostgreSQL is not installed, or refuses.
        """
        folder = programs()
        if folder is None:
            raise LabError("PostgreSQL's server is needed: apt-get install postgresql")
        self._programs = folder
        self._env: dict[str, str] = {**(primary._env if primary else {}), **env}
        # Short, because names of sockets are; its user must reach it.
        self.folder = Path(tempfile.mkdtemp(prefix="fspg"))
        self._process: subprocess.Popen[bytes] | None = None
        self._give(self.folder)
        if primary is None:
            self._run("initdb", "-U", OWNER, "-E", "UTF8", "--no-locale", "-A", "trust", "--no-sync", "-D", "data")
        else:
            source = ["-h", str(by or primary.folder), "-U", OWNER]
            self._run("pg_basebackup", *source, "-D", "data", "-R", "-X", "stream", "-c", "fast", "--no-sync")

    def start(self) -> None:
        """Start it and wait until it answers. Harmless when it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        settings = [f"-c{name}={value}" for name, value in _SETTINGS.items()]
        command = self._as_user(self._program("postgres"), "-D", "data", "-k", str(self.folder), *settings)
        deadline = time.monotonic() + READY_SECONDS
        while True:
            with (self.folder / "log").open("ab") as log:
                self._process = subprocess.Popen(
                    self._started_by(command),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    env={**os.environ, **self._env},
                )
            # After a kill it does not start before the last of the old processes has gone.
            while self._process.poll() is None:
                try:
                    psycopg.connect(self.url("postgres"), connect_timeout=20).close()
                    return
                except psycopg.OperationalError:
                    self._patience(deadline)
            self._patience(deadline)

    def wait_for_standby(self, *, synchronous: bool) -> None:
        """Wait until a standby has all that this server has.

        Args:
            synchronous: from then on, a commit waits until the standby has it, too (``synchronous_standby_names``).

        Raises:
            LabError: it does not come.
        """
        if synchronous:
            self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'")
            self.sql("postgres", "SELECT pg_reload_conf()")
        wanted = "sync" if synchronous else "async"
        deadline = time.monotonic() + READY_SECONDS
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            while connection.execute(_STANDBY).fetchone() != ("streaming", wanted, True):
                if time.monotonic() > deadline:
                    raise LabError("no standby follows PostgreSQL")
                time.sleep(0.02)

    def writing(self, database: str, besides: str) -> int:
        """Return how many transactions of a database have written and not ended.

        Args:
            database: its name.
            besides: transactions of sessions whose ``application_name`` begins so are not counted.
        """
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            row = connection.execute(_WRITING, (database, besides)).fetchone()
        assert row is not None
        return int(row[0])

    def promote(self) -> None:
        """Make this standby, whose primary has ended, a server of its own."""
        self.sql("postgres", "SELECT pg_promote()")

    @property
    def socket(self) -> Path:
        """Its Unix socket."""
        return self.folder / SOCKET

    def _started_by(self, command: list[str]) -> list[str]:
        return command

    def _patience(self, deadline: float) -> None:
        if time.monotonic() > deadline:
            raise LabError(f"PostgreSQL does not start: {(self.folder / 'log').read_text()}")
        time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Process id."""
        assert self._process is not None
        return self._process.pid

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

    def url(self, database: str, *, user: str = OWNER, password: str = "", folder: Path | None = None) -> str:
        """Return the URL of a database, by the socket in a folder (default: the server's)."""
        return f"postgresql://{user}{':' * bool(password)}{password}@/{database}?host={folder or self.folder}"

    def create(self, options: str = "") -> str:
        """Create a database and return its name."""
        name = f"db{uuid4().hex[:12]}"
        self.sql("postgres", f"CREATE DATABASE {name} {options}")
        return name

    def sql(self, database: str, statement: str) -> None:
        """Carry out a statement as an administrator, outside of any transaction."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(path, "postgres", "postgres")

    def _program(self, name: str) -> str:
        return str(self._programs / name)

    def _as_user(self, *command: str) -> list[str]:
        """Return a command as the server's user (it refuses to be root) that ends with this process."""
        become = ["setpriv", "--pdeathsig", "KILL"]
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            become += ["--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
        return [*become, "--", *command]

    def _run(self, name: str, *arguments: str) -> None:
        command: Sequence[str] = self._as_user(self._program(name), *arguments)
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise LabError(f"{name}: {done.stderr.strip()}")
