"""A relay passes bytes on, holds them back while it is cut, and ends a connection with either side."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns.cluster.relays import CutRelay, Relays

PATIENCE = 60.0


@pytest.fixture
def target() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        yield listener


@pytest.fixture
def relay(target: socket.socket, tmp_path: Path) -> Iterator[CutRelay]:
    with Relays() as relays:
        yield relays.add(tmp_path / "socket", target.getsockname()[:2])


def connected(target: socket.socket, path: Path) -> tuple[socket.socket, socket.socket]:
    near = socket.socket(socket.AF_UNIX)
    near.settimeout(PATIENCE)
    near.connect(str(path))
    far, _ = target.accept()
    far.settimeout(PATIENCE)
    return near, far


@pytest.mark.usefixtures("relay")
def test_bytes_pass_in_both_directions_until_one_side_ends(target: socket.socket, tmp_path: Path) -> None:
    near, far = connected(target, tmp_path / "socket")
    with near, far:
        near.sendall(b"there")
        assert far.recv(100) == b"there"
        far.sendall(b"back")
        assert near.recv(100) == b"back"
        far.close()
        assert near.recv(100) == b""


def test_what_is_sent_during_a_cut_arrives_after_it(relay: CutRelay, target: socket.socket, tmp_path: Path) -> None:
    near, far = connected(target, tmp_path / "socket")
    with near, far:
        relay.cut()
        near.sendall(b"held back")
        far.setblocking(False)
        with pytest.raises(BlockingIOError):
            far.recv(100)
        far.settimeout(PATIENCE)
        relay.mend()
        assert far.recv(100) == b"held back"


def test_a_connection_that_begins_during_a_cut_is_made_after_it(
    relay: CutRelay, target: socket.socket, tmp_path: Path
) -> None:
    relay.cut()
    near = socket.socket(socket.AF_UNIX)
    near.connect(str(tmp_path / "socket"))
    threading.Timer(0.01, relay.mend).start()
    far, _ = target.accept()
    near.close()
    far.close()


def test_a_target_that_refuses_ends_the_connection(tmp_path: Path) -> None:
    with Relays() as relays:
        relays.add(tmp_path / "socket", tmp_path / "nobody")
        with socket.socket(socket.AF_UNIX) as near:
            near.settimeout(PATIENCE)
            near.connect(str(tmp_path / "socket"))
            assert near.recv(100) == b""


def test_what_the_target_sends_can_be_watched(relay: CutRelay, target: socket.socket, tmp_path: Path) -> None:
    seen: list[bytes] = []
    near, far = connected(target, tmp_path / "socket")
    with near, far:
        relay.watch(seen.append)
        near.sendall(b"not this")
        assert far.recv(100) == b"not this"
        far.sendall(b"this")
        assert near.recv(100) == b"this"
    assert seen == [b"this"]


def test_later_connections_reach_another_target(relay: CutRelay, target: socket.socket, tmp_path: Path) -> None:
    near, far = connected(target, tmp_path / "socket")
    with near, far, socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(PATIENCE)
        relay.redirect(other.getsockname()[:2])
        near.sendall(b"stays")
        assert far.recv(100) == b"stays"
        later, reached = connected(other, tmp_path / "socket")
        with later, reached:
            later.sendall(b"goes there")
            assert reached.recv(100) == b"goes there"


def test_a_connection_that_the_target_refuses_ends_with_the_refusal(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = gone.getsockname()[:2]
    with Relays() as relays, socket.socket(socket.AF_UNIX) as near:
        relays.add(tmp_path / "refusing", address, refusal=b"not there")
        near.settimeout(PATIENCE)
        near.connect(str(tmp_path / "refusing"))
        assert near.recv(100) == b"not there"
        assert near.recv(100) == b""
