"""Loaded state equals that of a plain dictionary, for any sequence of commits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.saved_state import StateChange
from controller.model.errors import NotFoundError
from controller.store.store import Store
from tests.unit.store.kept import Model, changes, plain

# Files are opened, synced and closed here, and a machine that is busy with other things is no failure.
BUSY = [HealthCheck.too_slow]


@settings(max_examples=30, suppress_health_check=BUSY)
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


@settings(max_examples=30, suppress_health_check=BUSY)
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
