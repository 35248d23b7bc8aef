"""The HTTP client of everything that drives a controller: experiments, campaigns, benchmarks and tests.

Commands have a client of their own (controller/cli/connection/client.py), which knows replicas, tokens and problems and
raises the errors of commands. This one returns every response as it is, with any status and with the bytes that came.
What sends malformed requests, or stops in the middle of one, uses a plain socket.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from functools import cached_property
from types import TracebackType
from typing import Any

import httpx

REQUEST_SECONDS = 60.0

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of plain HTTP. Without it, each would load the system's certificates, which takes 30 ms."""


class NoResponseError(OSError):
    """There is no connection, no response in time, or it broke off.

    Attributes:
        sent: whether the server may have received the request.
    """

    def __init__(self, text: str, *, sent: bool) -> None:
        """Keep what happened."""
        super().__init__(text)
        self.sent = sent


@dataclass(frozen=True)
class HttpResponse:
    """A whole response.

    Attributes:
        status: its code.
        headers: by name in any case; ``None`` where there is none.
        content: the bytes of its body as they came, compressed if they were.
        on_new_connection: whether a connection was made for it.
    """

    status: int
    headers: Message
    content: bytes
    on_new_connection: bool

    @cached_property
    def body(self) -> Any:
        """The body: parsed where it is JSON, otherwise text; ``None`` where it is empty."""
        if not self.content:
            return None
        if "json" in (self.headers["Content-Type"] or ""):
            return json.loads(self.content)
        return self.content.decode(errors="replace")


class HttpClient:
    """A client of one server, which several threads may use."""

    def __init__(
        self,
        address: tuple[str, int],
        *,
        timeout: float = REQUEST_SECONDS,
        keep: bool = False,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the client; nothing is sent.

        Args:
            address: host and port of the server.
            timeout: seconds without progress after which to give up.
            keep: use a connection again for the next request; else each request has one of its own.
            tls: for HTTPS.
            headers: of every request, such as one with a token.
        """
        self._http = httpx.Client(
            base_url=f"{'http' if tls is None else 'https'}://{address[0]}:{address[1]}",
            timeout=timeout,
            trust_env=False,
            verify=tls or PLAIN,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None if keep else 0),
            headers={"Accept-Encoding": "identity"} | dict(headers or {}),
        )

    def __enter__(self) -> HttpClient:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close its connections."""
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def ask(
        self,
        method: str,
        target: str,
        document: object = None,
        *,
        content: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> HttpResponse:
        """Send a request and return the response.

        Args:
            method: HTTP method.
            target: path and query, which are sent unchanged.
            document: body to send as JSON; bytes are JSON already.
            content: body of no stated type, in place of ``document``; an iterator's pieces are sent in chunks.
            headers: further ones.
            timeout: another one than the client's.

        Raises:
            NoResponseError: there is no whole response.
        """
        is_json = document is not None or (method == "POST" and content is None)
        if document is not None:
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
        # The controller takes no POST that a form on another site could have sent.
        json_type = {"Content-Type": "application/json"} if is_json else {}
        steps: list[str] = []
        try:
            with self._http.stream(
                method,
                "",
                content=content,
                headers=json_type | dict(headers or {}),
                timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
                # The target as it is: httpx would resolve "..", which may be what is to be tried.
                extensions={"target": target.encode(), "trace": lambda step, _: steps.append(step)},
            ) as response:
                content = b"".join(response.iter_raw())
        except httpx.TransportError as error:
            raise _no_response(error) from error
        return HttpResponse(
            response.status_code, _message(response.headers), content, "connection.connect_tcp.complete" in steps
        )

    def events(self, target: str = "/v1/events") -> EventConnection:
        """Return the stream of server-sent events from now on.

        Raises:
            NoResponseError: there is no response.
        """
        return EventConnection(self._http, target)


class EventConnection:
    """The server-sent events that a controller sends, each as its document; an iterator."""

    def __init__(self, http: httpx.Client, target: str) -> None:
        """Send the request, and return once the server has begun to answer.

        Raises:
            NoResponseError: there is no response, or its status is not 200.
        """
        request = http.build_request("GET", target, headers={"Accept": "text/event-stream"})
        try:
            self._response = http.send(request, stream=True)
        except httpx.TransportError as error:
            raise _no_response(error) from error
        if self._response.status_code != 200:
            self._response.close()
            raise NoResponseError(f"GET {target}: {self._response.status_code}", sent=True)
        self._lines = self._response.iter_lines()
        self._closed = False

    def __iter__(self) -> EventConnection:
        """Return the stream."""
        return self

    def __next__(self) -> dict[str, Any]:
        """Wait for the next event and return its document.

        Raises:
            StopIteration: the stream has ended, or was closed.
            NoResponseError: it broke off.
        """
        try:
            for line in self._lines:
                if line.startswith("data:"):
                    document: dict[str, Any] = json.loads(line[5:])
                    return document
        except httpx.TransportError as error:
            if not self._closed:
                raise _no_response(error) from error
        self._response.close()
        raise StopIteration

    def close(self) -> None:
        """End the stream; another thread that waits for its next event gets none."""
        self._closed = True
        connection = self._response.extensions["network_stream"].get_extra_info("socket")
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def ask(
    address: tuple[str, int], method: str, target: str, document: object = None, *, timeout: float = REQUEST_SECONDS
) -> HttpResponse:
    """Send one request, as ``HttpClient.ask`` does, on a connection of its own."""
    with HttpClient(address, timeout=timeout) as client:
        return client.ask(method, target, document)


def _no_response(error: httpx.TransportError) -> NoResponseError:
    not_connected = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
    return NoResponseError(str(error) or type(error).__name__, sent=not not_connected)


def _message(headers: httpx.Headers) -> Message:
    message = Message()
    for name, value in headers.multi_items():
        message[name] = value
    return message
