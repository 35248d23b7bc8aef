"""Loaded state equals that of a plain dictionary, for any sequence of commits."""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from controller.core.change_number import ChangeNumber
from controller.core.desired_state import AdmittedJob
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import SavedState, StateChange
from controller.model.errors import NotFoundError
from controller.store.errors import StoreError
from controller.store.last_change import id_after, number_of
from controller.store.sqlite import SqliteFile
from controller.store.store import Store
from tests.unit.laws import examples
from tests.unit.store.kept import Model, changes, plain

# Files are opened, synced and closed here, and a machine that is busy with other things is no failure.
BUSY = [HealthCheck.too_slow]


@settings(max_examples=examples(15, 90), suppress_health_check=BUSY)
@given(history=st.lists(changes(), max_size=6), kept=st.integers(1, 6), reopened=st.sets(st.integers(0, 5)))
def test_a_file_gives_back_what_a_dictionary_would(history: list[StateChange], kept: int, reopened: set[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'kept.db')}"
        store = Store.open(url, plans_kept=kept)
        model = Model(kept)
        for number, change in enumerate(history):
            if number in reopened:
                store.close()
                store = Store.open(url, plans_kept=kept)
            store.commit(change)
            model.commit(change)
            assert plain(store.load()) == plain(model.load())
        assert [plain(plan) for plan in store.plans()] == model.listed()
        store.close()


@settings(max_examples=examples(15, 90), suppress_health_check=BUSY)
@given(st.lists(changes(), max_size=4), st.integers(0, 13), st.integers(0, 5))
def test_lists_of_plans_are_pages_of_one_history(history: list[StateChange], before: int, limit: int) -> None:
    store, model = Store.open("memory", plans_kept=5), Model(5)
    for change in history:
        store.commit(change)
        model.commit(change)
    older = [plan for plan in model.listed() if plan["epoch"] < before]
    assert [plain(plan) for plan in store.plans(before, limit)] == older[:limit]
    for epoch in range(1, 13):
        if epoch in model.plans:
            assert plain(store.plan(epoch)) == plain(model.plans[epoch])
        else:
            with pytest.raises(NotFoundError) as error:
                store.plan(epoch)
            assert error.value.kind == "plan"
    store.close()


@settings(max_examples=examples(15, 90), suppress_health_check=BUSY)
@given(history=st.lists(st.tuples(changes(), st.booleans()), min_size=1, max_size=6))
def test_a_reader_that_knows_an_earlier_state_reads_the_present_one(history: list[tuple[StateChange, bool]]) -> None:
    # Plans are told apart by epoch and time: no two of one epoch are made at one time.
    made: dict[tuple[int, float], PlanRecord] = {}
    for plan in (plan for change, _ in history for plan in change.plans):
        assume(plain(made.setdefault((plan.epoch, plan.at), plan)) == plain(plan))
    with closing(Store.open("memory")) as store:
        known: SavedState | None = None
        for change, reads in history:
            store.commit(change)
            if reads:
                before, (_, known) = known, store.read(known)
                assert plain(known) == plain(store.load())
                # What is the same is not read again.
                for job in () if before is None else before.jobs:
                    assert all(one is job for one in known.jobs if identity(one) == identity(job))


def identity(job: AdmittedJob) -> tuple[str, str, int, float]:
    return job.name, job.revision, job.position, job.changed


@given(steps=st.lists(st.one_of(st.none(), st.integers(1, 3)), min_size=1, max_size=12))
def test_the_numbers_of_changes_grow_over_terms(steps: list[int | None]) -> None:
    term, last, numbers = 1, "", []
    for more in steps:
        term += more or 0
        last = id_after(last, term)
        number = number_of(last)
        assert number is not None
        assert (number.term, ChangeNumber.parse(str(number))) == (term, number)
        numbers.append(number)
    assert numbers == sorted(set(numbers))
    assert number_of(id_after("", None)) is None


@settings(max_examples=examples(15, 90), suppress_health_check=BUSY)
@given(
    history=st.lists(changes(), min_size=1, max_size=5),
    lost=st.integers(1, 5),
    kept=st.integers(1, 6),
    later=st.none() | changes(),
)
def test_what_a_database_loses_of_its_last_changes_is_written_again(
    history: list[StateChange], lost: int, kept: int, later: StateChange | None
) -> None:
    begin = max(0, len(history) - lost)
    with tempfile.TemporaryDirectory() as folder, patch.object(SqliteFile, "recent_bytes", 1 << 20):
        file, earlier = Path(folder, "kept.db"), Path(folder, "earlier.db")
        model = Model(kept)
        with closing(Store.open(f"sqlite:///{file}", plans_kept=kept)) as store:
            for number, change in enumerate(history):
                if number == begin:
                    copy(file, earlier)
                store.commit(change)
                model.commit(change)
            copy(earlier, file)
            if later is None:
                store.check()
            else:
                store.commit(later)
                model.commit(later)
            assert plain(store.load()) == plain(model.load())
            assert [plain(plan) for plan in store.plans()] == model.listed()
            assert not store.overtaken


def copy(source: Path, target: Path) -> None:
    """Make a database that of another file, in place, as a standby does that takes over under the same address."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)


@given(history=st.lists(changes(), min_size=2, max_size=2))
@settings(max_examples=5, suppress_health_check=BUSY)
def test_what_is_lost_and_forgotten_is_an_error(history: list[StateChange]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file, earlier = Path(folder, "kept.db"), Path(folder, "earlier.db")
        with closing(Store.open(f"sqlite:///{file}")) as store:
            store.commit(history[0])
            copy(file, earlier)
            store.commit(history[1])
            copy(earlier, file)
            with pytest.raises(StoreError, match="has lost changes; restart the controller"):
                store.check()
            assert store.overtaken
