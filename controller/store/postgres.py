"""A store in a PostgreSQL database.

One connection does everything and holds an advisory lock: as long as it lives, no other controller can use the
database, and when it is lost so is the lock (PostgreSQL, "Explicit Locking", section "Advisory Locks"). The lock
belongs to the session, so nothing between may share sessions out by transaction (pgbouncer's ``transaction`` mode).

The kernel of a process that is stopped or hangs still answers the server, which therefore keeps its lock. So a running
controller sends a statement every few seconds, and its session's name says that it does. Another controller ends such
a session once it has sent nothing for ``SILENT_SECONDS``, and takes the lock. The ended session commits nothing more.
"""

from __future__ import annotations

import logging
import time
from typing import Any
from uuid import uuid4

import psycopg
import sqlalchemy as sa
from psycopg.abc import RV, PQGen
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from controller.store.errors import StoreError, StoreTakenError
from controller.store.location import shown, without_secrets

LOG = logging.getLogger(__name__)

LOCK_KEY = int.from_bytes(b"fairspne", "big")
"""Of the advisory lock: eight letters of our name. Such keys are known to one database only."""

CLAIM_SECONDS = 3.0
"""Seconds that a server may need to notice that the earlier controller has ended."""

SILENT_SECONDS = 15.0
"""Seconds without a statement after which the holder of the lock counts as stopped; while it runs, it sends one every
2 s."""

_BEATS = "-beats"
"""Ends the name of a session whose controller sends statements regularly."""

RECENT_BYTES = 64 * 1024 * 1024
"""Of changes in memory. An asynchronous standby is rarely behind by more than some seconds."""

_RETRY_SECONDS = 0.1

_HOLDER = sa.text(
    "SELECT pid, CASE WHEN state = 'active' AND wait_event_type IS DISTINCT FROM 'Client' "
    "THEN clock_timestamp() ELSE state_change END AS heard "
    "FROM pg_stat_activity JOIN pg_locks USING (pid) "
    "WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database() "
    "AND mode = 'ExclusiveLock' AND pg_locks.database = datid AND (classid::bigint << 32 | objid::bigint) = :key "
    "AND application_name LIKE '%' || :beats AND state_change IS NOT NULL"
)
"""The session that holds the lock, if it should send statements regularly. While the server works for it, ``heard`` is
another one each time."""

