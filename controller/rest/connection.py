"""One client's connection, as eventlet's server serves it: strict heads and bodies, problems, and silence."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import eventlet
import eventlet.hubs
import eventlet.wsgi
from eventlet.green import socket
from eventlet.green.ssl import GreenSSLSocket

from controller.rest.budget import Budget
from controller.rest.framing import PIECE_BYTES, Framing, body_pieces, check_head
from controller.rest.limits import Limits
from controller.rest.problems import ProblemError
from controller.rest.tls import Tls

LOG = logging.getLogger(__name__)
CONNECTION = "controller.connection"
"""Where a request's environment holds its connection."""

ACCESS_LOG = logging.getLogger("controller.rest.access")


@dataclass
class Shared:
    """What all connections of a server have in common.

    ``waiting``: the greenlets of connections from which no request has come yet, the longest waiting first.
    """

    limits: Limits
    tls: Tls | None
    total: Budget
    reads: Budget
    plans: Budget
    streams: Budget
    waiting: dict[Any, None] = field(default_factory=dict)
    streaming: set[Any] = field(default_factory=set)

    def at_work(self, takes_long: bool) -> AbstractContextManager[None]:
        """Held while the controller works on a request."""
        return (self.plans if takes_long else self.reads).held()

    def make_room(self) -> None:
        """Cut off whoever has waited longest without asking for anything."""
        longest = next(iter(self.waiting), None)
        if longest is not None:
            # Only if it still waits when its turn comes: it may have begun to ask by then.
            eventlet.hubs.get_hub().schedule_call_global(0, self._cut_off, longest)

    def _cut_off(self, greenlet: Any) -> None:
        if greenlet in self.waiting:
            greenlet.throw(TimeoutError("others wait for its place"))


