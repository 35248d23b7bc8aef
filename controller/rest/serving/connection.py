"""Serve one connection with eventlet's protocol, made strict.

Eventlet parses requests, keeps connections alive, calls the WSGI application and writes responses. It has no limit on
the time of a head or a body, answers errors with empty or HTML pages, logs a traceback for each client that goes away,
shakes hands for TLS in the loop that accepts connections, and reads bodies loosely
(``controller.rest.serving.framing``).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import eventlet
import eventlet.hubs
import eventlet.patcher
import eventlet.wsgi
from eventlet.green import socket
from eventlet.green.ssl import GreenSSLSocket

from controller.logs.request_context import begin_request, current_request
from controller.rest.access_log import log_access
from controller.rest.operation import CLIENT_GONE, CLIENT_HOSTS, REQUEST_ID
from controller.rest.problems import PROBLEM_JSON, ProblemError, internal
from controller.rest.security.tls import Tls, certified_names
from controller.rest.serving.framing import PIECE_BYTES, Framing, HeadLines, body_pieces, check_request_line, framing
from controller.rest.serving.limits import ClientLimits
from controller.rest.serving.target import split_target

LOG = logging.getLogger(__name__)

WAITING_BYTES = 4096
"""Of each buffer of a connection. Eventlet's have 8 and 16 KiB, which thousands of agents hold while they wait."""

original_select = eventlet.patcher.original("select")


@dataclass
class Shared:
    """The state that all connections of a server share.

    ``waiting``: the greenlets of connections without a request, the longest waiting first.
    """

    limits: ClientLimits
    tls: Tls | None
    waiting: dict[Any, None] = field(default_factory=dict)

    def make_room(self) -> None:
        """Disconnect the client that has waited longest without sending a request."""
        longest = next(iter(self.waiting), None)
        if longest is not None:
            # Only if it still waits when its turn comes: it may have sent a request by then.
            eventlet.hubs.get_hub().schedule_call_global(0, self._cut_off, longest)

    def _cut_off(self, greenlet: Any) -> None:
        if greenlet in self.waiting:
            greenlet.throw(TimeoutError("closed to accept another client"))


def _is_closed(socket_number: int) -> bool:
    """Return whether the other end of a socket is closed, also if only for sending; without waiting."""
    # Not eventlet's: other threads ask, too.
    poll = original_select.poll()
    poll.register(socket_number, original_select.POLLRDHUP)
    return bool(poll.poll(0))


