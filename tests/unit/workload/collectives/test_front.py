"""Properties of every operation and algorithm: counts, channels, and large groups."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.job import Algorithm, CollectiveCall, Op
from controller.workload.collectives import ALGORITHMS, algorithm_of, count_of, flows_of, one_channel

PAIRS = [(op, algorithm) for op, algorithms in ALGORITHMS.items() for algorithm in algorithms]
SIZES = st.integers(0, 2**53)


@st.composite
def calls(draw: st.DrawFn) -> CollectiveCall:
    op, algorithm = draw(st.sampled_from(PAIRS))
    n = 2 if op == "send_recv" else draw(st.integers(1, 40))
    channels = draw(st.none() | st.integers(1, 20))
    return CollectiveCall("c", op, tuple(range(n)), draw(SIZES), algorithm, channels=channels)


def test_every_operation_has_an_algorithm_and_every_algorithm_an_operation() -> None:
    assert set(ALGORITHMS) == set(get_args(Op))
    assert {algorithm for algorithms in ALGORITHMS.values() for algorithm in algorithms} == set(get_args(Algorithm))


@pytest.mark.parametrize("op", ALGORITHMS)
def test_without_a_word_an_operation_takes_its_usual_algorithm(op: Op) -> None:
    quiet = CollectiveCall("c", op, (0, 1), 100)
    usual = CollectiveCall("c", op, (0, 1), 100, ALGORITHMS[op][0])
    assert algorithm_of(quiet) == usual.algorithm
    assert [column.tolist() for column in flows_of(quiet)] == [column.tolist() for column in flows_of(usual)]


@given(calls())
def test_the_number_of_flows_is_known_without_making_them(call: CollectiveCall) -> None:
    flows = flows_of(call)
    assert len(flows.src) == len(flows.dst) == len(flows.bytes) == count_of(call)
    assert (flows.src != flows.dst).all()
    assert (flows.src >= 0).all()
    assert (flows.dst < len(call.ranks)).all()
    assert [column.dtype.name for column in flows] == ["int32", "int32", "int64"]


@given(calls())
def test_channels_divide_the_bytes_of_every_edge_and_repeat_the_edges(call: CollectiveCall) -> None:
    channels = call.channels or 1
    whole = one_channel(CollectiveCall("c", call.op, call.ranks, call.bytes, call.algorithm))
    flows = flows_of(call)
    each = flows.bytes.reshape(channels, -1)
    assert (flows.src.reshape(channels, -1) == whole.src).all()
    assert (flows.dst.reshape(channels, -1) == whole.dst).all()
    # Part of a byte counts as a byte, in each channel.
    assert (each.sum(axis=0) >= whole.bytes).all()
    assert (each.sum(axis=0) < whole.bytes + channels).all()


@given(st.integers(2, 64), SIZES)
def test_every_rank_receives_something_but_who_has_it_already_or_only_gives(n: int, size: int) -> None:
    for op, algorithm in PAIRS:
        ranks = 2 if op == "send_recv" else n
        flows = flows_of(CollectiveCall("c", op, tuple(range(ranks)), size, algorithm))
        takes, gives = set(flows.dst.tolist()), set(flows.src.tolist())
        everyone = set(range(ranks))
        assert takes | gives == everyone
        if op in ("broadcast", "send_recv"):
            assert takes == everyone - {0}
        elif op == "reduce":
            assert 0 in takes
            assert gives == everyone - {0}
        else:
            assert takes == gives == everyone
