"""The store: one transaction for each change, and everything back after a restart."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from uuid import uuid4

import sqlalchemy as sa

from controller.model.errors import InputError, NotFoundError
from controller.store.codec import DamagedError
from controller.store.database import Database
from controller.store.edit import (
    SELECT_MODE,
    Edit,
    apply,
    edit_for,
    inverse,
    job_from,
    mode_from,
    plan_from,
    prune_plans,
)
from controller.store.errors import StoreError
from controller.store.location import parse
from controller.store.postgres import PostgresDatabase
from controller.store.schema import DRAINS, JOBS, PLAN_PATHS, PLANS, SETTINGS
from controller.store.sqlite import IMMEDIATE, Memory, SqliteFile
from controller.store.upgrade import upgrade
from controller.store.values import Change, Kept, PlanRecord

TURN_SECONDS = 60.0
"""Longer than any wait for a database that has a limit of its own."""

T = TypeVar("T")
AnyRow = sa.Row[Any]

_LAST_CHANGE = sa.select(SETTINGS.c.value).where(SETTINGS.c.name == "last_change")
_PLAN_WITH_PATHS = sa.select(PLANS, PLAN_PATHS.c.paths).join(
    PLAN_PATHS, PLANS.c.epoch == PLAN_PATHS.c.epoch, isouter=True
)


class _OvertakenError(StoreError):
    """The database holds changes that this controller does not know of."""


class Store:
    """What one controller keeps. Every method may be called from any thread and blocks it.

    They take turns, also with other threads' calls. Whoever calls them from eventlet does so through its thread pool,
    and not with many threads at once: a server that has gone away holds each of them for seconds.
    """

    def __init__(self, database: Database, plans_kept: int) -> None:
        """Use ``open``."""
        self._database = database
        self._plans_kept = plans_kept
        # An operating-system semaphore. Eventlet replaces threading's locks by some that greenlets of one thread can
        # share, and threads cannot; it leaves this kind alone.
        self._turn = multiprocessing.get_context("fork").Lock()
        self._connection: sa.Connection | None = None
        self._closed = False
        self._last_change = ""
        # The last change while it is not known to be kept, and what undoes it.
        self._doubt: tuple[str, Edit] | None = None

    @staticmethod
    def open(url: str, *, plans_kept: int = 1000) -> Store:
        """Make the store where there is none, bring its tables up to date, and keep other controllers out.

        Args:
            url: ``sqlite:////FOLDER/FILE``, ``postgresql://USER@HOST/DATABASE``, or ``memory``: nothing is kept.
            plans_kept: how many plans stay in the history, at least one.

        Raises:
            InputError: an argument cannot be used.
            StoreError: the store cannot: somebody has it, it is another program's, newer, damaged, or out of reach.
        """
        if plans_kept < 1:
            raise InputError("must be at least 1", field="plans_kept", value=plans_kept)
        store = Store(_database(parse(url)), plans_kept)
        store._database.claim()
        try:
            with store._in_turn():
                store._last_change = store._attempt(store._prepare, write=True)
        except BaseException:
            store.close()
            raise
        return store

    @property
    def shown(self) -> str:
        """Where it is, for people: a file, or a URL without its secrets."""
        return self._database.shown

    def load(self) -> Kept:
        """Everything but the older plans.

        Raises:
            StoreError: it cannot be read.
        """
        with self._in_turn():
            jobs, drains, mode, plan = self._attempt(_load, write=False)
        try:
            return Kept(
                tuple(job_from(row) for row in jobs),
                frozenset(row.name for row in drains),
                mode_from(mode),
                None if plan is None else plan_from(plan, plan.paths),
            )
        except DamagedError as error:
            raise StoreError(f"{self.shown} is damaged: {error}") from None

    def commit(self, change: Change) -> None:
        """Keep all of a change, or nothing: after the return it outlives the controller and the loss of power.

        Raises:
            StoreError: it is not kept (but see ``StoreError``), and nothing else was changed.
        """
        edit = edit_for(change)
        this_change = uuid4().hex

        def write(connection: sa.Connection) -> None:
            # The row is locked on a server: even of two controllers that a pooler lets in at once, one cannot pass.
            if connection.scalar(_LAST_CHANGE.with_for_update()) != self._last_change:
                raise _OvertakenError(f"{self.shown} was changed by somebody else; restart the controller to go on")
            undo = inverse(connection, edit)
            apply(connection, edit)
            prune_plans(connection, self._plans_kept)
            _set_last_change(connection, this_change)
            self._doubt = (this_change, undo)

        with self._in_turn():
            try:
                self._attempt(write, write=True)
            except _OvertakenError:
                # Whoever did may need the lock that came with the connection.
                self._disconnect()
                raise
            self._last_change, self._doubt = this_change, None

    def plans(self, before: int | None = None, limit: int = 50) -> list[PlanRecord]:
        """At most ``limit`` kept plans with epochs below ``before``, newest first, without their paths.

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
        """A kept plan with its paths.

        Raises:
            NotFoundError: there is none of that epoch, or no longer (kind ``plan``).
            StoreError: it cannot be read.
        """
        query = _PLAN_WITH_PATHS.where(PLANS.c.epoch == epoch)
        with self._in_turn():
            row = self._attempt(lambda connection: connection.execute(query).one_or_none(), write=False)
        if row is None:
            raise NotFoundError("plan", str(epoch))
        try:
            return plan_from(row, row.paths)
        except DamagedError as error:
            raise StoreError(f"{self.shown}: plan {epoch} is damaged: {error}") from None

    def close(self) -> None:
        """Let another controller in. Harmless when called twice; all other calls then raise ``StoreError``."""
        with self._in_turn():
            self._closed = True
            self._disconnect()
            self._database.release()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        """One thread at a time, and none waits for ever behind one that a disk or a server does not answer."""
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise StoreError(f"{self.shown} has not answered for too long")
        try:
            yield
        finally:
            self._turn.release()

    def _prepare(self, connection: sa.Connection) -> str:
        upgrade(connection, self.shown)
        return str(connection.scalar(_LAST_CHANGE))

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
        if self._connection is None:
            self._connection = self._database.connect()
        if write:
            self._database.check()
        if self._doubt is not None:
            self._settle(self._connection, *self._doubt)
        self._connection.execution_options(**{IMMEDIATE: write})
        with self._connection.begin():
            return work(self._connection)

    def _settle(self, connection: sa.Connection, change: str, undo: Edit) -> None:
        """Undo a change that failed, if it was kept all the same: the connection broke while it was acknowledged."""
        connection.execution_options(**{IMMEDIATE: False})
        with connection.begin():
            if connection.scalar(_LAST_CHANGE) == change:
                apply(connection, undo)
                _set_last_change(connection, self._last_change)
        self._doubt = None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(sa.exc.SQLAlchemyError):
                connection.close()


def _set_last_change(connection: sa.Connection, change: str) -> None:
    connection.execute(sa.update(SETTINGS).where(SETTINGS.c.name == "last_change").values(value=change))


def _load(connection: sa.Connection) -> tuple[list[AnyRow], list[AnyRow], list[AnyRow], AnyRow | None]:
    jobs = connection.execute(sa.select(JOBS).order_by(JOBS.c.position, JOBS.c.name)).all()
    drains = connection.execute(sa.select(DRAINS)).all()
    mode = connection.execute(SELECT_MODE).all()
    plan = connection.execute(_PLAN_WITH_PATHS.order_by(PLANS.c.epoch.desc()).limit(1)).one_or_none()
    return list(jobs), list(drains), list(mode), plan


def _database(url: sa.URL) -> Database:
    if url.drivername != "sqlite":
        return PostgresDatabase(url)
    return SqliteFile(url) if url.database else Memory()
