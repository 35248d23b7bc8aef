"""The store: one transaction for each change; a restart reads all of it."""

from __future__ import annotations

import logging
import multiprocessing
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import sqlalchemy as sa

from controller.core.change_number import ChangeNumber
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import SavedState, StateChange
from controller.model.errors import InputError, NotFoundError
from controller.store.codec import DamagedError
from controller.store.database import Database
from controller.store.errors import OvertakenError, StoreError
from controller.store.fence import Fence, never, no_fence, of_term
from controller.store.last_change import LAST_CHANGE, id_after, number_of, set_last_change
from controller.store.location import parse
from controller.store.recent_changes import Doubt, RecentChanges
from controller.store.rewriting import Rewriter
from controller.store.saved_rows import PLAN_WITH_PATHS, SavedRows, load_rows, snapshot, state_of
from controller.store.schema import PLANS, SETTINGS
from controller.store.sqlite import IMMEDIATE, MemoryDatabase, SqliteFile
from controller.store.store_mapping import (
    RowChanges,
    apply,
    inverse,
    plan_from,
    prune_plans,
    rows_of,
)
from controller.store.upgrade import upgrade

LOG = logging.getLogger(__name__)

TURN_SECONDS = 60.0
"""Longer than any wait for a database that has a limit of its own."""

T = TypeVar("T")