_CONNECT = {
    "connect_timeout": 5,
    "client_encoding": "utf8",
    # A server that stops answering is given up within some 15 s.
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""Parameters of libpq ("Database Connection Control Functions"), unless the URL says otherwise."""

ANSWER_SECONDS = 30.0
"""Seconds that a server may take over one statement before it counts as lost, although it is still connected."""

_SESSION = {
    # Shorter than ``ANSWER_SECONDS``, so that the server reports the reason if it can.
    "statement_timeout": "20s",
    "lock_timeout": "10s",
    # So that the lock of a controller whose host fails is not held for the usual two hours.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
"""Parameters of the server for our session."""

_REASONS = {
    "53100": "the server's disk is full",
    "53300": "the server accepts no more connections",
    "25006": "the server is read-only",
    "55P03": "another program holds a lock on it",
    "57014": "the server took too long",
}
"""Messages for people by SQLSTATE (PostgreSQL, appendix "Error Codes"), where they are clearer than the server's."""


class _ImpatientConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer: libpq itself would wait forever."""

    def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        return super().wait(self._limited(gen), *arguments, **named)

    def _limited(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Wrap the generator; psycopg resumes it every tenth of a second, and when the server sends something."""
        deadline = time.monotonic() + ANSWER_SECONDS
        try:
            awaited = next(gen)
            while True:
                ready = yield awaited
                if not ready and time.monotonic() > deadline:
                    self.close()
                    raise psycopg.OperationalError("the server does not answer")
                awaited = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result


def _connect(_dialect: Any, _record: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    return _ImpatientConnection.connect(*arguments, **named)


def new_id() -> str:
    """Return a new id of a controller, by which the server's list of sessions names it."""
    return uuid4().hex[:12]


def session_of(controller: str) -> str:
    """Return the name of the store's session of a controller, or its beginning."""
    return f"fairspine-{controller}"


def engine_of(url: URL, session: str, **of_server: str) -> sa.Engine:
    """Return an engine whose connections have this name; nothing is connected yet.

    Args:
        url: of the database.
        session: the name in the server's list of sessions.
        of_server: parameters of the server for these sessions, besides and before ours.
    """
    given = url.query.get("options", "")
    options = " ".join(f"-c {name}={value}" for name, value in (_SESSION | of_server).items())
    # The administrator's options come last and take precedence.
    given = given if isinstance(given, str) else " ".join(given)
    arguments = {name: value for name, value in _CONNECT.items() if name not in url.query}
    arguments |= {"application_name": session, "options": f"{options} {given}".strip()}
    engine = sa.create_engine(url, poolclass=NullPool, hide_parameters=True, connect_args=arguments)
    sa.event.listen(engine, "do_connect", _connect)
    return engine


def reason_of(error: BaseException, url: URL) -> str:
    """Describe an error in one line, without any secret of the URL."""
    cause: Any = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    text = _REASONS.get(getattr(cause, "sqlstate", None) or "") or str(cause).partition("\n")[0]
    return f"{shown(url)}: {without_secrets(text, url) or type(cause).__name__}"


class PostgresDatabase:
    """Implements ``controller.store.database.Database``."""

    recent_bytes = RECENT_BYTES

    def __init__(self, url: URL, replica: str | None = None) -> None:
        """Configure the engine; nothing is connected yet.

        Args:
            url: of the database.
            replica: the id of this replica of a cluster, which shares the database with the others; ``None``: a
                single controller, which keeps all others out.
        """
        self.shown = shown(url)
        self._url = url
        self._session = session_of(replica or new_id())
        self._lock = "pg_try_advisory_lock" if replica is None else "pg_try_advisory_lock_shared"
        self._engine = engine_of(url, self._session)

    def claim(self) -> None:
        """Do nothing: the lock comes with the connection."""

    def connect(self) -> sa.Connection:
        """Connect, check the server, and take the lock."""
        connection = self._engine.connect()
        try:
            with connection.begin():
                self._set_up(connection)
                self._claim(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: sa.Connection) -> None:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar()
        if encoding != "UTF8":
            raise StoreError(f"{self.shown} has the encoding {encoding}; it must be UTF8")
        # A server may be configured to acknowledge writes before they are on disk; other values are left as they are.
        connection.exec_driver_sql(
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )

    def _claim(self, connection: sa.Connection) -> None:
        """Take the lock, from a lost connection of our own if need be."""
        # A lost connection of ours may live on in the server: for as long as it takes to notice, or to commit.
        connection.execute(
            sa.text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE :session || '%' AND pid <> pg_backend_pid()"
            ),
            {"session": self._session},
        )
        began, first = time.monotonic(), _holder(connection)
        while not connection.scalar(sa.text(f"SELECT {self._lock}(:key)"), {"key": LOCK_KEY}):
            waited = time.monotonic() - began
            if first is None or _holder(connection) != first:
                if waited > CLAIM_SECONDS:
                    raise StoreTakenError(f"{self.shown} is in use by another controller")
            elif waited > SILENT_SECONDS:
                LOG.warning("%s: the controller that uses it has been silent for %g s; it is ended", self.shown, waited)
                connection.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": first.pid})
                # From here on as with any session that has ended and still has its lock.
                began, first = time.monotonic(), None
            _pause(connection)

    def beat(self, connection: sa.Connection) -> None:
        """Send a statement, under a name that says that there will be more."""
        connection.execute(
            sa.text("SELECT set_config('application_name', :name, false)"), {"name": f"{self._session}{_BEATS}"}
        )

    def check(self) -> bool:
        """Return ``True``: a commit is durable on the server."""
        # The server guarantees the durability of acknowledged writes.
        return True

    def keep(self, connection: sa.Connection) -> None:
        """Do nothing: a commit suffices."""

    def mend(self, connection: sa.Connection) -> None:
        """Do nothing: the controller cannot repair the server."""

    def reason(self, error: BaseException) -> str:
        """Describe an error in one line, without any secret of the URL."""
        return reason_of(error, self._url)

    def release(self) -> None:
        """Do nothing: the lock ended with the connection."""


def _holder(connection: sa.Connection) -> sa.Row[Any] | None:
    # Within a transaction the server would show the same activity again.
    connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
    return connection.execute(_HOLDER, {"key": LOCK_KEY, "beats": _BEATS}).one_or_none()


def _pause(connection: sa.Connection) -> None:
    # The server sleeps, because eventlet's time.sleep would look for other greenlets of this thread.
    connection.execute(sa.text("SELECT pg_sleep(:seconds)"), {"seconds": _RETRY_SECONDS})
