"""Collectives played on real buffers, messages delivered in any order that queue pairs allow."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from emulation.roce.collectives.base import Send
from emulation.roce.collectives.pattern import Pattern
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.shares import split
from tests.unit.laws import examples

REDUCTIONS = ("all_reduce", "reduce_scatter", "all_gather")


class Group:
    """All ranks of a collective; queue pairs deliver in order, and nothing else is certain."""

    def __init__(self, spec: CollectiveSpec, seed: int, pieces: int = 1) -> None:
        self.spec = spec
        self.parts = [spec.part(rank) for rank in range(spec.n_ranks)]
        self.rng = random.Random(seed)
        self.pieces = pieces
        self.queues: dict[tuple[int, int, int], list[tuple[int, np.ndarray]]] = {}
        self.sent: Counter[tuple[int, int]] = Counter()
        self.messages: Counter[int] = Counter()
        self.iteration = [-1] * spec.n_ranks
        self.broken: list[str] = []

    def play(self) -> None:
        """Begin where possible and deliver at random until nothing is left to do."""
        while True:
            actions: list[tuple[str, object]] = [
                ("begin", rank) for rank in range(self.spec.n_ranks) if self._may_begin(rank)
            ]
            actions += [("deliver", key) for key, queue in self.queues.items() if queue]
            if not actions:
                return
            kind, what = self.rng.choice(actions)
            if kind == "begin":
                assert isinstance(what, int)
                self._begin(what)
            else:
                assert isinstance(what, tuple)
                self._deliver(what)

    def _may_begin(self, rank: int) -> bool:
        """Its last iteration is complete, and what it sent in it has arrived."""
        idle = not any(queue for (source, _, _), queue in self.queues.items() if source == rank)
        return self.iteration[rank] + 1 < self.spec.iterations and self.parts[rank].complete and idle

    def _begin(self, rank: int) -> None:
        self._verify(rank)
        self.iteration[rank] += 1
        self._post(rank, self.parts[rank].begin(self.iteration[rank]))

    def _verify(self, rank: int) -> None:
        if self.iteration[rank] >= 0:
            wrong = self.parts[rank].check()
            if wrong:
                self.broken.append(f"rank {rank}: {wrong}")

    def _post(self, rank: int, sends: list[Send]) -> None:
        for send in sends:
            data = send.data.view(np.uint8)
            self.messages[rank] += 1
            self.sent[rank, send.peer] += len(data)
            for i, (start, end) in enumerate(split(len(data), [1 / self.pieces] * self.pieces)):
                if end > start:
                    self.queues.setdefault((rank, send.peer, i), []).append((send.va + start, data[start:end]))

    def _deliver(self, key: tuple[int, ...]) -> None:
        rank, peer, piece = key
        va, data = self.queues[rank, peer, piece].pop(0)
        part = self.parts[peer]
        part.memory.view(np.uint8)[va : va + len(data)] = data
        self._post(peer, part.arrived(va, len(data)))

    def verify_last(self) -> None:
        for rank, part in enumerate(self.parts):
            assert self.iteration[rank] == self.spec.iterations - 1, f"rank {rank} is stuck: {part.missing()}"
            assert part.complete
            self._verify(rank)
        assert self.broken == []


def hosts(n: int) -> tuple[str, ...]:
    return tuple(f"h{i}" for i in range(n))


@st.composite
def specs(draw: st.DrawFn) -> CollectiveSpec:
    n = draw(st.integers(1, 7))
    op = draw(st.sampled_from((*REDUCTIONS, "all_to_all", "exchange")))
    dtype = draw(st.sampled_from(("int32", "float32")))
    elements = draw(st.integers(0, 60))
    matrix: tuple[tuple[int, ...], ...] = ()
    if op == "exchange":
        row = st.tuples(*[st.integers(0, 9).map(lambda size: 4 * size)] * n)
        matrix = tuple(draw(row) for _ in range(n))
    iterations = draw(st.integers(1, 4)) if op != "exchange" and elements >= n else 1
    return CollectiveSpec(
        job="a",
        name="c",
        ranks=hosts(n),
        op=op,
        bytes=4 * elements,
        algorithm=draw(st.sampled_from(("ring", "direct"))),
        matrix=matrix,
        dtype=dtype,
        seed=draw(st.integers(0, 99)),
        iterations=iterations,
    )


@settings(max_examples=examples(150, 900))
@given(specs(), st.integers(0, 2**32), st.integers(1, 3))
def test_every_rank_ends_with_the_right_numbers_in_whatever_order_messages_arrive(
    spec: CollectiveSpec, seed: int, pieces: int
) -> None:
    group = Group(spec, seed, pieces)
    group.play()
    group.verify_last()


@given(specs(), st.integers(0, 2**32))
def test_each_rank_sends_each_other_exactly_the_bytes_that_its_flows_promise(spec: CollectiveSpec, seed: int) -> None:
    group = Group(spec, seed)
    group.play()
    assert +group.sent == {edge: size * spec.iterations for edge, size in spec.flows().items()}


@given(st.integers(2, 9), st.integers(1, 20))
def test_a_ring_all_reduce_takes_2_n_minus_1_messages_a_rank_and_2_n_minus_1_nths_of_the_buffer_an_edge(
    n: int, elements: int
) -> None:
    size = 4 * n * elements
    group = Group(CollectiveSpec("a", "c", hosts(n), bytes=size), 0)
    group.play()
    group.verify_last()
    assert set(group.messages.values()) == {2 * (n - 1)}
    assert group.sent == {(i, (i + 1) % n): 2 * (n - 1) * size // n for i in range(n)}


@given(st.integers(2, 6), st.integers(1, 20))
def test_a_direct_all_reduce_moves_two_nths_of_the_buffer_between_each_pair(n: int, elements: int) -> None:
    size = 4 * n * elements
    spec = CollectiveSpec("a", "c", hosts(n), bytes=size, algorithm="direct")
    assert spec.flows() == {(i, j): 2 * size // n for i in range(n) for j in range(n) if i != j}


@given(st.integers(2, 6), st.integers(1, 20))
def test_an_all_to_all_moves_one_nth_of_the_buffer_between_each_pair(n: int, elements: int) -> None:
    size = 4 * n * elements
    spec = CollectiveSpec("a", "c", hosts(n), op="all_to_all", bytes=size)
    assert spec.flows() == {(i, j): size // n for i in range(n) for j in range(n) if i != j}


@given(
    st.sampled_from(("all_reduce", "all_gather", "all_to_all")),
    st.sampled_from(("ring", "direct")),
    st.integers(2, 5),
    st.integers(0, 2**32),
)
def test_memory_that_was_tampered_with_is_reported(op: str, algorithm: str, n: int, seed: int) -> None:
    group = Group(CollectiveSpec("a", "c", hosts(n), op=op, algorithm=algorithm, bytes=4 * 3 * n), seed)
    group.play()
    group.verify_last()
    for part in group.parts:
        part.memory += 1
        assert "wrong" in part.check()


def test_a_rank_that_passes_on_wrong_sums_is_noticed() -> None:
    spec = CollectiveSpec("a", "c", hosts(3), bytes=4 * 30)
    group = Group(spec, 0)
    honest = group.parts[1].arrived

    def twice(va: int, length: int) -> list[Send]:
        sends = honest(va, length)
        for send in sends:
            send.data[:] *= 2
        return sends

    group.parts[1].arrived = twice  # type: ignore[method-assign]
    group.play()
    with pytest.raises(AssertionError, match="wrong"):
        group.verify_last()


@given(st.integers(1, 500), st.integers(0, 50), st.integers(0, 50), st.integers(0, 9))
def test_the_total_is_the_sum_of_what_each_rank_has(elements: int, ranks: int, iteration: int, seed: int) -> None:
    pattern = Pattern(elements, seed)
    whole = sum((pattern.part(r, iteration, 0, elements).astype(np.int64) for r in range(ranks)), np.zeros(elements))
    total = pattern.total(ranks, iteration, 0, elements, np.dtype(np.int32))
    assert np.array_equal(total, whole)


def test_unexpected_bytes_are_an_error() -> None:
    part = CollectiveSpec("a", "c", hosts(3), bytes=4 * 30).part(0)
    part.begin(0)
    with pytest.raises(ValueError, match="unexpected write"):
        part.arrived(4 * 20, 40)  # the chunk that starts here: it never comes back as a partial sum


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"op": "gossip"}, "op"),
        ({"algorithm": "tree"}, "algorithm"),
        ({"dtype": "float16"}, "dtype"),
        ({"dtype": "uint8"}, "dtype"),
        ({"ranks": ("h1", "h1")}, "ranks"),
        ({"ranks": ()}, "ranks"),
        ({"bytes": 6}, "bytes"),
        ({"bytes": -4}, "bytes"),
        ({"iterations": 0}, "iterations"),
        ({"seed": -1}, "seed"),
        ({"matrix": ((0,),)}, "matrix"),
        ({"op": "exchange", "matrix": ((0, 4),)}, "matrix"),
        ({"op": "exchange", "matrix": ((0, 4), (-4, 0))}, "matrix"),
    ],
)
def test_a_collective_that_makes_no_sense_is_refused_by_field(change: dict[str, object], field: str) -> None:
    good: dict[str, object] = {"job": "a", "name": "c", "ranks": ("h1", "h2"), "bytes": 8}
    with pytest.raises(InputError) as caught:
        CollectiveSpec(**{**good, **change})  # type: ignore[arg-type]
    assert caught.value.field == field