class Store:
    """The saved state of one controller. Every method may be called from any thread and blocks it.

    Calls of several threads run one after another. Code under eventlet calls them through its thread pool, and with few
    threads at a time: a server that does not answer blocks each of them for seconds.

    Attributes:
        overtaken: whether the database has changes that this controller does not know of, or has lost some that it
            made, as an asynchronous standby does that takes over. Nothing is written any more.
    """

    def __init__(self, database: Database, plans_kept: int) -> None:
        """Keep the database; use ``open`` instead."""
        self._database = database
        self._plans_kept = plans_kept
        # An operating-system semaphore. Eventlet replaces threading's locks by some that greenlets of one thread can
        # share, and threads cannot; it leaves this kind alone.
        self._turn = multiprocessing.get_context("fork").Lock()
        self._connection: sa.Connection | None = None
        self._closed = False
        self.overtaken = False
        self._last_change = ""
        self._recent = RecentChanges("", 0)
        self._fence: Fence = no_fence
        self._term: int | None = None
        self._doubt: Doubt | None = None
        self._rewriter = Rewriter(database) if isinstance(database, SqliteFile) else None

    @staticmethod
    def open(url: str, *, plans_kept: int = 1000, replica: str | None = None, new: bool = False) -> Store:
        """Create the store if it is missing, bring its tables up to date, and keep other controllers out.

        A replica of a cluster shares the store with the others; it writes nothing, and leaves their tables, before
        ``lead``.

        Args:
            url: ``sqlite:////FOLDER/FILE``, ``postgresql://USER@HOST/DATABASE``, or ``memory``: nothing is kept.
            plans_kept: how many plans stay in the history, at least one.
            replica: the id of this replica of a cluster; ``None``: a single controller.
            new: use an empty file (0 bytes), which is refused otherwise.

        Raises:
            InputError: an argument cannot be used.
            StoreError: the store is in use, has lost its content, belongs to another program, is newer or damaged, or
                cannot be reached.
        """
        if plans_kept < 1:
            raise InputError("must be at least 1", field="plans_kept", value=plans_kept)
        store = Store(database_of(parse(url), replica, new=new), plans_kept)
        if replica is not None:
            store._fence = never
        store._database.claim()
        try:
            with store._in_turn():
                store._last_change = store._attempt(store._prepare, write=True)
                store._recent = RecentChanges(store._last_change, store._database.recent_bytes)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def shown(self) -> str:
        """The store's location, for people: a file, or a URL without its secrets."""
        return self._database.shown

    def load(self) -> SavedState:
        """Return everything but the older plans.

        Raises:
            StoreError: it cannot be read.
        """
        saved = self.read()[1]
        if self._rewriter is not None:
            self._rewriter.hold(saved)
        return saved

    @property
    def change(self) -> ChangeNumber | None:
        """The number of the last change that this controller has made or read as a leader; ``None``: it has none."""
        return number_of(self._last_change)

    def read(self, known: SavedState | None = None) -> tuple[ChangeNumber | None, SavedState]:
        """Return what another replica has stored, at one moment, and the number of its last change.

        ``known``: an earlier result; what is the same since then is not read again.

        Raises:
            StoreError: it cannot be read.
        """

        def look(connection: sa.Connection) -> tuple[str, SavedRows]:
            snapshot(connection)
            return str(connection.scalar(LAST_CHANGE)), load_rows(connection, known)

        with self._in_turn():
            last, rows = self._attempt(look, write=False)
            return number_of(last), self._saved(rows)

    def lead(self, replica: str, term: int, known: SavedState | None = None) -> SavedState:
        """Write as the leader of a cluster from now on, for as long as its term is ``term``; return what is stored.

        The tables are brought up to date. ``known``: as in ``read``.

        Raises:
            StoreError: it cannot be read, or the term has ended.
        """
        fence = of_term(self.shown, replica, term)

        def take(connection: sa.Connection) -> tuple[str, str, SavedRows]:
            fence(connection)
            # No replica that works needs the earlier tables: this one was elected (``controller.store.election``).
            upgrade(connection, self.shown)
            # Higher than all numbers of earlier terms: clients may know some that the database has lost.
            last = str(connection.scalar(LAST_CHANGE))
            begin = id_after(last, term)
            set_last_change(connection, begin)
            return last, begin, load_rows(connection, known)

        with self._in_turn():
            last, self._last_change, rows = self._attempt(take, write=True)
            self._recent = RecentChanges(last, self._database.recent_bytes)
            self._recent.add(self._last_change, RowChanges())
            self._fence, self._term = fence, term
            return self._saved(rows)

    def _saved(self, rows: SavedRows) -> SavedState:
        try:
            return state_of(rows)
        except DamagedError as error:
            raise StoreError(f"{self.shown} is damaged: {error}") from None

    def instance(self) -> int:
        """Return a number from 1 to 65535, drawn once for each store; cookies of rules carry it.

        Raises:
            StoreError: it cannot be read, or not be kept.
        """

        def known(connection: sa.Connection) -> int:
            row = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "instance")
            # Of replicas that start together, one draws it.
            connection.scalar(LAST_CHANGE.with_for_update())
            value = connection.scalar(row)
            if value is None:
                value = str(secrets.randbelow(0xFFFF) + 1)
                connection.execute(sa.insert(SETTINGS).values(name="instance", value=value))
            return int(value)

        with self._in_turn():
            try:
                value = self._attempt(known, write=True)
            except ValueError:
                raise StoreError(f"{self.shown} is damaged: its instance is not a number") from None
            if self._rewriter is not None:
                self._rewriter.instance = value
            return value

    def commit(self, change: StateChange) -> None:
        """Keep all of a change, or nothing: after the return it outlives the controller and the loss of power.

        Raises:
            StoreError: it is not kept (but see ``StoreError``), and nothing else was changed.
        """
        edit = rows_of(change)

        def write(connection: sa.Connection) -> None:
            self._fence(connection)
            # The row is locked on a server: even of two controllers that a pooler lets in at once, one cannot pass.
            self._write_again(connection)
            if self._rewriter is not None:
                self._rewriter.hold_first(connection)
            undo = inverse(connection, edit)
            apply(connection, edit)
            prune_plans(connection, self._plans_kept)
            this_change = id_after(self._last_change, self._term)
            set_last_change(connection, this_change)
            self._doubt = Doubt(this_change, undo, id_after(this_change, self._term))

        with self._in_turn():
            self._unless_overtaken(write, write=True)
            assert self._doubt is not None
            self._last_change, self._doubt = self._doubt.change, None
            self._recent.add(self._last_change, edit)
            if self._rewriter is not None:
                self._rewriter.committed(change)

    def plans(self, before: int | None = None, limit: int = 50) -> list[PlanRecord]:
        """Return at most ``limit`` kept plans with epochs below ``before``, newest first, without their paths.

        Raises:
            StoreError: they cannot be read.
        """
        query = sa.select(PLANS).order_by(PLANS.c.epoch.desc()).limit(limit)
        if before is not None:
            query = query.where(PLANS.c.epoch < before)
        with self._in_turn():
            rows = self._attempt(lambda connection: connection.execute(query).all(), write=False)
        return [plan_from(row) for row in rows]

    def plan(self, epoch: int) -> PlanRecord:
        """Return a kept plan with its paths.

        Raises:
            NotFoundError: there is none of that epoch, or no longer (kind ``plan``).
            StoreError: it cannot be read.
        """
        query = PLAN_WITH_PATHS.where(PLANS.c.epoch == epoch)
        with self._in_turn():
            row = self._attempt(lambda connection: connection.execute(query).one_or_none(), write=False)
        if row is None:
            raise NotFoundError("plan", str(epoch))
        try:
            return plan_from(row, row.paths)
        except DamagedError as error:
            raise StoreError(f"{self.shown}: plan {epoch} is damaged: {error}") from None

    def check(self) -> None:
        """Check that committed changes are there and will be found after a restart; repair the database if possible.

        Whoever has called this once calls it every few seconds: another controller may take over the database of one
        that is silent (``controller.store.postgres``).

        Raises:
            StoreError: it will not, or the database cannot be reached.
        """

        def write(connection: sa.Connection) -> None:
            self._fence(connection)
            self._write_again(connection)

        with self._in_turn():
            if self._connection is None:
                if self._rewriter is not None and self._rewriter.damaged:
                    self._connection = self._undamaged()
                return
            if not self._database.check():
                self._connection = self._mended(self._connection)
            if not self._attempt(self._is_current, write=False):
                self._unless_overtaken(write, write=True)

    def close(self) -> None:
        """Let another controller in. Harmless when called twice; all other calls then raise ``StoreError``."""
        with self._in_turn():
            self._closed = True
            self._disconnect()
            self._database.release()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """Hold the lock for one thread; raise ``StoreError`` when a disk or a server does not answer for too long."""
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise StoreError(f"{self.shown} did not answer in time")
        try:
            yield
        finally:
            self._turn.release()

    def _is_current(self, connection: sa.Connection) -> bool:
        self._database.beat(connection)
        return connection.scalar(LAST_CHANGE) == self._last_change

    def _write_again(self, connection: sa.Connection) -> None:
        """Make changes again that the database has lost."""
        last = str(connection.scalar(LAST_CHANGE.with_for_update()))
        lost = self._recent.after(last)
        if lost is None:
            raise OvertakenError(
                f"{self.shown} was changed by another program, or has lost changes; restart the controller"
            )
        for edit in lost:
            apply(connection, edit)
        if lost:
            prune_plans(connection, self._plans_kept)
            set_last_change(connection, self._last_change)
            LOG.warning("%s had lost the last %d changes; they were written again", self.shown, len(lost))

    def _unless_overtaken(self, work: Callable[[sa.Connection], None], *, write: bool) -> None:
        try:
            self._attempt(work, write=write)
        except OvertakenError:
            self.overtaken = True
            # The other controller may need the lock that came with the connection.
            self._disconnect()
            raise

    def _prepare(self, connection: sa.Connection) -> str:
        upgrade(connection, self.shown, shared=self._fence is not no_fence)
        return str(connection.scalar(LAST_CHANGE))

    def _attempt(self, work: Callable[[sa.Connection], T], *, write: bool) -> T:
        """Do it in a transaction; once more with a new connection where an old one turns out to be lost."""
        if self._closed:
            raise StoreError(f"{self.shown} is closed")
        while True:
            connected_before = self._connection is not None
            try:
                return self._transaction(work, write)
            except sa.exc.SQLAlchemyError as error:
                lost = isinstance(error, sa.exc.DBAPIError) and error.connection_invalidated
                if lost:
                    self._disconnect()
                if not (lost and connected_before):
                    raise StoreError(self._database.reason(error)) from None

    def _transaction(self, work: Callable[[sa.Connection], T], write: bool) -> T:
        self._connection = self._undamaged()
        if write and not self._database.check():
            self._connection = self._mended(self._connection)
        if self._doubt is not None:
            self._settle(self._connection, self._doubt)
        self._connection.execution_options(**{IMMEDIATE: write})
        with self._connection.begin():
            result = work(self._connection)
        if write:
            self._make_last(self._connection)
        return result

    def _undamaged(self) -> sa.Connection:
        """Return the connection, to a database that was written anew if another program has overwritten it.

        Raises:
            StoreError: it cannot be written.
        """
        connection = self._connection
        if self._rewriter is None or not self._rewriter.is_damaged(
            self._last_changes(), connected=connection is not None
        ):
            return connection or self._database.connect()
        self._disconnect()
        self._rewriter.write_anew(self._last_change)
        return self._database.connect()

    def _last_changes(self) -> set[str]:
        """Return the ids of changes that the database may hold as its last one."""
        return {self._last_change} | (set() if self._doubt is None else {self._doubt.change, self._doubt.undone})

    def _make_last(self, connection: sa.Connection) -> None:
        """Ensure after a commit that a restart finds it.

        Raises:
            StoreError: it does not; the change is in doubt.
        """
        if self._database.check():
            self._database.keep(connection)
        if not self._database.check():
            self._connection = self._mended(connection)

    def _mended(self, connection: sa.Connection) -> sa.Connection:
        """Return a new connection to a database with the content of the old one."""
        connection.execution_options(**{IMMEDIATE: False})
        with connection.begin():
            if connection.scalar(LAST_CHANGE) not in self._last_changes():
                raise StoreError(f"{self.shown} was removed, and the remaining files are incomplete")
        self._connection = None
        try:
            self._database.mend(connection)
        except BaseException:
            # Only this connection still sees the data.
            self._connection = connection if not connection.closed else None
            raise
        LOG.warning("%s: files of the database were removed; they were written again with all data", self.shown)
        return self._database.connect()

    def _settle(self, connection: sa.Connection, doubt: Doubt) -> None:
        """Undo a failed change if it was committed all the same: the connection broke before the acknowledgement."""
        connection.execution_options(**{IMMEDIATE: False})
        with connection.begin():
            self._fence(connection)
            last = connection.scalar(LAST_CHANGE)
            if last == doubt.change:
                # A change of its own: another replica may have read the one that is undone.
                apply(connection, doubt.undo)
                set_last_change(connection, doubt.undone)
        if last in (doubt.change, doubt.undone):
            self._last_change = doubt.undone
            self._recent.add(doubt.undone, doubt.undo)
        self._doubt = None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                connection.close()


def database_of(url: sa.URL, replica: str | None, *, new: bool = False) -> Database:
    """Return the database of a URL; nothing is connected yet.

    ``replica``: the id of this replica of a cluster. ``new``: an empty file is a new database.

    Raises:
        InputError: replicas cannot share a database of this kind.
    """
    if url.drivername != "sqlite":
        # Its client takes as long to load as SQLAlchemy.
        from controller.store.postgres import PostgresDatabase

        return PostgresDatabase(url, replica)
    if replica is not None:
        raise InputError("replicas of a cluster need a store in PostgreSQL", field="store")
    return SqliteFile(url, new=new) if url.database else MemoryDatabase()
