"""The kind of database that a URL names."""

from __future__ import annotations

import sqlalchemy as sa

from controller.model.errors import InputError
from controller.store.database import Database
from controller.store.postgres import PostgresDatabase
from controller.store.sqlite import MemoryDatabase, SqliteFile


def database_of(url: sa.URL, replica: str | None) -> Database:
    """Return the database of a URL; nothing is connected yet. ``replica``: the id of this replica of a cluster.

    Raises:
        InputError: replicas cannot share a database of this kind.
    """
    if url.drivername != "sqlite":
        return PostgresDatabase(url, replica)
    if replica is not None:
        raise InputError("replicas of a cluster need a store in PostgreSQL", field="store")
    return SqliteFile(url) if url.database else MemoryDatabase()
