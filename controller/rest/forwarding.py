"""Pass a request on to the leader of the cluster, and its response back to the client.

A request that the leader may have received is not sent again. If its connection breaks, nobody knows whether a change
was made; the client is told so (``outcome-unknown``).
"""

from __future__ import annotations

import http.client
import io
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import falcon

from controller.core.caller import Role
from controller.model.errors import shorten
from controller.rest.operation import CLIENT_GONE, EVENT_STREAM, REQUEST_ID, Operation
from controller.rest.problems import NO_LEADER, ProblemError, outcome_unknown, unavailable
from controller.rest.security.peer_trust import PeerTrust
from controller.rest.serving.budget import Share
from controller.rest.serving.framing import PIECE_BYTES
from controller.rest.serving.relayed_stream import LeaderStream, RelayedStream

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

LOG = logging.getLogger(__name__)

CHANGE = "Fairspine-Change"
"""Header of an answer: the number of the last change that it contains, with all before."""

FORWARDED = "Fairspine-Forwarded"
"""Header of a request that a replica has passed on; none passes it on again."""

CONNECT_SECONDS = 2.0
"""Limit on connecting to the leader."""

ANSWER_SECONDS = 120.0
"""Limit on the time without progress of a request that the leader has. Planning a large job may take a minute."""

LOOK_SECONDS = 0.2
"""While a request waits for the leader: time between two looks whether that still leads."""

AGENT_LOOK_SECONDS = 2.0
"""The same for a request of an agent: thousands of them may wait for a plan."""

SILENCE_SECONDS = 10.0
"""Limit on the time between two pieces of an event stream, in which there is a heartbeat every 2 s."""

ANY_EVENT = "none"
"""An id that no event has: a stream after it begins with a reset."""

_SENT_ON = (
    "Accept",
    "Accept-Encoding",
    "Authorization",
    "Content-Type",
    "Fairspine-At-Least",
    "Fairspine-Reason",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
)
"""Headers that the leader needs. Host, Origin and the length of the body were checked here."""

_OF_CONNECTION = {"connection", "content-length", "date", "keep-alive", "server", "transfer-encoding"}

Leader = Callable[[], str | None]
"""The URL of the leader (empty: there is none now); ``None``: this replica leads."""


