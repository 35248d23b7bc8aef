"""Serve the HTTP interface by eventlet's WSGI server, on its own socket.

Ryu's own HTTP server answers a wrong method with 404, sends tracebacks to clients, reads chunked bodies as empty, and
is blocked by clients that stall (docs/explanation/ryu.md).
"""

from __future__ import annotations

import functools
import logging
import socket
from typing import Any

import eventlet
import eventlet.tpool
import eventlet.wsgi

from controller.core.ports.api import Backend
from controller.rest.api import Answered, Api, no_observer
from controller.rest.resources import RESOURCES
from controller.rest.security.http_security import HttpSecurity
from controller.rest.security.origin import Names, names_of
from controller.rest.serving.connection import Connection, Shared
from controller.rest.serving.event_loop import EventLoop
from controller.rest.serving.limits import ClientLimits, room_for
from controller.rest.serving.listening import Listener, listen

LOG = logging.getLogger(__name__)


class HttpServer:
    """The HTTP interface on one address.

    Args:
        address: host name or IP address to listen on, and port; 0 lets the system choose the port.
        security: ``None``: plain HTTP, and every caller has all rights.
        names: the server's names; ``None``: those of the address.
        answered: called for each answered request.
    """

    def __init__(
        self,
        address: tuple[str, int],
        backend: Backend,
        *,
        limits: ClientLimits | None = None,
        security: HttpSecurity | None = None,
        names: Names | None = None,
        answered: Answered = no_observer,
    ) -> None:
        """Prepare the server; ``start`` opens the socket."""
        self._address = address
        security = security or HttpSecurity()
        names = names or names_of(address[0], socket.gethostname(), "", tls=security.tls is not None)
        self._limits = limits or ClientLimits()
        self._api = Api(
            backend,
            RESOURCES,
            names,
            security=security,
            limits=self._limits,
            answered=answered,
            loop=EventLoop(eventlet.sleep, eventlet.tpool.execute),
        )
        self._shared = Shared(self._limits, security.tls)
        self._listener: Listener | None = None
        self._pool: Any = None
        self._thread: Any = None

    def start(self) -> None:
        """Listen, and serve in separate greenlets.

        Raises:
            OSError: the address is in use or not local.
        """
        self._listener = Listener(listen(*self._address), accepted=self._accepted)
        self._pool = eventlet.GreenPool(room_for(self._limits.connections, self._limits.other_files))
        self._thread = eventlet.spawn(
            eventlet.wsgi.server,
            self._listener,
            self._api.app,
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
        """Wait until one more connection can be served."""
        while self._pool.free() < 1:
            self._shared.make_room()
            eventlet.sleep(0.02)

    @property
    def port(self) -> int:
        """The port that it listens on, once started."""
        assert self._listener is not None, "not started"
        return int(self._listener.getsockname()[1])

    @property
    def streams(self) -> int:
        """The number of open event streams."""
        return self._api.quotas.streams.used

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
