"""OpenFlow over TLS, with certificates on both sides: in the place of Ryu's own listener.

Ryu 4.34 takes its TLS arguments apart at the first connection, so that every later one of the process fails
(docs/ryu.md). Here one context serves them all. Ryu's option names stay: ``ctl_privkey``, ``ctl_cert``, ``ca_certs``.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventlet.green.ssl import GreenSSLSocket
from eventlet.timeout import Timeout
from ryu.controller import controller
from ryu.lib import hub

from controller.model.errors import InputError

LOG = logging.getLogger("fairspine.southbound")

HANDSHAKE_SECONDS = 5.0
QUIET_SECONDS = 60.0
"""A switch that fails in the same way again is not told of again until it has been quiet for so long."""

MOST_REMEMBERED = 1000


def tls_context(key: str | None, cert: str | None, ca: str | None) -> ssl.SSLContext | None:
    """TLS 1.2 and up, for switches with a certificate of that authority; ``None``: no TLS is wanted.

    Args:
        key, cert, ca: paths of PEM files, all three or none.

    Raises:
        InputError: one is not given or cannot be used.
    """
    paths = {"ctl_privkey": key, "ctl_cert": cert, "ca_certs": ca}
    given = {field: path for field, path in paths.items() if path}
    if not given:
        return None
    for field in paths:
        if field not in given:
            raise InputError(f"OpenFlow over TLS needs {', '.join(paths)}, and this one is not given", field=field)
    for field, path in given.items():
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise InputError(error.strerror or str(error), field=field, value=path) from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(given["ctl_cert"], given["ctl_privkey"], password=_no_password)
    except _EncryptedError:
        raise InputError("is encrypted; the controller needs it without a password", field="ctl_privkey") from None
    except (ssl.SSLError, OSError) as error:
        reason = f"is no certificate with its key: {_reason(error)}"
        raise InputError(reason, field="ctl_cert", value=given["ctl_cert"]) from None
    try:
        context.load_verify_locations(given["ca_certs"])
    except (ssl.SSLError, OSError) as error:
        reason = f"holds no certificate of an authority: {_reason(error)}"
        raise InputError(reason, field="ca_certs", value=given["ca_certs"]) from None
    return context


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
            self._tell(address, _reason(error))
            sock.close()
            return
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
            raise ConnectionAbortedError(_reason(error)) from None
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


def _reason(error: Exception) -> str:
    return str(getattr(error, "verify_message", None) or getattr(error, "reason", None) or error)


class _EncryptedError(Exception):
    pass


def _no_password() -> str:
    """Asked for by OpenSSL, which would ask at the terminal otherwise."""
    raise _EncryptedError