class Forwarder:
    """Passes requests on from this replica."""

    def __init__(self, leader: Leader, trust: PeerTrust | None) -> None:
        """Keep the function that tells the leader, and the certificates accepted from it (``None``: the system's)."""
        self._leader, self._trust = leader, trust
        self._untrusted = ""

    def forward(
        self, operation: Operation, request: falcon.Request, response: falcon.Response, body: bytes, share: Share
    ) -> None:
        """Send a request to the leader, and fill the response with that of the leader.

        The calling task waits meanwhile, and others go on: the sockets are those of the event loop.

        Raises:
            ProblemError: 503, there is no leader or it cannot be reached; 502, its answer to a change was lost.
        """
        url = self._leader()
        if not url or request.get_header(FORWARDED) is not None:
            raise no_leader("the cluster has no leader now")
        with ExitStack() as opened:
            connection = self._connected(url)
            opened.callback(connection.close)
            try:
                _send(connection, request, body)
                look = AGENT_LOOK_SECONDS if operation.of_host else LOOK_SECONDS
                answering = _Answering(connection, self._leader, url, ANSWER_SECONDS, look=look)
                answering.gone = request.env.get(CLIENT_GONE, bool)
                # Only its method makefile is used.
                answer = http.client.HTTPResponse(answering, method=request.method)  # type: ignore[arg-type]
                answer.begin()
                _copy_head(answer, response)
                if _is_stream(answer) and request.method != "HEAD":
                    answering.patience, answering.gone = SILENCE_SECONDS, bool
                    after = request.get_header("Last-Event-ID") or request.get_param("after") or ANY_EVENT
                    response.stream = RelayedStream(
                        LeaderStream(connection, answer), after, partial(self._stream_after, request)
                    )
                    opened.pop_all()
                    return
                content = b"".join(_pieces(answer, share))
            except (OSError, http.client.HTTPException, ProblemError) as error:
                raise _lost(operation, url, error) from None
        if request.method == "HEAD":
            length = answer.getheader("Content-Length")
            if length is not None:
                response.set_header("Content-Length", length)
        elif content:
            response.data = content

    def ask(self, url: str, method: str, target: str, authorization: str | None, body: bytes) -> tuple[int, bytes]:
        """Send a request of this replica to another one while that leads; return the status and body of its answer.

        Raises:
            ProblemError: 503, there is no answer.
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", FORWARDED: "1"}
        if authorization is not None:
            headers["Authorization"] = authorization
        if body:
            headers["Content-Type"] = "application/json"
        with ExitStack() as opened:
            connection = self._connected(url)
            opened.callback(connection.close)
            try:
                connection.request(method, target, body or None, headers)
                answering = _Answering(connection, self._leader, url, ANSWER_SECONDS)
                answer = http.client.HTTPResponse(answering, method=method)  # type: ignore[arg-type]
                answer.begin()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException) as error:
                raise no_leader(f"the leader at {url} did not answer: {error}") from None

    def _stream_after(self, request: falcon.Request, after: str) -> LeaderStream | None:
        """Open the stream of events of the present leader (``OpenStream``), as a request asks for it."""
        url = self._leader()
        if url is None:
            raise EOFError
        if not url:
            return None
        with ExitStack() as opened:
            try:
                connection = self._connected(url)
                opened.callback(connection.close)
                _send(connection, request, b"", after=after)
                answering = _Answering(connection, self._leader, url, SILENCE_SECONDS)
                answer = http.client.HTTPResponse(answering, method="GET")  # type: ignore[arg-type]
                answer.begin()
            except (OSError, http.client.HTTPException, ProblemError) as error:
                LOG.debug("events of %s: %s", url, error)
                return None
            if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                raise EOFError
            if not _is_stream(answer):
                return None
            opened.pop_all()
        return LeaderStream(connection, answer)

    def _connected(self, url: str) -> http.client.HTTPConnection:
        connection = self._prepared(url)
        try:
            connection.connect()
        # ValueError: a name that cannot be one of the DNS.
        except (OSError, ValueError) as error:
            LOG.debug("%s: %s", url, error)
            connection.close()
            raise no_leader(self._why(url, error)) from None
        connection.sock.settimeout(ANSWER_SECONDS)
        self._untrusted = ""
        return connection

    def _prepared(self, url: str) -> http.client.HTTPConnection:
        """Return a connection to a URL, which comes from the store and may be anything; nothing is sent yet.

        Raises:
            ProblemError: 503, no replica can have this URL, or tokens must not be sent there.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            if parts.scheme not in ("http", "https") or not host:
                raise ValueError
            if parts.scheme == "https":
                context = None if self._trust is None else self._trust.context()
                return http.client.HTTPSConnection(host, port, timeout=CONNECT_SECONDS, context=context)
            connection = http.client.HTTPConnection(host, port, timeout=CONNECT_SECONDS)
        except (ValueError, http.client.InvalidURL):
            raise no_leader(self._logged(f"the URL of the leader in the store is none: {shorten(url)}")) from None
        if self._trust is not None and self._trust.encrypted:
            # Whoever can write the store could have tokens sent in clear, to any machine.
            reason = f"the leader at {shorten(url)} does not use HTTPS, and this replica does: nothing is sent there"
            raise no_leader(self._logged(reason))
        return connection

    def _why(self, url: str, error: OSError | ValueError) -> str:
        """Return for clients why there is no connection; log it once if it will not pass by itself."""
        if not isinstance(error, ssl.SSLCertVerificationError):
            return f"the leader of the cluster cannot be reached at {url}"
        reason = f"the certificate of the leader at {url} is not accepted: {error.verify_message}"
        return self._logged(reason, f" (cluster_ca is {self._trust.ca if self._trust else 'not set'})")

    def _logged(self, reason: str, more: str = "") -> str:
        """Log a reason that will not pass by itself, unless it is that of the last time; return it."""
        if reason != self._untrusted:
            LOG.error("%s%s", reason, more)
            self._untrusted = reason
        return reason


