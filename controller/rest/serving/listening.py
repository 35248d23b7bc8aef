"""A listening socket that is not shared, and whose ``accept`` survives errors that would end eventlet's server."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from typing import Any

import eventlet
from eventlet.green import socket

LOG = logging.getLogger(__name__)

_NOT_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Listener:
    """Accepts connections for eventlet's server."""

    def __init__(self, sock: Any, *, accepted: Callable[[], None]) -> None:
        """Wrap a listening socket; call ``accepted``, which may block, for each connection before it is served."""
        self._sock, self._accepted = sock, accepted
        self.getsockname = sock.getsockname
        self.family = sock.family
        self.closed = False

    def accept(self) -> tuple[Any, Any]:
        """Return the next connection and its address."""
        while True:
            try:
                client, address = self._sock.accept()
            except OSError as error:
                if self.closed:
                    raise OSError(errno.ENOTCONN, "closed") from error
                if error.errno in _NOT_NOW:
                    LOG.warning("HTTP cannot accept a connection now: %s", error.strerror)
                    eventlet.sleep(0.5)
                continue
            self._accepted()
            return client, address

    def close(self) -> None:
        """Close the socket; a blocked ``accept`` ends."""
        self.closed = True
        self._sock.close()


def listen(host: str, port: int) -> Any:
    """Open a listening socket that is not shared.

    ``eventlet.listen`` sets SO_REUSEPORT, so a second controller on the port would silently get half of the requests.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(1024)
    except OSError:
        sock.close()
        raise
    return sock
