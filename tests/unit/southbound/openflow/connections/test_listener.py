"""The listener goes on after every error of a connection, and rests where no file can be opened."""

from __future__ import annotations

import errno
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from ryu.lib import hub  # noqa: E402

from controller.southbound.limits.connection_places import Places  # noqa: E402
from controller.southbound.openflow.connections.connection_context import ConnectionContext  # noqa: E402
from controller.southbound.openflow.connections.listener import AcceptedSocket, OpenFlowServer  # noqa: E402


class Socket:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def shutdown(self, _how: int) -> None:
        self.close()


class Listening:
    """A listening socket with a script: sockets that connect, and errors."""

    def __init__(self, script: list[Socket | int]) -> None:
        self.script = script

    def accept(self) -> tuple[Any, tuple[str, int]]:
        step = self.script.pop(0) if self.script else errno.EBADF
        if isinstance(step, int):
            raise OSError(step, "scripted")
        return step, ("10.0.0.9", 1)


def test_errors_of_accept_are_survived_and_connections_beyond_the_places_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests: list[float] = []
    served: list[Any] = []
    monkeypatch.setattr(hub, "sleep", rests.append)
    monkeypatch.setattr(hub, "spawn", lambda _task, socket, *_: served.append(socket))
    clock = [10.0]
    context = ConnectionContext(name=hex, changed=lambda: None, clock=lambda: clock[0])
    server = OpenFlowServer.__new__(OpenFlowServer)
    server._context, server._places, server._tls = context, Places(2), None
    first, second = Socket(), Socket()
    server.server = Listening(
        [errno.ECONNABORTED, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EMFILE, first, second, errno.EMFILE]
    )
    with pytest.raises(OSError, match="scripted"):
        server.serve_forever()
    assert served == [first]
    assert second.closed
    assert not first.closed
    assert [rest for rest in rests if rest] == [0.05, 0.1, 0.2, 0.05]
    assert context.ends == {"no files": 4, "excess": 1}
    texts = context.notices.texts()
    assert any("open files are exhausted" in text for text in texts)
    assert any("the limit is reached" in text for text in texts)


def test_a_connection_that_makes_room_before_it_has_said_anything_is_shut_down() -> None:
    places = Places(2)
    first, second = Socket(), Socket()
    one = AcceptedSocket(places, first, ("10.0.0.9", 1), 0.0)
    assert AcceptedSocket(places, second, ("10.0.0.8", 1), 0.1).place is None
    assert AcceptedSocket(places, second, ("10.0.0.8", 1), 5.0).place is not None
    assert first.closed
    one.left()
    assert places.taken == 1
