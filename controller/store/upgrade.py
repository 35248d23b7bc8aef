"""Creation of the tables of a new database, and upgrade of those of an earlier version by Alembic.

Alembic is imported when an upgrade is due, and not at each start.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from typing import TYPE_CHECKING

import sqlalchemy as sa

from controller.store.errors import StoreError
from controller.store.migrations import versions
from controller.store.schema import CLUSTER, METADATA, SETTINGS, VERSION_TABLE

if TYPE_CHECKING:
    from alembic.config import Config

UPGRADE_KEY = int.from_bytes(b"fairsupg", "big")
"""Of the advisory lock of a PostgreSQL server that replicas hold, one at a time, while they look at the tables."""


def upgrade(connection: sa.Connection, shown: str, *, shared: bool = False) -> None:
    """Make or change the tables where they are not up to date, within the connection's present transaction.

    ``shared``: only make the tables of a cluster if there are none yet. Replicas of an earlier version may use the
    others; the next leader changes them.

    Raises:
        StoreError: the database is another program's, or was used by a newer fairspine.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": UPGRADE_KEY})
    tables = sa.inspect(connection).get_table_names()
    present = _step(connection) if VERSION_TABLE in tables else None
    if present is None and METADATA.tables.keys() & set(tables):
        raise StoreError(f"{shown} is the database of another program")
    if present is not None and present not in steps():
        raise StoreError(
            f"{shown} was used by a newer fairspine (its tables are at step {present}, "
            f"this program supports up to {steps()[0]})"
        )
    if present == steps()[0] or (shared and CLUSTER.name in tables):
        return
    if present is None and connection.dialect.name == "sqlite":
        create(connection)
    else:
        migrate(connection)


def create(connection: sa.Connection) -> None:
    """Make the tables in an empty SQLite database: the same as ``migrate``, without loading Alembic.

    On a PostgreSQL server, the steps also set how columns are stored.
    """
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(sa.insert(SETTINGS).values(name="last_change", value=""))
    number = sa.Column("version_num", sa.String(32), nullable=False)
    key = sa.PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc")
    table = sa.Table(VERSION_TABLE, sa.MetaData(), number, key)
    table.create(connection)
    connection.execute(sa.insert(table).values(version_num=steps()[0]))


def migrate(connection: sa.Connection) -> None:
    """Take all steps that the tables lack."""
    from alembic import command

    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check_known(connection: sa.Connection, shown: str) -> None:
    """Check that this program knows the tables of a database that it has opened before.

    Raises:
        StoreError: a newer fairspine has changed them since.
    """
    if _step(connection) not in steps():
        raise StoreError(f"{shown} was used by a newer fairspine, which has changed its tables: upgrade this replica")


@cache
def steps() -> list[str]:
    """Return the steps of the tables that this program knows, the newest first: by the names of their files."""
    names = (module.name for module in pkgutil.iter_modules(versions.__path__))
    return sorted((name.removeprefix("v").partition("_")[0] for name in names), reverse=True)


def _step(connection: sa.Connection) -> str | None:
    step: str | None = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return step


def _config() -> Config:
    from alembic.config import Config

    # The package is named instead of a folder, so that it is found wherever it is installed.
    config = Config()
    config.set_main_option("script_location", "controller.store:migrations")
    config.set_main_option("path_separator", "os")
    return config
