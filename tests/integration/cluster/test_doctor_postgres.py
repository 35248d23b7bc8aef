"""``fairspine doctor`` reads the step of the tables of a PostgreSQL database, and changes nothing there."""

from __future__ import annotations

import psycopg

from controller.cli.local.doctor import _step, _store
from controller.cli.local.machine_checks import CheckState
from controller.store.location import parse
from controller.store.store import Store
from controller.store.upgrade import steps
from tests.rig.store.postgres import PostgresServer


def tables(url: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()


def test_a_database_is_read_without_a_change_also_while_a_controller_has_it(postgres_url: str) -> None:
    assert _store(postgres_url).state is CheckState.OK
    assert _step(parse(postgres_url)) is None
    assert tables(postgres_url) == []
    store = Store.open(postgres_url)
    try:
        before = tables(postgres_url)
        assert _step(parse(postgres_url)) == steps()[0]
        assert tables(postgres_url) == before
    finally:
        store.close()


def test_a_server_that_is_away_is_a_problem_without_the_password(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    absent = postgres_server.url("absent", password="hunter2")
    judged = _store(absent)
    assert judged.state is CheckState.PROBLEM
    assert "absent" in judged.found
    assert "hunter2" not in judged.found + judged.mend
