"""Run by Alembic: uses the connection that ``controller.store.upgrade`` hands over, inside its transaction."""

from alembic import context

from controller.store.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], target_metadata=METADATA, version_table=VERSION_TABLE
)
context.run_migrations()
