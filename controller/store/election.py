"""The election of a cluster's leader in a PostgreSQL database.

The leader holds an advisory lock in a session of its own and counts up ``beats`` in the row of the cluster. Another
replica takes over if the lock is free, because the leader's process or machine has ended and the server has noticed; or
if ``beats`` has not changed for a lease by the clock of the replica that watches, because the leader is stopped or cut
off from the server. Then the watching replica ends all sessions of the leader, which frees the lock. A replica whose
own session was lost, as all are when the server is restarted or a standby takes over, gives the leader a lease to come
back.

A replica that knows newer tables than another one that works does not stand for election, so that the tables change
only when every replica knows the new ones.

Taking over is one transaction: the term grows by one at least, and the row names the new leader. Each commit of a
leader checks its term in the transaction that writes (``Store.lead``), so a commit of an earlier term fails. No
decision depends on the time of day of any machine.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
from packaging.version import Version
from sqlalchemy.dialects.postgresql import insert

from controller.core.cluster_standing import ClusterSettings, ClusterStanding, ReplicaEntry
from controller.model.errors import InputError
from controller.store.errors import StoreError
from controller.store.last_change import LAST_CHANGE, number_of
from controller.store.location import parse, shown
from controller.store.postgres import engine_of, reason_of, session_of
from controller.store.schema import CLUSTER, REPLICAS
from controller.store.term_reader import TermReader
from controller.store.upgrade import check_known, steps

LOG = logging.getLogger(__name__)

LEADER_KEY = int.from_bytes(b"fairslea", "big")
"""Of the advisory lock that the leader holds."""

FORGET_SECONDS = 3600.0
"""Seconds after which a replica that is not heard is no longer listed, by the clock of another one that listens."""

LIVE_LEASES = 3
"""Leases in which a replica is heard if it works; one that starts again is missing for longer."""

T = TypeVar("T")


class _Listening(NamedTuple):
    """What a replica has heard of another one.

    Attributes:
        heard: when the store heard of that one last, by the store's clock, which may be set at any time: only whether
            it changes counts.
        since: when it had changed last, or was seen first, by this replica's clock.
        worked: whether it has changed while this replica listened, or was young when it was seen first.
    """

    heard: float
    since: float
    worked: bool


_NOW = sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)


class Election:
    """The part of one replica in the election; implements ``controller.core.ports.election.Electoral``."""

    def __init__(self, url: str, settings: ClusterSettings, *, fabric: str, step: str = "") -> None:
        """Prepare the part of a replica; nothing is connected yet.

        Args:
            url: of the store, a PostgreSQL database.
            settings: the cluster, its lease and this replica.
            fabric: a hash of its fabric file; all replicas need the same.
            step: the newest step of the tables that this program knows (default: the newest there is).
        """
        self._url = parse(url)
        self._cluster, self._me, self._lease = settings.name, settings.me, settings.lease
        self._fabric, self._step = fabric, step or steps()[0]
        # What a server forgets in a crash is at most a beat. A take-over waits for the disk (``_take_over``).
        self._engine = engine_of(
            self._url,
            _session(self._me.id),
            synchronous_commit="off",
            statement_timeout=f"{max(1000, round(1000 * self._lease))}ms",
        )
        self._terms = TermReader(self._url, self._me.id, seconds=max(1.0, self._lease))
        self._connection: sa.Connection | None = None
        self._holds_lock = False
        self._watched: tuple[str, int, int] | None = None
        self._watched_since = 0.0
        # Whether its connection was lost, and that of the leader perhaps, too, which then needs time to take its lock
        # again.
        self._reconnected = False
        self._others: dict[str, _Listening] = {}
        self._term: int | None = None
        self._resigned = False
        # The end of the program resigns while a beat may be under way in another thread. A lock of ``threading`` would
        # belong to eventlet's greenlets of one thread.
        self._turn = multiprocessing.get_context("fork").Lock()

    def check(self) -> None:
        """Check that this replica fits to the cluster of this database.

        Raises:
            InputError: the database belongs to another cluster; the leader that works is of a later version, or has
                another lease or fabric.
            StoreError: the database cannot be read.
        """
        row = self._attempt(lambda connection: connection.execute(sa.select(CLUSTER)).one_or_none())
        if row is None:
            return
        if row.name != self._cluster:
            raise InputError(f"the store belongs to the cluster {row.name}", field="cluster_name", value=self._cluster)
        if not self._attempt(_is_led):
            return
        if Version(row.version) > Version(self._me.version):
            raise InputError(
                f"the leader of cluster {row.name} has version {row.version}, this replica {self._me.version}",
                field="cluster_name",
                value=self._cluster,
            )
        if row.lease != self._lease:
            raise InputError(f"the leader of cluster {row.name} has {row.lease:g}", field="lease", value=self._lease)
        if row.fabric != self._fabric:
            raise InputError(f"the fabric file differs from that of the leader of cluster {row.name}", field="fabric")

    def beat(self, seen: int = 0, switches: int = 0) -> ClusterStanding:
        """Say that this replica works, and how many switches it has; take over if nobody leads."""
        return self._attempt(lambda connection: self._beat(connection, seen, switches))

    def leads(self, term: int) -> bool:
        """Return whether the store says that the term of this replica has not ended; may be called beside ``beat``."""
        return self._terms.leads(term)

    def resign(self, seen: int = 0) -> None:
        """Let another replica lead, at once; also called at the end of the program. This one does not stand again."""
        self._resigned = True
        with self._turn:
            # A beat that was under way has ended, and no later one takes over.
            term = self._term
        with suppress(StoreError):
            if term is not None:
                self._attempt(lambda connection: self._leave(connection, term, seen))
        with self._turn:
            self._term = None
            self._disconnect()

    # -- in a transaction ------------------------------------------------------------------------------------------

    def _beat(self, connection: sa.Connection, seen: int, switches: int) -> ClusterStanding:
        if self._term is None:
            # It may have been stopped while a newer leader changed the tables. It is not heard any more, then, so that
            # newer replicas do not wait for it.
            check_known(connection, shown(self._url))
        self._listen(connection)
        if self._term is None or not self._renewed(connection, self._term):
            self._term = None
            if not self._resigned and not self._comes_first(connection, switches):
                self._term = self._stand(connection, seen)
        row = {
            "id": self._me.id,
            "url": self._me.url,
            "version": self._me.version,
            "step": self._step,
            "heard": _NOW,
            "switches": switches,
        }
        changed = {"heard": _NOW, "switches": switches}
        connection.execute(insert(REPLICAS).values(row).on_conflict_do_update(index_elements=["id"], set_=changed))
        self._forget(connection)
        return self._standing(connection)

    def _listen(self, connection: sa.Connection) -> None:
        """Note which other replicas the store has heard of since the last beat."""
        now, before = _clock(), self._others
        self._others = {}
        rows = sa.select(REPLICAS.c.id, REPLICAS.c.heard, (_NOW - REPLICAS.c.heard).label("age"))
        for row in connection.execute(rows.where(REPLICAS.c.id != self._me.id)):
            known = before.get(row.id)
            if known is None:
                known = _Listening(row.heard, now, row.age <= LIVE_LEASES * self._lease)
            elif known.heard != row.heard:
                known = _Listening(row.heard, now, worked=True)
            self._others[row.id] = known

    def _forget(self, connection: sa.Connection) -> None:
        """Remove replicas that have been silent for long. Others find the leader by its row, so that one stays."""
        now = _clock()
        silent = [each for each, known in self._others.items() if now - known.since > FORGET_SECONDS]
        if silent:
            leader = sa.select(CLUSTER.c.leader).scalar_subquery()
            gone = sa.delete(REPLICAS).where(REPLICAS.c.id.in_(silent), REPLICAS.c.id.is_distinct_from(leader))
            connection.execute(gone)

    def _renewed(self, connection: sa.Connection, term: int) -> bool:
        """Count a beat of the leader; return whether it still leads."""
        # It went with the connection, if this is a new one, which the server may not have noticed yet.
        self._locks(connection)
        done = connection.execute(
            sa.update(CLUSTER)
            .where(CLUSTER.c.term == term, CLUSTER.c.leader == self._me.id)
            .values(beats=CLUSTER.c.beats + 1)
        )
        return done.rowcount == 1

    def _comes_first(self, connection: sa.Connection, switches: int) -> bool:
        """Return whether another replica that works, as far as this one has seen, is to lead before this one.

        That is one that does not know the tables of this program, and, if no switch is connected to this replica, one
        that has some.
        """
        now, first = _clock(), False
        others = sa.select(REPLICAS, (REPLICAS.c.step < self._step).label("earlier"), CLUSTER.c.leader).where(
            REPLICAS.c.id != self._me.id
        )
        for row in connection.execute(others.outerjoin_from(REPLICAS, CLUSTER, sa.true())):
            known = self._others.get(row.id)
            silent = 0.0 if known is None else now - known.since
            if row.earlier:
                first |= silent <= LIVE_LEASES * self._lease
            elif row.switches and not switches and row.id != row.leader:
                first |= silent <= self._lease
        return first

    def _stand(self, connection: sa.Connection, seen: int) -> int | None:
        """Take over if nobody leads; return the new term."""
        row = connection.execute(sa.select(CLUSTER.c.leader, CLUSTER.c.term, CLUSTER.c.beats)).one_or_none()
        watched = None if row is None else (str(row.leader), int(row.term), int(row.beats))
        now = _clock()
        if watched != self._watched:
            # The first look after a connection tells nothing, a change since then does: the leader has come back.
            self._reconnected = self._reconnected and self._watched is None
            self._watched, self._watched_since = watched, now
        silent = now - self._watched_since > self._lease
        if self._reconnected and watched is not None and watched[0] and not silent:
            return None
        if self._locks(connection):
            return self._take_over(connection, seen)
        if silent and watched is not None:
            LOG.warning("the leader of cluster %s has been silent for %g s", self._cluster, self._lease)
            _end_sessions(connection, watched[0])
        return None

    def _locks(self, connection: sa.Connection) -> bool:
        """Take the lock of the leader unless this session has it; return whether it has."""
        if not self._holds_lock:
            taken = connection.scalar(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": LEADER_KEY})
            self._holds_lock = bool(taken)
        return self._holds_lock

    def _take_over(self, connection: sa.Connection, seen: int) -> int:
        connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
        earlier = connection.scalar(sa.select(CLUSTER.c.leader))
        if earlier and earlier != self._me.id:
            # It may be in the middle of a commit, which locks the row.
            _end_sessions(connection, earlier)
        row = connection.execute(sa.select(CLUSTER).with_for_update()).one_or_none()
        if row is not None and row.name != self._cluster:
            raise StoreError(f"the store belongs to the cluster {row.name}")
        term = max(0 if row is None else row.term, seen) + 1
        values = {
            "name": self._cluster,
            "term": term,
            "leader": self._me.id,
            "beats": 0,
            "fabric": self._fabric,
            "version": self._me.version,
            "lease": self._lease,
            "elected": _NOW,
        }
        connection.execute(sa.insert(CLUSTER).values(values) if row is None else sa.update(CLUSTER).values(values))
        return term

    def _leave(self, connection: sa.Connection, term: int, seen: int) -> None:
        connection.execute(sa.text("SET LOCAL synchronous_commit = on"))
        # The next leader's term is higher than what switches know.
        connection.execute(
            sa.update(CLUSTER)
            .where(CLUSTER.c.term == term, CLUSTER.c.leader == self._me.id)
            .values(term=max(term, seen), leader="")
        )

    def _standing(self, connection: sa.Connection) -> ClusterStanding:
        row = connection.execute(sa.select(CLUSTER)).one_or_none()
        members = tuple(
            ReplicaEntry(
                each.id,
                each.url,
                each.version,
                each.heard,
                self._is_live(each.id),
                each.switches,
            )
            for each in connection.execute(sa.select(REPLICAS).order_by(REPLICAS.c.url, REPLICAS.c.id))
        )
        if row is None:
            return ClusterStanding(members=members)
        change = number_of(str(connection.scalar(LAST_CHANGE)))
        return ClusterStanding(row.term, row.leader, row.term == self._term, row.elected, members, change)

    def _is_live(self, replica: str) -> bool:
        """Return whether a replica works, as far as this one has heard; it has not listened yet to a new one."""
        known = self._others.get(replica)
        return known is None or (known.worked and _clock() - known.since <= LIVE_LEASES * self._lease)

    # -- the connection --------------------------------------------------------------------------------------------

    def _attempt(self, work: Callable[[sa.Connection], T]) -> T:
        """Do it in a transaction, with a new connection where there is none; one at a time."""
        with self._turn:
            before = self._term
            try:
                if self._connection is None:
                    self._connection = self._engine.connect()
                    self._watched = None
                with self._connection.begin():
                    return work(self._connection)
            except sa.exc.SQLAlchemyError as error:
                # The lock goes with the connection, and with it whatever the transaction has decided.
                self._term = before
                self._reconnected = self._reconnected or self._connection is not None
                self._disconnect()
                raise StoreError(reason_of(error, self._url)) from None

    def _disconnect(self) -> None:
        connection, self._connection, self._holds_lock = self._connection, None, False
        if connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                connection.close()


_LED = sa.text(
    "SELECT EXISTS (SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database "
    "WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database() "
    "AND (classid::bigint << 32 | objid::bigint) = :key)"
)


def _is_led(connection: sa.Connection) -> bool:
    """Return whether some replica leads now."""
    return bool(connection.scalar(_LED, {"key": LEADER_KEY}))


def _end_sessions(connection: sa.Connection, replica: str) -> None:
    connection.execute(
        sa.text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND (application_name = :election OR application_name LIKE :store || '%')"
        ),
        {"election": _session(replica), "store": session_of(replica)},
    )


def _session(replica: str) -> str:
    return f"fairspine-election-{replica}"


def _clock() -> float:
    """Return the seconds of a clock that goes on while the machine sleeps and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
