"""The store in a PostgreSQL database: what holds for a file, and what only servers do."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.saved.saved_state import StateChange
from controller.model.errors import NotFoundError
from controller.store import postgres
from controller.store.errors import StoreError
from controller.store.schema import METADATA, VERSION_TABLE
from controller.store.store import Store
from tests.campaigns.cluster.database import OWNER
from tests.rig.store.postgres import PostgresServer
from tests.rig.store.writer import PLANS_KEPT, step
from tests.rig.switches.cut_wire import CutWire, Moment
from tests.unit.store.kept import Model, changes, plain


@pytest.fixture
def store(postgres_url: str) -> Iterator[Store]:
    made = Store.open(postgres_url, plans_kept=PLANS_KEPT)
    yield made
    made.close()


def database(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def through(wire: CutWire, url: str) -> str:
    return f"postgresql://{OWNER}@/{database(url)}?host={wire.folder}"


@pytest.fixture
def wire(postgres_server: PostgresServer) -> Iterator[CutWire]:
    with closing(CutWire(postgres_server.folder)) as made:
        yield made


def check(store: Store, model: Model) -> None:
    assert plain(store.load()) == plain(model.load())
    assert [plain(plan) for plan in store.plans()] == model.listed()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(changes(), max_size=4))
def test_a_server_gives_back_what_a_dictionary_would(postgres_url: str, history: list[StateChange]) -> None:
    # Every example goes on where the one before has ended, after it has removed whatever that has left.
    with closing(Store.open(postgres_url, plans_kept=5)) as store:
        sql(
            postgres_url,
            "DELETE FROM jobs; DELETE FROM drains; DELETE FROM plans; "
            "DELETE FROM settings WHERE name IN ('mode', 'learning')",
        )
        model = Model(5)
        for change in history:
            store.commit(change)
            model.commit(change)
        check(store, model)
        for epoch in range(1, 13):
            if epoch in model.plans:
                assert plain(store.plan(epoch)) == plain(model.plans[epoch])
            else:
                with pytest.raises(NotFoundError):
                    store.plan(epoch)


def sql(url: str, statements: str) -> None:
    """What another program does to the database."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statements.encode())


def test_the_migrations_make_the_tables_that_the_program_uses(store: Store, postgres_url: str) -> None:
    engine = sa.create_engine(postgres_url.replace("postgresql", "postgresql+psycopg"), poolclass=sa.pool.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, METADATA) == []


# -- who may use it ---------------------------------------------------------------------------------------------


def refused(url: str, why: str) -> None:
    with pytest.raises(StoreError, match=why) as error:
        Store.open(url)
    assert "sEcReT" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_second_controller_is_refused_until_the_first_has_ended(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.2)
    store.commit(step(1))
    refused(postgres_url, "in use by another controller")
    store.close()
    with closing(Store.open(postgres_url)) as other:
        assert other.load().epoch == 1


def test_a_controller_that_starts_waits_for_the_one_before_it_to_end(store: Store, postgres_url: str) -> None:
    ending = threading.Timer(0.5, store.close)
    ending.start()
    Store.open(postgres_url).close()
    ending.join()


