"""The OpenFlow listener, in the clear or over TLS with certificates on both sides, in the place of Ryu's own.

Ryu's ends with the first error of ``accept``, and the program with it; it accepts any number of connections; and it
takes its TLS arguments apart at the first connection, so that every later one of the process fails
(docs/explanation/ryu.md). Ryu's option names stay: ``ctl_privkey``, ``ctl_cert``, ``ca_certs``.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource as limits
import socket as sockets
import ssl
from collections.abc import Callable
from typing import Any

from eventlet.green.ssl import GreenSSLSocket
from eventlet.timeout import Timeout
from ryu.lib import hub

from controller.southbound.limits.connection_places import Place, Places, files_for, places_for
from controller.southbound.limits.quiet_log import QuietLog
from controller.southbound.openflow.connections.certificates import reason_of
from controller.southbound.openflow.connections.connection_context import ConnectionContext

LOG = logging.getLogger("fairspine.southbound")

HANDSHAKE_SECONDS = 5.0
"""For the handshake of TLS; that of OpenFlow comes after it."""

BACKLOG = 1024
"""Connections that wait to be accepted."""

REST_FIRST, REST_LAST = 0.05, 1.0
"""Seconds until the next attempt where a connection cannot be accepted, doubling."""

_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_BROKEN = (errno.EBADF, errno.ENOTSOCK, errno.EINVAL, errno.EOPNOTSUPP)
"""Errors of the listening socket itself, which another attempt does not repair."""


class AcceptedSocket:
    """A connection that has been accepted.

    Attributes:
        connection: as soon as there is one, the switch's.
    """

    def __init__(self, places: Places, socket: Any, address: Any, now: float) -> None:
        """Take a place for a socket, if there is one."""
        self._places, self._socket = places, socket
        self.connection: Any = None
        self.address = str(address[0]) if address else "a local socket"
        self.place: Place | None = places.enter(self.address, self._leave, now)

    def settle(self, *, known: bool) -> bool:
        """Record that the handshake is complete; return whether it may stay. ``known``: its switch is intended."""
        return self.place is None or self._places.settle(self.place, known=known)

    def left(self) -> None:
        """Give the place up: the connection has ended."""
        if self.place is not None:
            self._places.left(self.place)

    def _leave(self, reason: str) -> None:
        if self.connection is not None:
            self.connection.end(reason, "crowded")
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(sockets.SHUT_RDWR)


def open_places(wanted: int) -> Places:
    """Return places for connections, and raise the process's limit on open files to match.

    Args:
        wanted: how many; 0: as many as fit, 4,096 at most.
    """
    soft, hard = limits.getrlimit(limits.RLIMIT_NOFILE)
    if soft == limits.RLIM_INFINITY:
        return Places(places_for(wanted, files_for(wanted)))
    needed = files_for(wanted)
    if soft < needed:
        soft = needed if hard == limits.RLIM_INFINITY else min(needed, hard)
        limits.setrlimit(limits.RLIMIT_NOFILE, (soft, hard))
    return Places(places_for(wanted, soft))


Serve = Callable[[Any, Any, AcceptedSocket], None]


def serving_with(
    context: ConnectionContext, places: Places, serve: Serve, tls: ssl.SSLContext | None
) -> Callable[..., OpenFlowServer]:
    """Return the factory that Ryu calls to make its OpenFlow listener.

    Args:
        context: shared by all connections.
        places: for connections.
        serve: called with each connection, in its own greenlet, until it ends.
        tls: how they are encrypted; ``None``: they are not.
    """

    def make(listen_info: Any, _handle: Any, **_ryus: Any) -> OpenFlowServer:
        # What else Ryu passes are the options that the context was made from.
        return OpenFlowServer(listen_info, context, places, serve, tls)

    return make


class OpenFlowServer(hub.StreamServer):
    """Ryu's server; runs until it is stopped."""

    def __init__(
        self,
        listen_info: Any,
        context: ConnectionContext,
        places: Places,
        serve: Serve,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Listen where Ryu's arguments ``listen_info`` say."""
        super().__init__(listen_info)
        self.server.listen(BACKLOG)
        self._context, self._places, self._serve, self._tls = context, places, serve, tls
        # Apart from warnings: a thousand switches that come back must not keep those out of the log.
        self._quiet = QuietLog(LOG, clock=context.clock)
        LOG.info("OpenFlow%s listens on %s:%d", "" if tls is None else " over TLS", *listen_info[:2])

    def serve_forever(self) -> None:
        """Accept connections until the program ends.

        Raises:
            OSError: the listening socket itself has failed.
        """
        rest = REST_FIRST
        while True:
            try:
                socket, address = self.server.accept()
            except OSError as error:
                if error.errno in _BROKEN:
                    raise
                if error.errno in _NO_ROOM:
                    self._no_room(error)
                    hub.sleep(rest)
                    rest = min(2 * rest, REST_LAST)
                else:
                    # It has gone before it was accepted.
                    hub.sleep(0)
                continue
            rest = REST_FIRST
            self._arrived(socket, address)
            # Let other greenlets run even under a flood of connections.
            hub.sleep(0)

    def _arrived(self, socket: Any, address: Any) -> None:
        arrival = AcceptedSocket(self._places, socket, address, self._context.clock())
        if arrival.place is not None:
            hub.spawn(self._handle, socket, address, arrival)
            return
        socket.close()
        text = f"there are {self._places.taken} connections, {self._places.new} of them in their handshake"
        self._context.ended(arrival.address, f"a new connection from {arrival.address}", "excess", text)
        self._context.notices.give(
            "excess", f"connections of switches are rejected, because the limit is reached: {text}"
        )

    def _no_room(self, error: OSError) -> None:
        name = os.strerror(error.errno or 0)
        self._context.ends["no files"] += 1
        self._context.notices.give("files", f"open files are exhausted, so switches cannot connect: {name}")
        self._context.log.warning("files", "a switch cannot connect: %s", name)
        self._places.give_up_oldest(self._context.clock())

    def _handle(self, socket: Any, address: Any, arrival: AcceptedSocket) -> None:
        try:
            wrapped = socket if self._tls is None else self._encrypted(socket, address, self._tls)
            if wrapped is not None:
                self._serve(wrapped, address, arrival)
        finally:
            arrival.left()
            with contextlib.suppress(OSError):
                socket.close()

    def _encrypted(self, socket: Any, address: Any, tls: ssl.SSLContext) -> Any:
        """Return the connection, wrapped in TLS; ``None``: it is rejected."""
        try:
            # Raises an error for a switch that has gone already, for which the next line would leak a socket.
            socket.getpeername()
            wrapped = GreenSSLSocket(socket, server_side=True, do_handshake_on_connect=False, _context=tls)
            with Timeout(HANDSHAKE_SECONDS, TimeoutError("no TLS handshake")):
                wrapped.do_handshake()
        except (OSError, ValueError) as error:
            reason = reason_of(error)
            self._context.ends["tls"] += 1
            # The kinds of reason are few, but some hold numbers.
            self._context.log.warning(
                (address[0], "tls", reason[:80]), "a switch at %s is rejected: %s", address[0], reason
            )
            return None
        self._quiet.write(logging.INFO, address[0], "%s:%d is connected over TLS", *address[:2])
        return _TlsSocket(wrapped)


class _TlsSocket:
    """The part of a TLS socket that is used, with end-of-connection behaviour like that of a plain socket."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._over = False
        self.setsockopt, self.settimeout = sock.setsockopt, sock.settimeout

    def recv(self, size: int) -> bytes:
        """Return bytes; any TLS error is the end of the connection."""
        try:
            data = b"" if self._over else bytes(self._sock.recv(size))
            return b"" if self._over else data
        except TimeoutError:
            raise
        except ssl.SSLError as error:
            raise ConnectionAbortedError(reason_of(error)) from None
        except ValueError:
            # Shut down by another greenlet meanwhile.
            return b""

    def sendall(self, data: bytes) -> None:
        try:
            self._sock.sendall(data)
        except ValueError:
            raise ConnectionAbortedError("shut down") from None

    def shutdown(self, _how: int) -> None:
        """Shut both directions down: bytes after half of a shutdown would be read without being decrypted."""
        self._over = True
        self._sock.shutdown(2)

    def close(self) -> None:
        self._sock.close()