class Connection(eventlet.wsgi.HttpProtocol):  # type: ignore[misc]
    """A client's connection. ``body_unread``: whether bytes of the current request's body are still to come."""

    rbufsize = wbufsize = WAITING_BYTES

    def __init__(self, conn_state: list[Any], server: Any, *, shared: Shared) -> None:
        """Serve one accepted socket; ``conn_state`` and ``server`` are eventlet's."""
        self.shared, self.limits = shared, shared.limits
        self.framing, self.body_unread = Framing(), False
        self._head_timer: Any = None
        self._certified: tuple[str, ...] = ()
        greenlet = eventlet.getcurrent()
        shared.waiting[greenlet] = None
        try:
            if shared.tls is None or self._shake_hands(conn_state, shared.tls):
                # Eventlet's constructor serves the whole connection.
                super().__init__(conn_state, server)
        finally:
            shared.waiting.pop(greenlet, None)

    def _shake_hands(self, conn_state: list[Any], tls: Tls) -> bool:
        """Return whether TLS was established. In the connection's own greenlet, because a client may stall."""
        conn_state[1].settimeout(self.limits.head_seconds)
        try:
            # Raises an error for a client that has gone already, for which the next line would leak a socket.
            conn_state[1].getpeername()
            conn_state[1] = GreenSSLSocket(
                conn_state[1], server_side=True, do_handshake_on_connect=False, _context=tls.context()
            )
            with eventlet.Timeout(self.limits.head_seconds, TimeoutError("no TLS handshake")):
                conn_state[1].do_handshake()
            self._certified = certified_names(conn_state[1])
        except (OSError, ValueError) as error:
            # A scanner, a client of plain HTTP, or one that rejects the certificate; the cause is in the client's log.
            LOG.debug("HTTPS client %s: %s", conn_state[0], error)
            self.connection = conn_state[1]
            if not isinstance(error, TimeoutError):
                with contextlib.suppress(OSError, ValueError):
                    self._linger()
            return False
        return True

    def setup(self) -> None:
        """Prepare the socket."""
        super().setup()
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handle(self) -> None:
        """Serve requests until the connection ends. A client that stalls or goes away is no error of ours."""
        try:
            super().handle()
        except OSError as error:
            LOG.debug("HTTP client %s: %s", self.client_address, error)
        except Exception as error:
            # Python's ssl raises ValueError where the server itself has ended the connection, as it does when it stops.
            if not (isinstance(error, ValueError) and self.conn_state[2] == eventlet.wsgi.STATE_CLOSE):
                LOG.exception("HTTP connection of %s", self.client_address)
        finally:
            if self._head_timer is not None:
                self._head_timer.cancel()

    def finish(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self.wfile.flush()
            if self.body_unread:
                self._linger()
        # One by one: a stream that cannot be flushed must not keep the other, and with it the socket, open.
        for close in (self.wfile.close, self.rfile.close, super().finish):
            with contextlib.suppress(OSError):
                close()

    def _linger(self) -> None:
        """Read and drop what the client still sends.

        Closing with unread bytes resets the connection, and the client may lose the response.
        """
        self.connection.shutdown(socket.SHUT_WR)
        with eventlet.Timeout(self.limits.linger_seconds, False):
            while self.connection.recv(PIECE_BYTES):
                # Reading what is there already does not yield to other greenlets, nor let the timer fire.
                eventlet.sleep(0)

    # -- the head ------------------------------------------------------------------------------------------------

    def _read_request_line(self) -> bytes | str:
        self.framing, self.body_unread, self.command = Framing(), False, ""
        self.shared.waiting[eventlet.getcurrent()] = None
        self._head_timer = eventlet.Timeout(self.limits.head_seconds, TimeoutError("no request received"))
        line: bytes | str = super()._read_request_line()
        if len(line) >= self.server.url_length_limit:
            self._refuse(ProblemError(HTTPStatus.REQUEST_URI_TOO_LONG, "the request line is too long"))
            return b""
        return line

    def parse_request(self) -> bool:
        """Parse the head; return whether it is sound. A head that is not is answered here."""
        try:
            check_request_line(self.raw_requestline)
            # Eventlet puts its own reader back when the head is read.
            lines = HeadLines(self.rfile)
            self.rfile: Any = lines
            if not super().parse_request():
                return False
            self.headers: Any = lines.fields
            fields: dict[str, list[str]] = {}
            for name, value in self.headers.items():
                fields.setdefault(name.lower(), []).append(value.strip(" \t"))
            self.framing = framing(self.request_version, fields)
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
        """Answer an error that the standard library's parser has found."""
        self._refuse(ProblemError(code, (message or "malformed request")[:200]))

    def _refuse(self, problem: ProblemError) -> None:
        """Answer and close: the start of the next request is unknown."""
        self.close_connection = self.body_unread = True
        body = problem.body()
        head = (
            f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\nCache-Control: no-cache\r\n"
            f"X-Content-Type-Options: nosniff\r\nContent-Type: {PROBLEM_JSON}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        self.wfile.write(head.encode() + (b"" if self.command == "HEAD" else body))
        log_access(self.client_address[0], "-", "-", problem.status, len(body), 0.0)

    def get_environ(self) -> dict[str, Any]:
        """Return the WSGI environment.

        The path is in normal form and still percent-encoded; ``wsgi.input`` is this connection, of which the
        application
        uses ``read_body``; for eventlet, the body is empty.
        """
        environ: dict[str, Any] = super().get_environ()
        environ["PATH_INFO"], environ["QUERY_STRING"] = split_target(self.path)
        # Eventlet sets a type of its own where the client declared none.
        environ["CONTENT_TYPE"] = self.headers.get("content-type", "")
        environ["RAW_URI"] = self.path
        environ["eventlet.input"] = eventlet.wsgi.Input(self.rfile, 0, self.connection)
        environ["wsgi.input"] = self
        environ[CLIENT_HOSTS] = self._certified
        environ[CLIENT_GONE] = functools.partial(_is_closed, self.connection.fileno())
        return environ

    def handle_one_response(self) -> None:
        """Call the application, and end the connection after a response that left a part of the body unread."""

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            try:
                body: Iterable[bytes] = self.server.app(environ, start_response)
            except Exception:
                # One in the writing of an answer, or of an error: Falcon handles those of operations.
                return self._failed(start_response)
            # Do not wait for the rest of a body that is not needed. Nothing has been sent yet.
            self.close_connection = self.close_connection or self.body_unread
            return body

        self.application = application
        try:
            super().handle_one_response()
        finally:
            # The rest of the connection is of no request, until the next one.
            begin_request("")

    def _failed(self, start_response: Any) -> Iterable[bytes]:
        """Log the traceback, and answer with its id."""
        error_id = secrets.token_hex(4)
        LOG.exception("error %s: %s %s", error_id, self.command, self.path)
        self.close_connection = True
        body = internal(error_id).body()
        headers = [
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            ("Content-Type", PROBLEM_JSON),
            ("Content-Length", str(len(body))),
            *([(REQUEST_ID, current_request())] if current_request() else []),
        ]
        start_response("500 Internal Server Error", headers)
        return [b"" if self.command == "HEAD" else body]

    # -- bodies ----------------------------------------------------------------------------------------------

    def read_body(self, at_most: int | None, arrived: Callable[[int], None]) -> bytes:
        """Return the body of the current request.

        Args:
            at_most: limit on its length; ``None``: the server's limit.
            arrived: called with the length of each piece; what is only announced takes no memory.

        Raises:
            ProblemError: the body is too large, malformed, broken off or too slow, or ``arrived`` raised it.
        """
        most = self.limits.body_bytes if at_most is None else min(at_most, self.limits.body_bytes)
        try:
            with eventlet.Timeout(self.limits.body_seconds, TimeoutError()):
                return b"".join(self._received(body_pieces(self.rfile, self.framing, at_most=most), most, arrived))
        except TimeoutError:
            raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "the body did not arrive in time") from None
        except OSError:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "the connection broke before the end of the body") from None

    def _received(self, pieces: Iterator[bytes], most: int, arrived: Callable[[int], None]) -> Iterator[bytes]:
        if self.framing.awaits_continue and (self.framing.chunked or 0 < (self.framing.length or 0) <= most):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        for piece in pieces:
            arrived(len(piece))
            yield piece
            if self.framing.chunked or len(piece) >= PIECE_BYTES:
                # Others may take their turns between the pieces of a long body.
                eventlet.sleep(0)
        self.body_unread = False
