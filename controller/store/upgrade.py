"""Upgrade of a database to the tables of this program, by Alembic."""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from controller.store.errors import StoreError
from controller.store.schema import CLUSTER, METADATA, VERSION_TABLE

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
    config = _config()
    config.attributes["connection"] = connection
    script = ScriptDirectory.from_config(config)
    present = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()
    if present is None and METADATA.tables.keys() & set(sa.inspect(connection).get_table_names()):
        raise StoreError(f"{shown} is the database of another program")
    if present is not None and present not in {step.revision for step in script.walk_revisions()}:
        raise StoreError(
            f"{shown} was used by a newer fairspine (its tables are at step {present}, "
            f"this program supports up to {script.get_current_head()})"
        )
    if shared and sa.inspect(connection).has_table(CLUSTER.name):
        return
    if present != script.get_current_head():
        command.upgrade(config, "head")


def check_known(connection: sa.Connection, shown: str) -> None:
    """Check that this program knows the tables of a database that it has opened before.

    Raises:
        StoreError: a newer fairspine has changed them since.
    """
    present = connection.scalar(sa.text(f"SELECT version_num FROM {VERSION_TABLE}"))
    if present not in steps():
        raise StoreError(f"{shown} was used by a newer fairspine, which has changed its tables: upgrade this replica")


@cache
def steps() -> list[str]:
    """Return the steps of the tables that this program knows, the newest first."""
    return [step.revision for step in ScriptDirectory.from_config(_config()).walk_revisions()]


def _config() -> Config:
    # The package is named instead of a folder, so that it is found wherever it is installed.
    config = Config()
    config.set_main_option("script_location", "controller.store:migrations")
    config.set_main_option("path_separator", "os")
    return config
