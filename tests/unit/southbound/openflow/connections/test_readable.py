"""A connection's bytes come whole and in order, however its reader and its registration meet."""

from __future__ import annotations

import random
from collections.abc import Iterator

from controller import ryu_compat

ryu_compat.prepare()

import eventlet  # noqa: E402 (after ryu_compat)
import pytest  # noqa: E402
from eventlet import hubs  # noqa: E402
from eventlet.green import socket  # noqa: E402
from eventlet.greenio import GreenSocket  # noqa: E402

from controller.southbound.openflow.connections.readable import Reader  # noqa: E402


@pytest.fixture
def ends() -> Iterator[tuple[GreenSocket, GreenSocket]]:
    near, far = socket.socketpair()
    yield near, far
    near.close()
    far.close()


def is_registered(end: GreenSocket) -> bool:
    hub = hubs.get_hub()
    return end.fileno() in hub.listeners[hub.READ]


@pytest.mark.parametrize("seed", range(5))
def test_all_bytes_come_in_order_while_the_reader_is_often_at_work_elsewhere(
    seed: int, ends: tuple[GreenSocket, GreenSocket]
) -> None:
    near, far = ends
    draw = random.Random(seed)
    sent = draw.randbytes(200_000)

    def send() -> None:
        at = 0
        while at < len(sent):
            size = draw.choice((1, 100, 5000))
            far.sendall(sent[at : at + size])
            at += size
            if draw.random() < 0.5:
                eventlet.sleep(0)
        far.shutdown(socket.SHUT_WR)

    sender, reader, found = eventlet.spawn(send), Reader(near), bytearray()
    with eventlet.Timeout(30):
        while data := reader.read(4096):
            found += data
            if draw.random() < 0.3:
                eventlet.sleep(draw.choice((0, 0.001)))
        sender.wait()
    reader.close()
    assert bytes(found) == sent


def test_it_stays_registered_between_reads_and_not_while_unread_bytes_wait(
    ends: tuple[GreenSocket, GreenSocket],
) -> None:
    near, far = ends
    reader = Reader(near)
    with eventlet.Timeout(30):
        far.sendall(b"one")
        assert reader.read(100) == b"one"
        assert is_registered(near)
        far.sendall(b"two")
        # The greenlet is at work: the hub must not report the same bytes in every one of its rounds.
        while is_registered(near):
            eventlet.sleep(0)
        assert reader.read(100) == b"two"
    reader.close()
    assert not is_registered(near)


def test_a_read_ends_when_the_socket_is_shut_down_by_another_greenlet(ends: tuple[GreenSocket, GreenSocket]) -> None:
    near, _ = ends
    reader = Reader(near)
    eventlet.spawn_after(0, near.shutdown, socket.SHUT_RDWR)
    with eventlet.Timeout(30):
        assert reader.read(100) == b""
    reader.close()


def test_writing_blocks_and_goes_on_beside_a_registered_reader(ends: tuple[GreenSocket, GreenSocket]) -> None:
    near, far = ends
    reader, sent = Reader(near), random.Random(1).randbytes(3_000_000)
    reading = eventlet.spawn(reader.read, 100)
    writing = eventlet.spawn(near.sendall, sent)
    found = bytearray()
    with eventlet.Timeout(30):
        while len(found) < len(sent):
            found += far.recv(1 << 16)
        writing.wait()
        far.sendall(b"end")
        assert reading.wait() == b"end"
    reader.close()
    assert bytes(found) == sent


def test_a_reset_is_an_error(ends: tuple[GreenSocket, GreenSocket]) -> None:
    near, far = ends
    far.sendall(b"unread")
    near_reader = Reader(near)
    near.sendall(b"never read")
    far.close()
    with eventlet.Timeout(30):
        assert near_reader.read(100) == b"unread"
        with pytest.raises(ConnectionResetError):
            near_reader.read(100)
    near_reader.close()
