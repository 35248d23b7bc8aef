"""OpenFlow over TLS, with certificates on both sides: in the place of Ryu's own listener.

Ryu 4.34 takes its TLS arguments apart at the first connection, so that every later one of the process fails
(docs/ryu.md). Here one context serves them all. Ryu's option names stay: ``ctl_privkey``, ``ctl_cert``, ``ca_certs``.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from typing import Any

from eventlet.green.ssl import GreenSSLSocket
from eventlet.timeout import Timeout
from ryu.controller import controller
from ryu.lib import hub

from controller.southbound.openflow.certificates import reason_of

LOG = logging.getLogger("fairspine.southbound")

HANDSHAKE_SECONDS = 5.0
QUIET_SECONDS = 60.0
"""A switch that fails in the same way again is not told of again until it has been quiet for so long."""

MOST_REMEMBERED = 1000


def listen_with(context: ssl.SSLContext) -> None:
    """Have Ryu's OpenFlow listener, which is not there yet, speak TLS."""

    class Server(TlsServer):
        tls = context

    controller.StreamServer = Server


class TlsServer(hub.StreamServer):
    """Ryu's server, with every connection wrapped in the same context."""

    tls: ssl.SSLContext

    def __init__(self, listen_info: Any, handle: Callable[[Any, Any], None], **_ryus: Any) -> None:
        """What else Ryu passes are the options that the context was made from."""
        super().__init__(listen_info, handle)
        self._serve = handle
        self.handle = self._shake_hands
        self._told: dict[tuple[str, str], float] = {}
        LOG.info("OpenFlow over TLS listens on %s:%d", *listen_info[:2])

    def _shake_hands(self, sock: Any, address: Any) -> None:
        try:
            # Fails for a switch that has gone already, of which the next line would leave half a socket.
            sock.getpeername()
            wrapped = GreenSSLSocket(sock, server_side=True, do_handshake_on_connect=False, _context=self.tls)
            with Timeout(HANDSHAKE_SECONDS, TimeoutError("no TLS handshake")):
                wrapped.do_handshake()
        except (OSError, ValueError) as error:
            self._tell(address, reason_of(error))
            sock.close()
            return
        LOG.info("%s:%d is connected over TLS", *address[:2])
        self._serve(_TlsSocket(wrapped), address)

    def _tell(self, address: Any, reason: str) -> None:
        now = time.monotonic()
        self._told = {key: last for key, last in self._told.items() if now - last < QUIET_SECONDS}
        known = (str(address[0]), reason) in self._told
        if known or len(self._told) < MOST_REMEMBERED:
            self._told[str(address[0]), reason] = now
        if not known:
            LOG.warning("a switch at %s is not let in: %s", address[0], reason)


class _TlsSocket:
    """What Ryu uses of a socket, with the ends of a connection as it expects them of one in the clear."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._over = False
        self.setsockopt, self.settimeout = sock.setsockopt, sock.settimeout

    def recv(self, size: int) -> bytes:
        """Ryu would ask again after any TLS error, for ever: for it the connection is at its end."""
        try:
            data = b"" if self._over else bytes(self._sock.recv(size))
            return b"" if self._over else data
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
        """Both ways: what came after half of a shutdown would be read without being decrypted."""
        self._over = True
        self._sock.shutdown(2)

    def close(self) -> None:
        self._sock.close()