class Connection(eventlet.wsgi.HttpProtocol):  # type: ignore[misc]
    """Eventlet's protocol, with its own error pages, logging and body reading replaced."""

    def __init__(self, conn_state: list[Any], server: Any, *, shared: Shared) -> None:
        self.shared, self.limits = shared, shared.limits
        self.framing = Framing()
        self.body_unread = False
        self.body_held = 0
        self._head_timer: Any = None
        greenlet = eventlet.getcurrent()
        shared.waiting[greenlet] = None
        try:
            if shared.tls is None or self._shake_hands(conn_state, shared.tls):
                # Eventlet's constructor serves the whole connection.
                super().__init__(conn_state, server)
        finally:
            shared.waiting.pop(greenlet, None)

    def _shake_hands(self, conn_state: list[Any], tls: Tls) -> bool:
        """In the connection's own greenlet, for a client may take its time. Whether there is a TLS connection now."""
        conn_state[1].settimeout(self.limits.head_seconds)
        try:
            # Fails for a client that has gone already, of which the next line would leave half a socket.
            conn_state[1].getpeername()
            conn_state[1] = GreenSSLSocket(
                conn_state[1], server_side=True, do_handshake_on_connect=False, _context=tls.context()
            )
            with eventlet.Timeout(self.limits.head_seconds, TimeoutError("no TLS handshake")):
                conn_state[1].do_handshake()
        except (OSError, ValueError) as error:
            # A scanner, a client of plain HTTP, or one that does not trust us: its log says more than ours could.
            LOG.debug("HTTPS client %s: %s", conn_state[0], error)
            self.connection = conn_state[1]
            if not isinstance(error, TimeoutError):
                with contextlib.suppress(OSError, ValueError):
                    self._linger()
            return False
        return True

    def setup(self) -> None:
        super().setup()
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError as error:
            # The client stalled or went away. That is its right, and nothing that an operator can mend.
            LOG.debug("HTTP client %s: %s", self.client_address, error)
        except Exception:
            LOG.exception("HTTP connection of %s", self.client_address)
        finally:
            if self._head_timer is not None:
                self._head_timer.cancel()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            self.wfile.flush()
            if self.body_unread:
                self._linger()
        # Each by itself: a stream that cannot be flushed must not keep the other, and with it the socket, open.
        for close in (self.wfile.close, self.rfile.close, super().finish):
            with contextlib.suppress(OSError):
                close()

    def _linger(self) -> None:
        """Closing with unread bytes resets the connection, which can take the response away from the client."""
        self.connection.shutdown(socket.SHUT_WR)
        with eventlet.Timeout(self.limits.linger_seconds, False):
            while self.connection.recv(PIECE_BYTES):
                # Reading what is there already does not switch to anyone else, nor lets the timer fire.
                eventlet.sleep(0)

    # -- the head ------------------------------------------------------------------------------------------------

    def _read_request_line(self) -> bytes | str:
        self.framing, self.body_unread, self.command = Framing(), False, ""
        self.shared.waiting[eventlet.getcurrent()] = None
        self._head_timer = eventlet.Timeout(self.limits.head_seconds, TimeoutError("no request came"))
        line: bytes | str = super()._read_request_line()
        if len(line) >= self.server.url_length_limit:
            self._refuse(ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, "the request line is too long"))
            return b""
        return line

    def parse_request(self) -> bool:
        try:
            if not super().parse_request():
                return False
            if self.request_version == "HTTP/0.9":
                raise ProblemError(HTTPStatus.BAD_REQUEST, "the request line has no HTTP version")
            if self.headers.defects:
                raise ProblemError(HTTPStatus.BAD_REQUEST, "malformed header")
            self.framing = check_head(self.command, self.request_version, self.headers.items())
        except (eventlet.wsgi.HeaderLineTooLong, eventlet.wsgi.HeadersTooLarge):
            self._refuse(ProblemError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too long"))
            return False
        except ProblemError as problem:
            self._refuse(problem)
            return False
        self._head_timer.cancel()
        self.shared.waiting.pop(eventlet.getcurrent(), None)
        self.body_unread = self.framing.has_body
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Called by the standard library's parser."""
        self._refuse(ProblemError(code, (message or "malformed request")[:200]))

    def _refuse(self, problem: ProblemError) -> None:
        """Answer what is no request, and close: nobody knows where the next one would begin."""
        self.close_connection = True
        self.body_unread = True
        response = problem.response("")
        self.wfile.write(response.closing_bytes(head_only=self.command == "HEAD"))
        log_access(self.client_address[0], "-", "-", response.status, len(response.body), 0.0)

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        # The body is read by read_body() alone; what eventlet itself reads and drops is an empty one.
        environ["wsgi.input"] = environ["eventlet.input"] = eventlet.wsgi.Input(self.rfile, 0, self.connection)
        environ[CONNECTION] = self
        return environ

    # -- the body ------------------------------------------------------------------------------------------------

    def read_body(self, at_most: int | None = None) -> bytes:
        """The body of the current request, which counts among what all clients hold until ``drop_body``.

        Raises:
            ProblemError: too large, malformed, broken off, too slow, or too much together with others'.
        """
        most = self.limits.body_bytes if at_most is None else min(at_most, self.limits.body_bytes)
        pieces = body_pieces(self.rfile, self.framing, at_most=most)
        try:
            with eventlet.Timeout(self.limits.body_seconds, TimeoutError()):
                return b"".join(self._received(pieces, most))
        except TimeoutError:
            raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time") from None
        except OSError:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "the connection broke before the end of the body") from None

    def drop_body(self) -> None:
        """The body is not needed any more."""
        self.shared.total.give(self.body_held)
        self.body_held = 0

    def _received(self, pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
        if self.framing.awaits_continue and (self.framing.chunked or 0 < (self.framing.length or 0) <= most):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        for piece in pieces:
            # As it comes: what is only announced takes no room, and keeps none from others.
            self.shared.total.take(len(piece))
            self.body_held += len(piece)
            yield piece
            eventlet.sleep(0)
        self.body_unread = False


def log_access(client: str, method: str, path: str, status: int, size: int, seconds: float) -> None:
    reading = method in ("GET", "HEAD", "OPTIONS") and status < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if reading else logging.INFO
    ACCESS_LOG.log(level, "%s %s %s %d %d bytes %.1f ms", client, method, path[:200], status, size, seconds * 1e3)
