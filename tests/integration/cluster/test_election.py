"""The election of a leader on PostgreSQL: terms that only grow, one leader, no commit of an earlier term."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from controller.core.cluster_standing import ClusterSettings, ClusterStanding, ReplicaEntry
from controller.core.saved.saved_state import StateChange
from controller.model.errors import InputError
from controller.store import election as election_module
from controller.store import postgres, upgrade
from controller.store.election import Election
from controller.store.errors import StoreError, StoreTakenError
from controller.store.store import Store
from controller.store.upgrade import steps
from tests.rig.http.client import PATIENCE_SECONDS
from tests.rig.store.postgres import PostgresServer
from tests.rig.store.writer import step
from tests.rig.waiting import eventually
from tests.unit.store.kept import plain

LEASE = 0.5
"""Where a test waits for its end."""
LONG = 1000.0
"""Where none does: on a busy machine, more than half a second may pass from one beat to the next."""

REPLICAS = 10
"""Of ``election_under_eventlet``."""

SILENT = """
import sys
from controller.core.cluster_standing import ClusterSettings, ReplicaEntry
from controller.store.election import Election
from controller.store.store import Store
url, replica = sys.argv[1:]
store = Store.open(url, replica=replica)
election = Election(url, ClusterSettings("a", 0.5, ReplicaEntry(replica, "http://" + replica, "1")), fabric="")
standing = election.beat()
store.lead(replica, standing.term)
print(standing.term, flush=True)
sys.stdin.read()
"""
"""A replica that leads and then does nothing: it is killed, or goes on with its connections open."""


def election(
    url: str,
    replica: str,
    *,
    cluster: str = "a",
    fabric: str = "",
    version: str = "1",
    lease: float = LEASE,
    step: str = "",
) -> Election:
    settings = ClusterSettings(cluster, lease, ReplicaEntry(replica, f"http://{replica}", version))
    return Election(url, settings, fabric=fabric, step=step)


@pytest.fixture
def replica(postgres_url: str) -> Iterator[Callable[..., tuple[Store, Election]]]:
    """Make a replica on the test's database: its store and its part in the election."""
    with ExitStack() as stack:

        def make(name: str, lease: float = LONG) -> tuple[Store, Election]:
            store = Store.open(postgres_url, replica=name)
            stack.callback(store.close)
            part = election(postgres_url, name, lease=lease)
            stack.callback(part.resign)
            return store, part

        yield make


Make = Callable[..., tuple[Store, Election]]
"""Takes a name, and perhaps a lease in seconds."""


def leads(part: Election) -> ClusterStanding:
    """Beat until this replica leads."""
    found = [part.beat()]

    def elected() -> bool:
        found.append(part.beat())
        return found[-1].leads

    if not found[0].leads:
        eventually(elected, "the replica leads")
    return found[-1]


def test_one_replica_leads_and_the_others_know_it(replica: Make) -> None:
    (_, first), (_, second) = replica("one"), replica("two")
    mine, other = first.beat(), second.beat()
    assert mine.leads
    assert not other.leads
    assert mine.term == other.term == 1
    assert other.leader_url == "http://one"
    assert [member.id for member in second.beat().members] == ["one", "two"]


def test_replicas_know_how_many_switches_each_of_them_has(replica: Make) -> None:
    (_, first), (_, second) = replica("one"), replica("two")
    first.beat(switches=4)
    assert [member.switches for member in second.beat(switches=3).members] == [4, 3]
    assert [member.switches for member in first.beat(switches=0).members] == [0, 3]


def test_the_changes_of_a_later_term_have_higher_numbers_though_some_of_the_earlier_one_are_lost(
    replica: Make, postgres_url: str
) -> None:
    (one, a), (two, b) = replica("a"), replica("b")
    one.lead("a", leads(a).term)
    one.commit(StateChange(drained=frozenset({"spine1"})))
    known, (before,) = one.change, sql(postgres_url, "SELECT value FROM settings WHERE name = 'last_change'")
    one.commit(StateChange(drained=frozenset({"spine1", "spine2"})))
    lost = one.change
    assert known is not None
    assert lost is not None
    assert known < lost
    assert two.read()[0] == b.beat().change == lost
    sql(postgres_url, f"UPDATE settings SET value = '{before[0]}' WHERE name = 'last_change'")
    assert two.read()[0] == known
    a.resign()
    two.lead("b", leads(b).term)
    assert two.change is not None
    assert two.change > lost
    assert two.read()[0] == b.beat().change == two.change
    # It may be lost, too, and is written again.
    sql(postgres_url, f"UPDATE settings SET value = '{before[0]}' WHERE name = 'last_change'")
    two.check()
    assert two.read()[0] == two.change


