"""Histories of replicas that lag behind, but know what a session was told, are accepted; others are not."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.campaigns.cluster.history import JobOperation, with_stale_session_read, wrong_registers
from tests.campaigns.cluster.sessions import ClientSession, sessions_that_went_back, with_swapped_reads

NAMES = ("a", "b", "c")


@dataclass
class Replicated:
    """A leader whose changes reach two followers late.

    Attributes:
        log: the job and number of each change.
        known: how many changes each follower knows.
    """

    log: list[tuple[str, int | None]] = field(default_factory=list)
    known: list[int] = field(default_factory=lambda: [0, 0])

    def read(self, name: str, count: int) -> int | None:
        return next((value for job, value in reversed(self.log[:count]) if job == name), None)


def recorded(seed: int, count: int, *, forgets: bool = False) -> list[JobOperation]:
    """Requests of three sessions; with ``forgets``, followers answer what they know, told or not."""
    rng, store, now = random.Random(seed), Replicated(), 0.0
    sessions = [ClientSession(n) for n in range(3)]
    made = []
    for value in range(1, count + 1):
        session, name, begin = rng.choice(sessions), rng.choice(NAMES), now
        now += 1.0
        follower = rng.randrange(2)
        store.known[follower] = rng.randint(store.known[follower], len(store.log))
        kind = rng.choices(["put", "delete", "get", "session"], [4, 1, 2, 4])[0]
        if kind == "session" and session.change:
            known = int(session.change.split("-")[1])
            is_told = forgets or store.known[follower] >= known
            seen = store.known[follower] if is_told else len(store.log)
            op = JobOperation(name, False, store.read(name, seen), session.since, now, session.number, is_told)
            session.told(f"1-{seen}", begin, certain=False)
        elif kind in ("put", "delete"):
            written = value if kind == "put" else None
            store.log.append((name, written))
            op = JobOperation(name, True, written, begin, now, session.number)
            session.told(f"1-{len(store.log)}", begin, certain=True)
        else:
            op = JobOperation(name, False, store.read(name, len(store.log)), begin, now, session.number)
            session.told(f"1-{len(store.log)}", begin, certain=True)
        made.append(op)
    return made


@given(st.integers(0, 10**6), st.integers(0, 300))
def test_what_followers_say_that_know_what_was_told_is_accepted(seed: int, count: int) -> None:
    history = recorded(seed, count)
    assert wrong_registers(history) == []
    assert sessions_that_went_back(history) == []


@given(st.integers(0, 10**6))
def test_seeded_errors_of_session_reads_are_found(seed: int) -> None:
    history, rng = recorded(seed, 300), random.Random(seed)
    stale, swapped = with_stale_session_read(history, rng), with_swapped_reads(history, rng)
    assert stale is not None
    assert swapped is not None
    assert wrong_registers(stale) != []
    assert sessions_that_went_back(swapped) != []


def test_followers_that_do_not_look_at_what_was_told_are_found_out() -> None:
    found = [
        bool(wrong_registers(history) or sessions_that_went_back(history))
        for history in (recorded(seed, 300, forgets=True) for seed in range(20))
    ]
    assert all(found)


def test_a_session_that_reads_two_numbers_in_the_wrong_order_went_back() -> None:
    first, second = JobOperation("a", True, 1, 0, 1), JobOperation("a", True, 2, 2, 3)
    reads = [JobOperation("a", False, 2, 0, 5, 7, True), JobOperation("a", False, 1, 0, 6, 7, True)]
    assert wrong_registers([first, second, *reads]) == []
    assert sessions_that_went_back([first, second, *reads]) == ["a"]
    other = [reads[0], JobOperation("a", False, 1, 0, 6, 8, True)]
    assert sessions_that_went_back([first, second, *other]) == []


def test_nothing_can_be_swapped_where_nothing_was_read() -> None:
    rng = random.Random(1)
    assert with_swapped_reads([JobOperation("a", True, 1, 0.0, 1.0)], rng) is None
    assert with_stale_session_read([JobOperation("a", True, 1, 0.0, 1.0)], rng) is None


def test_a_session_knows_the_highest_number_and_when_a_leader_answered_last() -> None:
    session = ClientSession(0)
    session.told("4-51", 1.0, certain=True)
    session.told("4-9", 2.0, certain=False)
    assert (session.change, session.since) == ("4-51", 1.0)
    session.told("5-2", 3.0, certain=False)
    session.told(None, 4.0, certain=True)
    assert (session.change, session.since) == ("5-2", 1.0)
    session.forget()
    assert session.change == ""
