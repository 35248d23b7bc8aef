"""The resources behind Ryu's routing, served by eventlet on a socket of our own.

Ryu's own HTTP server answers a wrong method with 404, sends tracebacks to clients, reads chunked bodies as empty and
is blocked by clients that stall. So ``HttpServer`` is not the ``WSGIApplication`` that Ryu starts a server for;
eventlet's protocol is used with its own error pages, logging and body reading replaced.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

import eventlet
import eventlet.wsgi
import webob
from eventlet.green import socket
from ryu.app.wsgi import ControllerBase, WSGIApplication

from controller.rest.backend import Backend
from controller.rest.framing import PIECE_BYTES, Framing, body_pieces, check_head
from controller.rest.limits import Limits, room_for
from controller.rest.messages import Request, Response
from controller.rest.problems import ProblemError, internal
from controller.rest.resources import RESOURCES, Resource, answer
from controller.rest.target import decode_segment, split_target

LOG = logging.getLogger(__name__)
ACCESS_LOG = logging.getLogger("controller.rest.access")

_CONNECTION = "controller.connection"
_NOT_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Connection(eventlet.wsgi.HttpProtocol):  # type: ignore[misc]
    """One client's connection: eventlet's protocol, with strict heads and bodies, problems, and silence."""

    def __init__(self, conn_state: list[Any], server: Any, *, limits: Limits) -> None:
        self.limits = limits
        self.framing = Framing()
        self.body_unread = False
        self._head_timer: Any = None
        # Eventlet's constructor serves the whole connection.
        super().__init__(conn_state, server)

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
        _log_access(self.client_address[0], "-", "-", response.status, len(response.body), 0.0)

    def get_environ(self) -> dict[str, Any]:
        environ: dict[str, Any] = super().get_environ()
        # The body is read by read_body() alone; what eventlet itself reads and drops is an empty one.
        environ["wsgi.input"] = environ["eventlet.input"] = eventlet.wsgi.Input(self.rfile, 0, self.connection)
        environ[_CONNECTION] = self
        return environ

    # -- the body ------------------------------------------------------------------------------------------------

    def read_body(self) -> bytes:
        """The body of the current request.

        Raises:
            ProblemError: too large, malformed, broken off, or too slow.
        """
        pieces = body_pieces(self.rfile, self.framing, at_most=self.limits.body_bytes)
        try:
            with eventlet.Timeout(self.limits.body_seconds, TimeoutError()):
                return b"".join(self._received(pieces))
        except TimeoutError:
            raise ProblemError(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time") from None
        except OSError:
            raise ProblemError(HTTPStatus.BAD_REQUEST, "the connection broke before the end of the body") from None

    def _received(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        if self.framing.awaits_continue and self._may_be_read():
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        for piece in pieces:
            yield piece
            eventlet.sleep(0)
        self.body_unread = False

    def _may_be_read(self) -> bool:
        return self.framing.chunked or 0 < (self.framing.length or 0) <= self.limits.body_bytes


class _Endpoint(ControllerBase):  # type: ignore[misc]
    """What Ryu's router calls: one instance a request."""

    def serve(self, request: webob.Request, resource: str = "", **variables: str) -> webob.Response:
        connection: _Connection = request.environ[_CONNECTION]
        path, query = split_target(connection.path)
        backend, resources = self.data
        response = answer(
            backend,
            resources.get(resource),
            Request(
                method=request.method,
                path=path,
                query=query,
                variables={name: decode_segment(value) for name, value in variables.items()},
                headers=_joined(request.environ["headers_raw"]),
                read_body=connection.read_body,
            ),
        )
        return _webob_response(response, connection)


class _Routes(WSGIApplication):  # type: ignore[misc]
    """Ryu's router over the table of resources. A subclass: for the class itself Ryu starts a server of its own."""

    def __init__(self, backend: Backend, resources: Iterable[Resource]) -> None:
        super().__init__()
        table = {resource.name: resource for resource in resources}
        self.registory[_Endpoint.__name__] = (backend, table)
        for resource in table.values():
            self.mapper.connect(
                resource.name, resource.path, controller=_Endpoint, action="serve", resource=resource.name
            )

    def _match(self, req: webob.Request) -> Mapping[str, Any]:
        """By path alone (methods are the resource's business), and undecoded, so that %2F is no slash."""
        path, _ = split_target(req.environ[_CONNECTION].path)
        match: Mapping[str, Any] | None = self.mapper.match(path, req.environ)
        return match or {"controller": _Endpoint, "action": "serve"}


