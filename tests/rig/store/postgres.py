"""A PostgreSQL server of the tests' own: Debian's programs, a socket in a folder of its own, no TCP, ended by handle.

``postgres_url`` is a fresh database for one test; ``postgres_server`` is the server, to be stopped, killed and started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping

import pytest

from tests.campaigns.cluster import database
from tests.campaigns.cluster.database import programs


class PostgresServer(database.PrivatePostgres):
    """A server that an administrator can also stop, and whose disk may be small.

    ``mounted``: options of a tmpfs at ``self.small``, in a mount namespace of the server's own (needs root).
    """

    def __init__(
        self, *, mounted: str = "", primary: database.PrivatePostgres | None = None, env: Mapping[str, str] = {}
    ) -> None:
        super().__init__(primary=primary, env=env)
        self.small = self.folder / "small"
        self._mounted = mounted
        self.small.mkdir()
        self._give(self.small)
        # The last rule that applies is the first that is written: one role has a password, the owner needs none.
        rules = self.folder / "data" / "pg_hba.conf"
        rules.write_text("local all guarded scram-sha-256\n" + rules.read_text())

    def _started_by(self, command: list[str]) -> list[str]:
        if not self._mounted:
            return command
        mount = f'mount -t tmpfs -o "{self._mounted}" tmpfs "$0" && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, str(self.small), *command]

    def stop(self) -> None:
        """End it the way an administrator does who does not wait for clients ("fast")."""
        self._end(signal.SIGINT)

    def drop(self, name: str) -> None:
        """Remove a database, whoever uses it."""
        self.sql("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


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
