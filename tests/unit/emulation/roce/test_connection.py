"""Messages over the QPs of a connection, in both modes."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from controller.model.choices.qp_mode import QP_MODES, QpMode
from emulation.roce.connection import QpConnection
from emulation.roce.receiver import ReceivedMessage
from emulation.roce.sender import Sender, SenderOptions
from tests.unit.emulation.roce.channel import RKEY, Channel, pair

OPTIONS = SenderOptions(mtu=256, line_rate=1e7)


def connected(
    qps: int, sizes: list[int], mode: QpMode, message_bytes: int
) -> tuple[bytearray, bytes, int, list[list[ReceivedMessage]]]:
    """Send transfers, one behind the other in the memory.

    Returns that memory, what should be in it, the number of writes, and what each QP's receiver completed.
    """
    memory = bytearray(sum(sizes))
    runs = [pair(OPTIONS, Channel(random.Random(0)), memory=memory) for _ in range(qps)]
    connection = QpConnection([run.sender for run in runs], [1 / qps] * qps, mode, message_bytes)
    data = random.Random(1).randbytes(sum(sizes))
    posted, at = 0, 0
    for size in sizes:
        posted += connection.post(memoryview(data)[at : at + size], at, RKEY)
        at += size
    for run in runs:
        run.play()
    assert sum(len(run.completed) for run in runs) == posted
    return memory, data, posted, [run.arrived for run in runs]


@given(
    st.integers(1, 8),
    st.lists(st.integers(1, 3000), min_size=1, max_size=6),
    st.sampled_from(QP_MODES),
    st.integers(1, 1000),
)
def test_every_byte_arrives_once_and_every_write_completes_at_the_receiver(
    qps: int, sizes: list[int], mode: QpMode, message_bytes: int
) -> None:
    memory, data, posted, arrived = connected(qps, sizes, mode, message_bytes)
    assert memory == data
    writes = [write for of_qp in arrived for write in of_qp]
    assert len(writes) == posted
    assert sum(write.length for write in writes) == len(data)
    assert all(write.immediate is not None for write in writes)


@given(st.integers(1, 8), st.lists(st.integers(1, 3000), min_size=1, max_size=6), st.integers(1, 1000))
def test_a_split_message_is_cut_into_equal_parts_that_tell_its_length(
    qps: int, sizes: list[int], message_bytes: int
) -> None:
    _, _, _, arrived = connected(qps, sizes, "split", message_bytes)
    for start, size in zip([sum(sizes[:i]) for i in range(len(sizes))], sizes, strict=True):
        parts = [write for of_qp in arrived for write in of_qp if start <= write.va < start + size]
        assert {write.immediate for write in parts} == {size}
        assert max(write.length for write in parts) <= size // qps + 1


@given(st.integers(1, 8), st.lists(st.integers(1, 3000), min_size=1, max_size=6), st.integers(1, 1000))
def test_messages_by_turns_go_whole_and_no_qp_is_more_than_one_ahead(
    qps: int, sizes: list[int], message_bytes: int
) -> None:
    _, _, _, arrived = connected(qps, sizes, "round_robin", message_bytes)
    writes = [write for of_qp in arrived for write in of_qp]
    assert all(write.immediate == write.length <= message_bytes for write in writes)
    assert len(writes) == sum(-(-size // message_bytes) for size in sizes)
    carried = [sum(write.length for write in of_qp) for of_qp in arrived]
    assert max(carried) - min(carried) <= message_bytes


def test_messages_of_one_length_take_turns_in_the_order_of_the_qps() -> None:
    senders = [Sender(qp, OPTIONS) for qp in range(3)]
    connection = QpConnection(senders, [1 / 3] * 3, "round_robin", 100)
    assert connection.post(memoryview(bytes(700)), 0, RKEY) == 7
    packets = [[sender.poll(0.01 * i) for i in range(3)] for sender in senders]
    starts = [[packet.reth.va for packet in own if packet and packet.reth] for own in packets]
    assert starts == [[0, 300, 600], [100, 400], [200, 500]]