class _Application:
    """The outermost layer: whatever fails inside becomes a problem for the client and one traceback in the log."""

    def __init__(self, backend: Backend, resources: Iterable[Resource]) -> None:
        self._routes = _Routes(backend, resources)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.monotonic()
        connection: _Connection = environ[_CONNECTION]
        said: list[str] = []

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            said[:] = [status.split(" ")[0], dict(headers).get("Content-Length", "0")]
            return start_response(status, headers, exc_info)

        path, _ = split_target(connection.path)
        method = environ["REQUEST_METHOD"]
        try:
            body: Iterable[bytes] = self._routes(environ, start)
        except Exception:
            error_id = secrets.token_hex(4)
            LOG.exception("error %s: %s %s", error_id, method, path)
            body = _webob_response(internal(error_id).response(path), connection)(environ, start)
        _log_access(environ["REMOTE_ADDR"], method, path, int(said[0]), int(said[1]), time.monotonic() - began)
        return body


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _webob_response(response: Response, connection: _Connection) -> webob.Response:
    if connection.body_unread:
        # The rest of a body that nobody wants is not worth waiting for.
        connection.close_connection = True
    pieces = _paced(response.body, connection.limits.body_seconds)
    return webob.Response(status=response.status_line, headerlist=response.header_list(), app_iter=pieces)


def _paced(body: bytes, seconds: float) -> Iterator[bytes]:
    """A body in pieces; a client that takes too long over them is cut off (eventlet ends the connection)."""
    deadline = time.monotonic() + seconds
    for start in range(0, len(body), PIECE_BYTES):
        if time.monotonic() > deadline:
            raise TimeoutError("the response was not taken in time")
        yield body[start : start + PIECE_BYTES]
        eventlet.sleep(0)


def _log_access(client: str, method: str, path: str, status: int, size: int, seconds: float) -> None:
    reading = method in ("GET", "HEAD", "OPTIONS") and status < HTTPStatus.BAD_REQUEST
    level = logging.DEBUG if reading else logging.INFO
    ACCESS_LOG.log(level, "%s %s %s %d %d bytes %.1f ms", client, method, path[:200], status, size, seconds * 1e3)


class _Listener:
    """A listening socket whose ``accept`` outlives what eventlet's server would end on."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self.getsockname = sock.getsockname
        self.family = sock.family
        self.closed = False

    def accept(self) -> tuple[Any, Any]:
        while True:
            try:
                client, address = self._sock.accept()
            except OSError as error:
                if self.closed:
                    raise OSError(errno.ENOTCONN, "closed") from error
                if error.errno in _NOT_NOW:
                    LOG.warning("HTTP cannot take another connection now: %s", error.strerror)
                    eventlet.sleep(0.5)
                continue
            return client, address

    def close(self) -> None:
        self.closed = True
        self._sock.close()


class HttpServer:
    """The HTTP interface on one address.

    Args:
        host: address or name to listen on.
        port: 0 lets the system choose.
    """

    def __init__(
        self,
        host: str,
        port: int,
        backend: Backend,
        *,
        limits: Limits | None = None,
        resources: Iterable[Resource] = RESOURCES,
    ) -> None:
        self._address = (host, port)
        self._application = _Application(backend, resources)
        self._limits = limits or Limits()
        self._listener: _Listener | None = None
        self._pool: Any = None
        self._thread: Any = None

    def start(self) -> None:
        """Listen, and serve in greenlets of its own.

        Raises:
            OSError: the address is taken or not ours.
        """
        self._listener = _Listener(_listen(*self._address))
        self._pool = eventlet.GreenPool(room_for(self._limits.connections))
        self._thread = eventlet.spawn(
            eventlet.wsgi.server,
            self._listener,
            self._application,
            # Eventlet's own log lines are an access line and tracebacks for clients that went away: ours say more.
            log_output=False,
            debug=False,
            protocol=functools.partial(_Connection, limits=self._limits),
            custom_pool=self._pool,
            keepalive=self._limits.idle_seconds,
            socket_timeout=self._limits.idle_seconds,
            minimum_chunk_size=0,
        )
        LOG.info("HTTP listens on %s port %d", self._address[0], self.port)

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._listener is not None, "not started"
        return int(self._listener.getsockname()[1])

    def stop(self, *, grace_seconds: float = 1.0) -> None:
        """Close the listening socket at once, give requests under way a moment, then end their connections."""
        if self._listener is None or self._listener.closed:
            return
        self._listener.close()
        # Closing does not wake who waits in accept(). Eventlet's server ends idle connections on its way out.
        self._thread.kill()
        with eventlet.Timeout(grace_seconds, False):
            self._pool.waitall()
        for connection in list(self._pool.coroutines_running):
            connection.kill()


def _listen(host: str, port: int) -> Any:
    """A listening socket that nobody shares: ``eventlet.listen`` sets SO_REUSEPORT, and a second controller on the
    same port would silently take half of the requests."""
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
