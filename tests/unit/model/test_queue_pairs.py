"""Shares of QPs, and the UDP source ports that Linux gives them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.model.queue_pairs import MESSAGE_BYTES, QueuePairs, udp_source_port

sizes = st.lists(st.integers(1, 2**53), min_size=1, max_size=9).map(lambda rows: np.array(rows, dtype=np.int64))


@given(sizes, st.integers(1, 128))
def test_split_shares_are_equal_up_to_a_byte_and_add_up(size: np.ndarray, count: int) -> None:
    share = QueuePairs(count).shares(size)
    assert (share.sum(axis=1) == size).all()
    assert (share.max(axis=1) - share.min(axis=1) <= 1).all()


@given(sizes, st.integers(1, 128))
def test_round_robin_shares_are_those_of_messages_in_turn(size: np.ndarray, count: int) -> None:
    share = QueuePairs(count, "round_robin").shares(size)
    assert (share.sum(axis=1) == size).all()
    assert (share >= 0).all()
    assert (share.max(axis=1) - share.min(axis=1) <= MESSAGE_BYTES).all()
    small = size <= 200 * MESSAGE_BYTES
    for row, total in zip(share[small], size[small].tolist(), strict=True):
        sent = [0] * count
        for number, begin in enumerate(range(0, total, MESSAGE_BYTES)):
            sent[number % count] += min(MESSAGE_BYTES, total - begin)
        assert row.tolist() == sent


@given(st.integers(0, 2**24 - 1), st.integers(0, 2**24 - 1))
def test_a_derived_port_follows_the_definition_in_exact_integers(local: int, remote: int) -> None:
    folded = local * remote
    folded ^= folded >> 20
    folded ^= folded >> 40
    label = folded & 0xFFFFF
    port = udp_source_port(np.array([local]), np.array([remote])).tolist()
    assert port == [((label & 0x3FFF) ^ ((label & 0xFC000) >> 14)) | 0xC000]
    assert port == udp_source_port(np.array([remote]), np.array([local])).tolist()