def test_a_replica_without_switches_lets_one_lead_that_has_some(replica: Make) -> None:
    (_, a), (_, b), (_, c) = (replica(name, 3.0) for name in "abc")
    assert leads(a).leads
    for _ in range(2):
        assert not b.beat(0, 0).leads
        assert not c.beat(0, 8).leads
    a.resign()
    assert not b.beat(0, 0).leads
    assert c.beat(0, 8).leads
    c.resign()
    eventually(lambda: b.beat(0, 0).leads, "it leads where nobody else has any, and the one that had some is silent")


@pytest.mark.parametrize("jump", [-7200, 7200])
def test_nobody_is_forgotten_when_the_clock_of_the_server_is_set(replica: Make, postgres_url: str, jump: int) -> None:
    names = ["one", "two", "three"]
    # However slow the machine is, nobody is silent for so long.
    parts = [replica(name, 1000.0)[1] for name in names]
    for part in parts:
        part.beat()
    # As after an hour's jump of the server: it heard everybody long ago, or will have.
    sql(postgres_url, f"UPDATE replicas SET heard = heard + {jump}")
    for part in reversed(parts):
        standing = part.beat()
        assert standing.leader_url == "http://one"
        assert [member.id for member in standing.members if member.is_live] == sorted(names)


def test_a_replica_that_has_been_silent_for_long_is_forgotten_unless_it_leads(
    replica: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, first), (_, second), (_, third) = replica("one"), replica("two"), replica("three")
    first.beat()
    second.beat()
    assert len(third.beat().members) == 3
    monkeypatch.setattr(election_module, "FORGET_SECONDS", 0.0)
    monkeypatch.setattr(third, "_lease", 1000.0)
    standing = third.beat()
    assert [member.id for member in standing.members] == ["one", "three"]
    assert standing.leader_url == "http://one"


def test_a_replica_that_is_new_to_another_one_works_if_the_store_has_heard_of_it_lately(
    replica: Make, postgres_url: str
) -> None:
    (_, first), (_, second), (_, third) = replica("one", LEASE), replica("two", LEASE), replica("three", LEASE)
    first.beat()
    second.beat()
    sql(postgres_url, "UPDATE replicas SET heard = heard - 60 WHERE id = 'two'")
    assert [member.is_live for member in third.beat().members] == [True, True, False]
    second.beat()
    assert [member.is_live for member in third.beat().members] == [True, True, True]


def test_a_replica_that_resigns_is_followed_by_a_higher_term(replica: Make) -> None:
    (_, first), (_, second) = replica("one"), replica("two")
    first.beat()
    first.resign()
    assert leads(second).term == 2


def test_a_replica_that_has_resigned_does_not_stand_again(replica: Make) -> None:
    (_, first), (_, second) = replica("one"), replica("two")
    first.beat()
    first.resign()
    assert not first.beat().leads
    assert leads(second).term == 2


