"""Requests to the Falcon application without a server."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import falcon

from controller.core.caller import Caller
from controller.core.ports.api import Backend
from controller.rest import schemas
from controller.rest.api import Api
from controller.rest.operation import CLIENT_HOSTS, JSON, Operation, Resource
from controller.rest.resources import RESOURCES
from controller.rest.security.access import Access, Open
from controller.rest.security.http_security import HttpSecurity
from controller.rest.security.origin import Names
from controller.rest.security.peer_trust import PeerTrust
from controller.rest.serving.sending import Streamed

BY_NAME: Mapping[str, Resource] = {resource.name: resource for resource in RESOURCES}
VARIABLES = {"name": "a", "id": "spine1", "epoch": "1", "host": "h1"}


@dataclass
class Body:
    """A request's body. ``asked``: the limits under which it was read."""

    content: bytes | Callable[[], bytes]
    asked: list[int | None] = field(default_factory=list)

    def read_body(self, at_most: int | None, _arrived: Callable[[int], None]) -> bytes:
        self.asked.append(at_most)
        return self.content if isinstance(self.content, bytes) else self.content()


@dataclass(frozen=True)
class Reply:
    """A response. ``headers`` by name in any case; events are in ``stream``."""

    status: int
    headers: falcon.CaseInsensitiveDict
    body: bytes
    sent: Body
    stream: Streamed | None

    @property
    def media_type(self) -> str:
        return str(self.headers.get("Content-Type", ""))


class _Present:
    """The backend and the access of the present request: one application, which takes long to make, serves all."""

    backend: Any
    access: Access = Open()

    @property
    def required(self) -> bool:
        return self.access.required

    def caller(self, authorization: str | None) -> Caller:
        return self.access.caller(authorization)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.backend, name)


_PRESENT = _Present()


@functools.cache
def _app(peers: PeerTrust | None = None) -> falcon.App[falcon.Request, falcon.Response]:
    return Api(_PRESENT, RESOURCES, Names(), security=HttpSecurity(_PRESENT, peers=peers)).app


def send(
    backend: Backend,
    method: str,
    path: str,
    *,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes | Callable[[], bytes] = b"",
    access: Access | None = None,
    peers: PeerTrust | None = None,
    certified: tuple[str, ...] = (),
) -> Reply:
    """One request; the path in the normal form in which the server hands it on.

    ``peers``: what the replica trusts that does not lead. ``certified``: the names in the client's certificate.
    """
    sent, started = Body(body), []
    environ: dict[str, Any] = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "c",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.errors": sys.stderr,
        "wsgi.input": sent,
        "RAW_URI": path,
        CLIENT_HOSTS: certified,
    }
    for name, value in (headers or {}).items():
        key = name.upper().replace("-", "_")
        environ[key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"] = value
    _PRESENT.backend, _PRESENT.access = backend, access or Open()
    pieces = _app(peers)(environ, lambda status, listed, exc_info=None: started.extend([status, listed]))  # type: ignore[arg-type]
    found = falcon.CaseInsensitiveDict(started[1])
    stream = pieces if isinstance(pieces, Streamed) else None
    return Reply(int(started[0].split()[0]), found, b"" if stream else b"".join(pieces), sent, stream)


def ask(
    resource: str,
    method: str = "GET",
    *,
    backend: Backend | None = None,
    query: str = "",
    headers: Mapping[str, str] | None = None,
    body: bytes | Callable[[], bytes] = b"{}",
    access: Access | None = None,
    certified: tuple[str, ...] = (),
    **variables: str,
) -> Reply:
    """One request for a resource by its name, with the variables of its path."""
    from tests.unit.rest.fake import FakeBackend

    path = BY_NAME[resource].path.format(**{k: quote(v, safe="") for k, v in (VARIABLES | variables).items()})
    if headers is None:
        headers = {"Content-Type": JSON} if method == "POST" else {}
    if "Content-Length" not in headers and isinstance(body, bytes) and body:
        headers = {**headers, "Content-Length": str(len(body))}
    return send(
        backend or FakeBackend(),
        method,
        path,
        query=query,
        headers=headers,
        body=body,
        access=access,
        certified=certified,
    )


def problem(reply: Reply) -> schemas.Problem:
    """Return the problem document of a reply."""
    assert reply.media_type == "application/problem+json"
    found = schemas.Problem.model_validate_json(reply.body)
    assert found.status == reply.status
    return found


def example_query(operation: Operation) -> str:
    """Return a query with the examples of an operation's parameters."""
    return "&".join(f"{wanted.name}={wanted.example}" for wanted in operation.parameters if wanted.place == "query")
