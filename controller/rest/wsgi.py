"""The resources behind Ryu's routing, served by eventlet on a socket of our own.

Ryu's own HTTP server answers a wrong method with 404, sends tracebacks to clients, reads chunked bodies as empty and
is blocked by clients that stall. So ``HttpServer`` is not the ``WSGIApplication`` that Ryu starts a server for;
eventlet's protocol is used with its own error pages, logging and body reading replaced.
"""

from __future__ import annotations

import functools
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import eventlet
import eventlet.wsgi
import webob
from ryu.app.wsgi import ControllerBase, WSGIApplication

from controller.rest.access import Access, Open
from controller.rest.answer import answer
from controller.rest.backend import Backend
from controller.rest.budget import Budget
from controller.rest.connection import CONNECTION, Connection, Shared, log_access
from controller.rest.limits import Limits, room_for
from controller.rest.listening import Listener, listen
from controller.rest.messages import Request
from controller.rest.operation import Resource
from controller.rest.pages import answer_page
from controller.rest.problems import ProblemError, internal
from controller.rest.resources import RESOURCES
from controller.rest.sending import outgoing
from controller.rest.target import decode_segment, split_target
from controller.rest.tls import Tls
from controller.web.assets import Asset, assets

LOG = logging.getLogger(__name__)

Answered = Callable[[str, str, int, float], None]
"""Called with each request that was answered: the operation's id (empty: none), method, status, and seconds until the
answer began."""

RESOURCE = "controller.resource"
"""Where a request's environment holds the name of the resource that it is for."""


def _nobody(operation: str, method: str, status: int, seconds: float) -> None:
    """Nobody wants to know."""


class _Endpoint(ControllerBase):  # type: ignore[misc]
    """What Ryu's router calls: one instance a request."""

    def serve(self, request: webob.Request, resource: str = "", **variables: str) -> webob.Response:
        connection: Connection = request.environ[CONNECTION]
        path, query = split_target(connection.path)
        backend, resources, pages, access = self.data
        asked = Request(
            method=request.method,
            path=path,
            query=query,
            variables={name: decode_segment(value) for name, value in variables.items()},
            headers=_joined(request.environ["headers_raw"]),
            read_body=connection.read_body,
            at_work=connection.shared.at_work,
        )
        page: Asset | None = pages.get(resource)
        request.environ[RESOURCE] = resource if page is None else "dashboard"
        try:
            response = (
                answer(backend, resources.get(resource), asked, access) if page is None else answer_page(page, asked)
            )
        finally:
            connection.drop_body()
        try:
            return outgoing(response, connection)
        except ProblemError as problem:
            return outgoing(problem.response(path), connection)


class _Routes(WSGIApplication):  # type: ignore[misc]
    """Ryu's router over resources and the dashboard's files. A subclass: for the class itself Ryu starts a server."""

    def __init__(self, backend: Backend, resources: Iterable[Resource], access: Access) -> None:
        super().__init__()
        table = {resource.name: resource for resource in resources}
        self.registory[_Endpoint.__name__] = (backend, table, assets(), access)
        for resource in table.values():
            # A colon begins a variable in the router's older notation.
            path = resource.path.replace(":", r"\:")
            self.mapper.connect(resource.name, path, controller=_Endpoint, action="serve", resource=resource.name)
        for path in assets():
            # Resources' names have no slash.
            self.mapper.connect(path, path, controller=_Endpoint, action="serve", resource=path)

    def _match(self, req: webob.Request) -> Mapping[str, Any]:
        """By path alone (methods are the resource's business), and undecoded, so that %2F is no slash."""
        path, _ = split_target(req.environ[CONNECTION].path)
        match: Mapping[str, Any] | None = self.mapper.match(path, req.environ)
        return match or {"controller": _Endpoint, "action": "serve"}


class _Application:
    """The outermost layer: whatever fails inside becomes a problem for the client and one traceback in the log."""

    def __init__(self, backend: Backend, resources: Sequence[Resource], access: Access, answered: Answered) -> None:
        self._routes = _Routes(backend, resources, access)
        self._answered = answered
        self._operations = {
            (resource.name, method): operation.id
            for resource in resources
            for method, operation in resource.operations.items()
        }

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.monotonic()
        connection: Connection = environ[CONNECTION]
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
            body = outgoing(internal(error_id).response(path), connection)(environ, start)
        status, seconds = int(said[0]), time.monotonic() - began
        operation = self._operations.get((environ.get(RESOURCE, ""), "GET" if method == "HEAD" else method), "")
        self._answered(operation, method, status, seconds)
        log_access(environ["REMOTE_ADDR"], method, path, status, int(said[1]), seconds)
        return body


def _joined(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


class HttpServer:
    """The HTTP interface on one address.

    Args:
        host: address or name to listen on.
        port: 0 lets the system choose.
        access: who may ask.
        tls: ``None``: plain HTTP.
        answered: hears of each request.
    """

    def __init__(
        self,
        host: str,
        port: int,
        backend: Backend,
        *,
        limits: Limits | None = None,
        access: Access | None = None,
        tls: Tls | None = None,
        answered: Answered = _nobody,
    ) -> None:
        self._address = (host, port)
        self._application = _Application(backend, RESOURCES, access or Open(), answered)
        self._limits = limits or Limits()
        self._shared = Shared(
            self._limits,
            tls,
            total=Budget(self._limits.total_bytes, "clients send and fetch as much already as there is memory for"),
            reads=Budget(self._limits.requests, "the controller answers too many requests already"),
            plans=Budget(self._limits.requests, "the controller works on too many changes and previews already"),
            streams=Budget(self._limits.streams, "too many clients read the events already"),
        )
        self._listener: Listener | None = None
        self._pool: Any = None
        self._thread: Any = None

    def start(self) -> None:
        """Listen, and serve in greenlets of its own.

        Raises:
            OSError: the address is taken or not ours.
        """
        self._listener = Listener(listen(*self._address), accepted=self._accepted)
        self._pool = eventlet.GreenPool(room_for(self._limits.connections))
        self._thread = eventlet.spawn(
            eventlet.wsgi.server,
            self._listener,
            self._application,
            # Eventlet's own log lines are an access line and tracebacks for clients that went away: ours say more.
            log_output=False,
            debug=False,
            protocol=functools.partial(Connection, shared=self._shared),
            custom_pool=self._pool,
            keepalive=self._limits.idle_seconds,
            socket_timeout=self._limits.idle_seconds,
            minimum_chunk_size=0,
        )
        kind = "HTTP" if self._shared.tls is None else "HTTPS"
        LOG.info("%s listens on %s port %d", kind, self._address[0], self.port)

    def _accepted(self) -> None:
        """Wait until there is a place for one more connection."""
        while self._pool.free() < 1:
            self._shared.make_room()
            eventlet.sleep(0.02)

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        assert self._listener is not None, "not started"
        return int(self._listener.getsockname()[1])

    @property
    def streams(self) -> int:
        """How many clients read the events."""
        return len(self._shared.streaming)

    def stop(self, *, grace_seconds: float = 1.0) -> None:
        """Close the listening socket at once, give requests under way a moment, then end their connections."""
        if self._listener is None or self._listener.closed:
            return
        self._listener.close()
        # Closing does not wake who waits in accept(). Eventlet's server ends idle connections on its way out.
        self._thread.kill()
        for stream in list(self._shared.streaming):
            eventlet.kill(stream)
        with eventlet.Timeout(grace_seconds, False):
            self._pool.waitall()
        for connection in list(self._pool.coroutines_running):
            connection.kill()