def test_a_replica_may_resign_in_one_thread_while_it_beats_in_another(postgres_url: str) -> None:
    command = [sys.executable, "-m", "tests.rig.store.election_under_eventlet", postgres_url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    # Every replica has led once.
    assert (done.returncode, done.stdout) == (0, f"{REPLICAS}\n"), done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_a_term_is_higher_than_those_that_switches_have_seen(replica: Make) -> None:
    (_, first), (_, second) = replica("one"), replica("two")
    assert first.beat(seen=6).term == 7
    first.resign(seen=11)
    assert leads(second).term == 12


def test_only_the_leader_of_the_present_term_commits(replica: Make, postgres_url: str) -> None:
    (old_store, old), (new_store, _) = replica("one"), replica("two")
    with pytest.raises(StoreTakenError, match="does not lead"):
        old_store.commit(step(1))
    old_store.lead("one", old.beat().term)
    old_store.commit(step(1))
    with pytest.raises(StoreTakenError, match="does not lead"):
        new_store.commit(step(2))
    # The old leader keeps its connections, and does not hear of the new one.
    sql(postgres_url, "UPDATE cluster SET term = 2, leader = 'two'")
    assert new_store.lead("two", 2).epoch == 1
    with pytest.raises(StoreTakenError, match="term 1 of this controller has ended; it is 2 now"):
        old_store.commit(step(2))
    new_store.commit(step(2))
    assert new_store.load().epoch == 2


def test_a_leader_that_is_silent_for_a_lease_is_replaced_though_its_connections_stay(
    replica: Make, postgres_url: str
) -> None:
    old_store, old = replica("one", LEASE)
    old_store.lead("one", old.beat().term)
    new_store, new = replica("two", LEASE)
    standing = leads(new)
    assert standing.term == 2
    assert new_store.lead("two", 2).epoch == 0
    with pytest.raises(StoreError):
        old_store.commit(step(1))
    with pytest.raises(StoreError):
        old.beat()
    assert not old.beat().leads
    new_store.commit(step(1))


def test_a_leader_that_was_cut_off_for_a_moment_goes_on(replica: Make, postgres_url: str) -> None:
    store, part = replica("one")
    store.lead("one", part.beat().term)
    end_sessions(postgres_url)
    with pytest.raises(StoreError):
        part.beat()
    eventually(lambda: part.beat().leads, "it leads again")
    assert part.beat().term == 1
    store.commit(step(1))
    _, other = replica("two")
    assert not other.beat().leads


def test_after_the_loss_of_all_sessions_the_leader_has_a_lease_to_come_back(postgres_url: str) -> None:
    Store.open(postgres_url, replica="one").close()
    first, second = (election(postgres_url, name, lease=1000.0) for name in ("one", "two"))
    term = first.beat().term
    assert not second.beat().leads
    # As after a restart of the server: the lock is free, and the follower is the first one to come.
    end_sessions(postgres_url)
    for each in (second, first):
        with pytest.raises(StoreError):
            each.beat()
    assert not second.beat().leads
    assert first.beat().leads
    assert second.beat().term == term
    # From now on it knows that the leader has come back, so a free lock means that the leader has ended.
    sql(postgres_url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ 'election-one'")
    eventually(lambda: second.beat().leads, "the other one leads")
    assert second.beat().term == term + 1
    first.resign()
    second.resign()


def test_a_leader_that_does_not_come_back_is_replaced(replica: Make, postgres_url: str) -> None:
    (_, first), (_, second) = replica("one", LEASE), replica("two", LEASE)
    term = first.beat().term
    assert not second.beat().leads
    end_sessions(postgres_url)
    with pytest.raises(StoreError):
        second.beat()
    assert leads(second).term == term + 1


def test_changes_that_a_server_has_lost_are_written_again(replica: Make, postgres_url: str) -> None:
    store, part = replica("one")
    store.lead("one", part.beat().term)
    store.commit(step(1))
    (before,) = sql(postgres_url, "SELECT value FROM settings WHERE name = 'last_change'")
    store.commit(step(2))
    store.commit(step(3))
    kept = store.load()
    # As of an asynchronous standby that is behind by two changes.
    sql(postgres_url, f"UPDATE settings SET value = '{before[0]}' WHERE name = 'last_change'")
    sql(postgres_url, "DELETE FROM plans WHERE epoch > 1")
    sql(postgres_url, "DELETE FROM jobs WHERE name IN ('job2', 'job3')")
    store.check()
    assert plain(store.load()) == plain(kept)
    store.commit(step(4))
    assert store.load().epoch == 4
    assert not store.overtaken


def test_a_leader_that_is_asked_late_says_that_another_one_leads(replica: Make, postgres_url: str) -> None:
    (_, old), (_, new) = replica("one", LEASE), replica("two", LEASE)
    term = old.beat().term
    assert old.leads(term)
    assert not old.leads(term + 1)
    assert not new.leads(term)
    # The session may have ended since it was used last.
    end_sessions(postgres_url)
    assert old.leads(term)
    assert leads(new).term == term + 1
    assert not old.leads(term)
    assert new.leads(term + 1)


def test_without_a_database_nobody_says_who_leads(replica: Make, postgres_server: PostgresServer) -> None:
    _, part = replica("one")
    term = part.beat().term
    assert part.leads(term)
    postgres_server.stop()
    with pytest.raises(StoreError):
        part.leads(term)
    postgres_server.start()
    assert part.leads(term)


def end_sessions(url: str) -> None:
    sql(url, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'fairspine-%'")


def sql(url: str, statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        done = connection.execute(statements.encode())
        return done.fetchall() if done.description else []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_leader_that_is_killed_or_stopped_is_replaced(replica: Make, postgres_url: str, number: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SILENT, postgres_url, "one"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(number)
        store, part = replica("two", LEASE)
        assert leads(part).term == 2
        store.lead("two", 2)
        store.commit(step(1))
    finally:
        process.kill()
        process.communicate()


def test_of_replicas_that_try_together_one_leads(replica: Make) -> None:
    parts = [replica(f"replica{n}")[1] for n in range(5)]
    found: list[ClusterStanding] = []
    threads = [threading.Thread(target=lambda part=part: found.append(part.beat())) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [standing.term for standing in found if standing.leads] == [1]


def test_a_commit_that_takes_long_does_not_hold_up_the_beats_of_its_leader(replica: Make, postgres_url: str) -> None:
    store, part = replica("one")
    store.lead("one", part.beat().term)
    with psycopg.connect(postgres_url) as connection:
        # A commit waits for this row in the middle of its transaction, after it has checked its term.
        connection.execute("SELECT value FROM settings WHERE name = 'last_change' FOR UPDATE")
        commit = threading.Thread(target=store.commit, args=(step(1),))
        commit.start()
        eventually(lambda: waiting(postgres_url), "the commit waits")
        assert part.beat().leads
    commit.join()
    assert store.load().epoch == 1


def waiting(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone())


# -- bad configuration ------------------------------------------------------------------------------------------


def test_a_database_belongs_to_one_cluster(replica: Make, postgres_url: str) -> None:
    _, part = replica("one")
    part.beat()
    with pytest.raises(InputError, match="cluster_name: 'b': the store belongs to the cluster a"):
        election(postgres_url, "two", cluster="b").check()


def test_a_replica_that_differs_from_the_leader_is_refused(replica: Make, postgres_url: str) -> None:
    _, part = replica("one", LEASE)
    part.beat()
    election(postgres_url, "two").check()
    # Replicas are upgraded one after the other.
    election(postgres_url, "two", version="1.1").check()
    with pytest.raises(InputError, match="fabric file differs"):
        election(postgres_url, "two", fabric="f").check()
    with pytest.raises(InputError, match=r"cluster_name: 'a': the leader .* has version 1, this replica 0\.9"):
        election(postgres_url, "two", version="0.9").check()
    with pytest.raises(InputError, match=r"lease: 3\.0: the leader of cluster a has 0\.5"):
        election(postgres_url, "two", lease=3.0).check()
    # The first to start with other settings finds no leader.
    part.resign()
    election(postgres_url, "two", fabric="f", version="0.9", lease=3.0).check()


def test_newer_replicas_lead_once_no_older_one_works_and_then_change_the_tables(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = steps()[0]
    with ExitStack() as stack:

        def started(name: str, step: str) -> tuple[Store, Election]:
            store = Store.open(postgres_url, replica=name)
            stack.callback(store.close)
            part = election(postgres_url, name, step=step)
            stack.callback(part.resign)
            return store, part

        (_, first), (_, second) = started("one", newest), started("two", newest)
        assert first.beat().leads
        # A program that knows a further step of the tables.
        changed: list[str] = []
        monkeypatch.setattr("controller.store.store.upgrade", lambda *_, **how: changed.append(str(how)))
        store, third = started("three", f"{newest}-and-one")
        assert changed == ["{'shared': True}"]
        first.resign()

        def elected() -> bool:
            third.beat()
            return second.beat().leads

        eventually(elected, "the replica that needs the present tables leads")
        assert not third.beat().leads
        second.resign()
        # The other two are gone, and are heard of no more.
        standing = leads(third)
        assert standing.term > 2
        store.lead("three", standing.term)
        assert changed[-1] == "{}"


def test_a_replica_that_does_not_know_changed_tables_does_not_stand_and_is_not_waited_for(
    replica: Make, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = steps()
    (_, first), (_, second) = replica("one", LEASE), replica("two", LEASE)
    assert first.beat().leads
    second.beat()
    newer = election(postgres_url, "three", step="9999")
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE fairspine_version SET version_num = '9999'")
    first.resign()

    def newer_leads() -> bool:
        with pytest.raises(StoreError, match="was used by a newer fairspine"):
            second.beat()
        with monkeypatch.context() as changed:
            changed.setattr(upgrade, "steps", lambda: ["9999", *known])
            return newer.beat().leads

    eventually(newer_leads, "the newer replica leads")
    newer.resign()


def test_a_cluster_needs_postgresql() -> None:
    with pytest.raises(InputError, match="need a store in PostgreSQL"):
        Store.open("memory", replica="one")


def test_replicas_and_a_single_controller_keep_each_other_out(
    replica: Make, postgres_url: str, monkeypatch: pytest.MonkeyPatch, postgres_server: PostgresServer
) -> None:
    monkeypatch.setattr(postgres, "CLAIM_SECONDS", 0.2)
    stores = [replica("one")[0], replica("two")[0]]
    with pytest.raises(StoreError, match="in use by another controller"):
        Store.open(postgres_url)
    for store in stores:
        store.close()
    single = Store.open(postgres_url)
    with pytest.raises(StoreError, match="in use by another controller"):
        Store.open(postgres_url, replica="three")
    single.commit(step(1))
    single.close()
