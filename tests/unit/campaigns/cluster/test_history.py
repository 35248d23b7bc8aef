"""Histories of a correct register are accepted, and those of one that forgets are not."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.campaigns.cluster.history import (
    LATE_SECONDS,
    JobOperation,
    linearizable,
    open_writes,
    with_lost_write,
    with_stale_read,
    wrong_registers,
)


def recorded(seed: int, count: int, *, names: int = 3, clients: int = 6, unknown: float = 0.05) -> list[JobOperation]:
    """Requests of several clients to a correct store, each of which takes place at some moment between its ends."""
    rng = random.Random(seed)
    free = [0.0] * clients
    drawn = []
    for value in range(1, count + 1):
        client = min(range(clients), key=free.__getitem__)
        begin = free[client] + rng.expovariate(1)
        free[client] = end = begin + rng.expovariate(2) + 0.01
        kind = rng.choices(["put", "get", "delete"], [4, 5, 1])[0]
        drawn.append((rng.uniform(begin, end), begin, end, f"job{rng.randrange(names)}", kind, value))
    content: dict[str, int | None] = {}
    made = []
    for _, begin, end, name, kind, value in sorted(drawn):
        written = value if kind == "put" else None
        if kind == "get":
            made.append(JobOperation(name, False, content.get(name), begin, end))
        elif rng.random() < unknown:
            if rng.random() < 0.5:
                content[name] = written
            made.append(JobOperation(name, True, written, begin))
        else:
            content[name] = written
            made.append(JobOperation(name, True, written, begin, end))
    return made


def by_brute_force(history: list[JobOperation]) -> bool:
    sure = [op for op in history if math.isfinite(op.end)]
    unsure = [op for op in history if not math.isfinite(op.end)]
    for count in range(len(unsure) + 1):
        for chosen in itertools.combinations(unsure, count):
            if any(holds(order) for order in itertools.permutations([*sure, *chosen])):
                return True
    return False


def holds(order: tuple[JobOperation, ...]) -> bool:
    content = None
    for n, op in enumerate(order):
        if any(later.end < op.begin for later in order[n + 1 :]):
            return False
        if op.writes:
            content = op.value
        elif op.value != content:
            return False
    return True


@given(st.integers(0, 10**6), st.integers(0, 400))
def test_what_a_correct_store_says_is_linearizable(seed: int, count: int) -> None:
    assert wrong_registers(recorded(seed, count)) == []


@given(st.integers(0, 10**6), st.integers(1, 6), st.data())
def test_it_decides_as_trying_all_orders_does(seed: int, count: int, data: st.DataObject) -> None:
    history = recorded(seed, count, names=1, clients=3, unknown=0.3)
    n = data.draw(st.integers(0, count - 1))
    history[n] = replace(history[n], value=data.draw(st.none() | st.integers(1, count)))
    assert linearizable(history) == by_brute_force(history)


@given(st.integers(0, 10**6), st.sampled_from([with_lost_write, with_stale_read]))
def test_what_is_lost_or_stale_is_found(seed: int, spoil: Callable[..., list[JobOperation] | None]) -> None:
    history = recorded(seed, 200)
    assert wrong_registers(history) == []
    spoiled = spoil(history, random.Random(seed))
    assert spoiled is not None
    assert len(wrong_registers(spoiled)) == 1


def test_what_nobody_did_cannot_be_spoiled() -> None:
    rng = random.Random(1)
    written = [JobOperation("a", True, 1, 0.0, 1.0)]
    assert with_lost_write(written, rng) is None
    assert with_stale_read(written, rng) is None


def test_a_write_of_unknown_outcome_may_take_place_late_but_not_before_it_began() -> None:
    late = [
        JobOperation("a", True, 1, 0.0),
        JobOperation("a", False, None, 1.0, 2.0),
        JobOperation("a", False, 1, 3.0, 4.0),
    ]
    assert linearizable(late)
    early = [JobOperation("a", False, 1, 0.0, 1.0), JobOperation("a", True, 1, 2.0)]
    assert not linearizable(early)


@given(st.integers(0, 10**6), st.integers(2, 200))
def test_a_history_that_is_cut_is_linearizable_with_the_writes_that_were_open_at_the_cut(seed: int, count: int) -> None:
    rng = random.Random(seed)
    content: dict[str, int | None] = {}
    late: list[JobOperation] = []
    history: list[JobOperation] = []
    before: dict[str, int | None] = {}
    open_then: list[JobOperation] = []
    for value in range(1, count + 1):
        at, name = value * 1e-3, f"job{rng.randrange(3)}"
        if late and rng.random() < 0.2:
            written = late.pop(rng.randrange(len(late)))
            content[written.name] = written.value
        write = JobOperation(name, True, rng.choice([value, value, None]), at, rng.choice([at, at, math.inf]))
        if rng.random() < 0.4:
            history.append(JobOperation(name, False, content.get(name), at, at))
        elif write.is_acknowledged:
            content[name] = write.value
            history.append(write)
        else:
            late.append(write)
            history.append(write)
        if value == count // 2:
            final = [JobOperation(each, False, content.get(each), at, at) for each in ("job0", "job1", "job2")]
            assert wrong_registers([*history, *final]) == []
            open_then, before, history = open_writes([*history, *final], at), dict(content), []
    assert wrong_registers([*open_then, *history], before) == []


def test_a_write_of_unknown_outcome_takes_place_once_and_not_after_long() -> None:
    unknown = JobOperation("a", True, 1, 0.0)
    read = JobOperation("a", False, 1, 5.0, 5.0)
    assert open_writes([unknown], 1.0) == [unknown]
    assert wrong_registers([*open_writes([unknown], 1.0), read]) == []
    # It has taken place already, and something else since then.
    assert open_writes([unknown, JobOperation("a", False, 1, 0.5, 0.5)], 1.0) == []
    assert wrong_registers([read], {"a": 2}) == ["a"]
    assert open_writes([unknown], LATE_SECONDS + 1.0) == []
    assert open_writes([replace(unknown, end=1.0), JobOperation("a", False, None, 0.0, 1.0)], 1.0) == []