def no_leader(reason: str) -> ProblemError:
    """Return the problem of a request for which there is no leader; it was not carried out."""
    return unavailable(reason, kind=NO_LEADER)


def _is_stream(answer: http.client.HTTPResponse) -> bool:
    return answer.status == HTTPStatus.OK and answer.getheader("Content-Type") == EVENT_STREAM


def _send(connection: http.client.HTTPConnection, request: falcon.Request, body: bytes, *, after: str = "") -> None:
    headers = {name: value for name in _SENT_ON if (value := request.get_header(name)) is not None}
    # Without this one, the standard library would ask for no compression.
    headers.setdefault("Accept-Encoding", "identity")
    # The leader's lines and events have the same id as the answer of this replica.
    headers[REQUEST_ID] = request.context.id
    if after:
        headers["Last-Event-ID"] = after
    query = f"?{request.query_string}" if request.query_string else ""
    target = request.env["PATH_INFO"] + query
    connection.request(request.method, target, body or None, {**headers, FORWARDED: "1"})


class _Answering(io.RawIOBase):
    """The bytes that the leader sends, for as long as it leads: a process that was stopped would never send any.

    Attributes:
        patience: seconds without a byte after which to give up.
        gone: tells whether the client has closed its connection; then that to the leader is closed, too.
    """

    def __init__(
        self,
        connection: http.client.HTTPConnection,
        leader: Leader,
        url: str,
        patience: float,
        *,
        look: float = LOOK_SECONDS,
    ) -> None:
        """Read from a connection, whoever waits for it; ``look``: seconds between two looks whether that leads."""
        self._sock: socket.socket = connection.sock
        self._leader, self._url, self.patience = leader, url, patience
        self._sock.settimeout(look)
        self.gone: Callable[[], bool] = bool

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a file of these bytes, which ``http.client.HTTPResponse`` asks for."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return that this is a file to read."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Wait for bytes.

        Raises:
            TimeoutError: none came in time, this leader does not lead any more, or the client has gone.
        """
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return self._sock.recv_into(buffer)
            except TimeoutError:
                now = self._leader()
                if now != self._url:
                    raise TimeoutError("no replica leads now" if now == "" else "another replica leads now") from None
                if self.gone():
                    raise TimeoutError("the client has closed its connection") from None
                if time.monotonic() > deadline:
                    raise


def _copy_head(answer: http.client.HTTPResponse, response: falcon.Response) -> None:
    response.status = answer.status
    for name, value in answer.getheaders():
        if name.lower() not in _OF_CONNECTION:
            response.append_header(name, value)


def _pieces(answer: http.client.HTTPResponse, share: Share) -> Iterator[bytes]:
    while piece := answer.read(PIECE_BYTES):
        share.take_bytes(len(piece))
        yield piece
    # The standard library takes the end of the connection for the end of the body.
    if answer.length:
        raise http.client.IncompleteRead(b"", answer.length)


def _lost(operation: Operation, url: str, error: Exception) -> ProblemError:
    """Return the problem of a request that the leader may have received, and whose answer was lost."""
    LOG.info("%s of the leader %s: %r", operation.id, url, error)
    if operation.role is Role.WRITE:
        if isinstance(error, ProblemError):
            return outcome_unknown(f"the answer of the leader at {url} could not be received: {error.detail}")
        return outcome_unknown(f"the connection to the leader at {url} broke before its answer")
    return error if isinstance(error, ProblemError) else no_leader(f"the leader at {url} did not answer")
