"""Tasks that ask at the same time share a check, and each gets one that began after it had asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from controller.model.errors import UnavailableError
from controller.service.cluster.leadership_check import LeadershipCheck
from controller.store.errors import StoreError
from tests.unit.service.world import Threads

PATIENCE = 60.0


@pytest.fixture
def runtime() -> Iterator[Threads]:
    made = Threads()
    yield made
    made.close()


class Asking(threading.Thread):
    """A task that asks once."""

    def __init__(self, check: LeadershipCheck) -> None:
        super().__init__(daemon=True)
        self._checked = check
        self.result: bool | None = None
        self.start()

    def run(self) -> None:
        self.result = self._checked.holds()


class Store:
    """A store whose answers a test releases one by one."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Semaphore(0), threading.Semaphore(0)
        self.n_asked = 0
        self.leads = True

    def __call__(self) -> bool:
        self.n_asked += 1
        found = self.leads
        self.asked.release()
        assert self.answer.acquire(timeout=PATIENCE)
        return found


def test_tasks_that_ask_during_a_check_share_the_next_one(runtime: Threads) -> None:
    store = Store()
    check = LeadershipCheck(runtime, store, seconds=PATIENCE)
    first = Asking(check)
    assert store.asked.acquire(timeout=PATIENCE)
    # The first check has read the store already; what changes now only a later one sees.
    store.leads = False
    later = [Asking(check) for _ in range(5)]
    store.answer.release()
    first.join(PATIENCE)
    assert first.result is True
    while any(task.is_alive() for task in later):
        if store.asked.acquire(timeout=0.05):
            store.answer.release()
    assert [task.result for task in later] == [False] * 5
    # The five may have asked before or after the second check began.
    assert 2 <= store.n_asked <= 6


@pytest.mark.parametrize("answer", [True, False])
def test_the_answer_is_that_of_the_store(runtime: Threads, answer: bool) -> None:
    check = LeadershipCheck(runtime, lambda: answer, seconds=PATIENCE)
    assert [check.holds(), check.holds()] == [answer, answer]


def failing() -> Callable[[], bool]:
    """A check that fails once."""
    errors = [StoreError("the server is gone")]

    def check() -> bool:
        if errors:
            raise errors.pop()
        return True

    return check


def test_a_store_that_does_not_answer_is_an_error_and_is_asked_again(runtime: Threads) -> None:
    check = LeadershipCheck(runtime, failing(), seconds=PATIENCE)
    with pytest.raises(UnavailableError, match="the server is gone"):
        check.holds()
    assert check.holds()


def test_no_task_waits_longer_than_it_is_told(runtime: Threads) -> None:
    store = Store()
    check = LeadershipCheck(runtime, store, seconds=0.1)
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"the store has not answered for 0\.1 s"):
            check.holds()
    for _ in range(2):
        store.answer.release()