def test_a_newer_store_is_not_touched(store: Store, postgres_url: str) -> None:
    store.close()
    sql(postgres_url, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    refused(postgres_url, "newer fairspine")


def test_the_tables_of_another_program_are_left_alone(postgres_url: str) -> None:
    sql(postgres_url, "CREATE TABLE jobs (x int)")
    refused(postgres_url, "another program")


def test_a_database_that_cannot_be_used_is_one_clear_error_without_a_secret(postgres_server: PostgresServer) -> None:
    server = postgres_server
    server.sql("postgres", "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    refused(server.url("postgres", user="guarded", password="sEcReT"), "password authentication failed")
    # The right role and password, and nothing that it may do.
    refused(server.url("postgres", user="guarded", password="right"), "permission denied")
    refused(server.url("nowhere"), "does not exist")
    refused("postgresql://me:sEcReT@/x?host=/nonexistent", "No such file")
    refused("postgresql://me:sEcReT@127.0.0.1:1/x", "refused")
    refused("postgresql://me@/x?host=/nonexistent&sslmode=sEcReT&passfile=sEcReT", "invalid sslmode")
    other = server.create("ENCODING 'SQL_ASCII' TEMPLATE template0")
    refused(server.url(other), "SQL_ASCII")
    server.drop(other)


# -- a server that goes away ------------------------------------------------------------------------------------


def test_a_server_that_was_restarted_is_used_at_once(store: Store, postgres_server: PostgresServer) -> None:
    model = Model(PLANS_KEPT)
    ends: list[Callable[[], None]] = [postgres_server.stop, postgres_server.kill]
    for number in range(1, 5):
        store.commit(step(number))
        model.commit(step(number))
        ends[number % 2]()
        postgres_server.start()
        if number > 2:
            check(store, model)


def test_without_a_server_nothing_is_kept_and_afterwards_everything_goes_on(
    store: Store, postgres_server: PostgresServer
) -> None:
    store.commit(step(1))
    postgres_server.stop()
    for use in (store.load, store.plans, lambda: store.plan(1), lambda: store.commit(step(2))):
        for _ in range(2):
            with pytest.raises(StoreError, match="No such file"):
                use()
    postgres_server.start()
    assert store.load().epoch == 1
    store.commit(step(2))
    assert store.load().epoch == 2


def test_a_server_killed_in_the_middle_keeps_what_was_acknowledged_and_nothing_that_was_refused(
    store: Store, postgres_server: PostgresServer
) -> None:
    moments = random.Random(9)
    model, number, refused_ones = Model(PLANS_KEPT), 0, 0
    for _ in range(6):
        killer = threading.Timer(0.15 * moments.random(), postgres_server.kill)
        killer.start()
        while True:
            number += 1
            try:
                store.commit(step(number))
            except StoreError:
                refused_ones += 1
                break
            model.commit(step(number))
        killer.join()
        postgres_server.start()
        number += 1
        store.commit(step(number))
        model.commit(step(number))
        check(store, model)
    assert refused_ones == 6


def test_a_server_that_does_not_answer_is_given_up_and_used_again(
    postgres_url: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Store.open(f"{postgres_url}&connect_timeout=2")) as store:
        store.commit(step(1))
        monkeypatch.setattr(postgres, "ANSWER_SECONDS", 0.3)
        postgres_server.stall(True)
        try:
            with pytest.raises(StoreError, match="timeout"):
                store.commit(step(2))
        finally:
            postgres_server.stall(False)
            monkeypatch.undo()
        assert store.load().epoch == 1
        store.commit(step(3))
        assert store.load().epoch == 3


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
def test_a_change_whose_connection_breaks_is_kept_exactly_once(
    wire: CutWire, postgres_url: str, moment: Moment
) -> None:
    with closing(Store.open(through(wire, postgres_url), plans_kept=PLANS_KEPT)) as store:
        model = Model(PLANS_KEPT)
        for number in range(1, 6):
            wire.cut = moment
            store.commit(step(number))
            assert wire.cut == "never"
            model.commit(step(number))
        check(store, model)


@pytest.mark.parametrize("moment", ["before commit", "after commit"])
def test_a_change_that_was_refused_is_not_there_once_the_server_answers_again(
    wire: CutWire, postgres_url: str, moment: Moment
) -> None:
    wire.refuse_after_cut = True
    with closing(Store.open(through(wire, postgres_url), plans_kept=PLANS_KEPT)) as store:
        model = Model(PLANS_KEPT)
        for number in range(1, 16):
            if number % 3 == 0:
                wire.cut = moment
                for _ in range(2):
                    with pytest.raises(StoreError):
                        store.commit(step(number))
                wire.refusing = False
            else:
                store.commit(step(number))
                model.commit(step(number))
            check(store, forget_pruned(model, store))


def forget_pruned(model: Model, store: Store) -> Model:
    """A refused change may have pruned a plan before it was undone: history is shorter then, and never wrong."""
    there = {plan.epoch for plan in store.plans()}
    assert len(there) >= len(model.plans) - 1
    model.plans = {epoch: plan for epoch, plan in model.plans.items() if epoch in there}
    return model


def test_a_lost_connection_that_the_server_still_believes_in_does_not_keep_us_out(
    wire: CutWire, postgres_url: str
) -> None:
    with closing(Store.open(through(wire, postgres_url))) as store:
        wire.cut = "before commit"
        store.commit(step(1))
        assert store.load().epoch == 1
        with psycopg.connect(postgres_url) as connection:
            ours = connection.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^fairspine'")
            assert ours.fetchone() == (1,)


def test_who_lost_the_store_to_another_controller_does_not_write_to_it(
    wire: CutWire, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.2)
    wire.refuse_after_cut = True
    with closing(Store.open(through(wire, postgres_url))) as store:
        store.commit(step(1))
        wire.cut = "before commit"
        with pytest.raises(StoreError):
            store.commit(step(2))
        sql(
            postgres_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^fairspine'"
        )
        with closing(Store.open(postgres_url)) as other:
            wire.refusing = False
            with pytest.raises(StoreError, match="in use by another controller"):
                store.commit(step(2))
            other.commit(step(3))
        with pytest.raises(StoreError, match="changed by another program"):
            store.commit(step(2))
        with closing(Store.open(postgres_url)) as other:
            assert other.load().epoch == 3


def test_a_stopped_controller_loses_the_store_and_writes_nothing_when_it_goes_on(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.2)
    monkeypatch.setattr(postgres, "SILENT_SECONDS", 0.5)
    command = [sys.executable, "-m", "tests.rig.store.stopped", postgres_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as stopped:
        assert stopped.stdin is not None
        assert stopped.stdout is not None
        try:
            assert stopped.stdout.readline() == "ready\n"
            stopped.send_signal(signal.SIGSTOP)
            with closing(Store.open(postgres_url)) as other:
                stopped.stdin.write("\n")
                stopped.stdin.flush()
                stopped.send_signal(signal.SIGCONT)
                assert "in use by another controller" in stopped.stdout.readline()
                assert other.load().epoch == 0
                other.commit(step(1))
        finally:
            stopped.kill()


def test_a_controller_that_is_heard_keeps_the_store(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.2)
    store.check()
    over = threading.Event()

    def be_heard() -> None:
        while not over.wait(0.01):
            store.check()

    heard = threading.Thread(target=be_heard)
    heard.start()
    try:
        # Refused, long before the time after which a silent one would lose it.
        with pytest.raises(StoreError, match="in use by another controller"):
            Store.open(postgres_url)
    finally:
        over.set()
        heard.join()
    store.commit(step(1))


def test_who_never_said_that_it_is_heard_keeps_the_store(
    store: Store, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.5)
    monkeypatch.setattr(postgres, "SILENT_SECONDS", 0.1)
    with pytest.raises(StoreError, match="in use by another controller"):
        Store.open(postgres_url)
    store.commit(step(1))
