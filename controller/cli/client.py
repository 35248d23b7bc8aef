"""A client of the controller's HTTP interface."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from controller.cli.failure import Failure
from controller.model.errors import InputError, shorten

TIMEOUT_SECONDS = 120.0
"""For one answer: planning a large job may take a while."""

SILENCE_SECONDS = 45.0
"""Between two lines of events. The controller gives a sign of life every 15 s."""


@dataclass(frozen=True)
class Answer:
    """A successful answer. ``document`` is ``None`` where there is none; ``etag`` as it is sent back in If-Match."""

    status: int
    document: Any
    etag: str | None = None


@dataclass(frozen=True)
class ServerEvent:
    """A server-sent event. ``id``: resume behind it; ``document``: ``{"id", "at", "kind", "data"}``."""

    id: str
    kind: str
    document: dict[str, Any]


class NoAnswer(Failure):
    """The controller cannot be reached or is not ready, or the answer broke off: it may be otherwise in a while."""


class Client:
    """Talks to one controller, a connection a request."""

    def __init__(self, url: str, *, token: str | None = None, ca_file: Path | None = None) -> None:
        """
        Raises:
            InputError: that is no http or https URL of a server, no token, or no file of certificates.
        """
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise InputError(str(error), field="--url", value=url) from None
        if parts.scheme not in ("http", "https") or not self._host or parts.query or parts.fragment:
            raise InputError("must be like http://127.0.0.1:8080", field="--url", value=url)
        if parts.username is not None or parts.password is not None:
            # Not shown: it holds a secret.
            raise InputError("holds a name or a password; fairspine has tokens (--token)", field="--url")
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
            raise InputError("is no token", field="--token")
        self.url, self._prefix, self._token = url, parts.path.rstrip("/"), token
        self._tls = _trust(ca_file) if parts.scheme == "https" else None

    def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> Answer:
        """The answer to a request for ``/v1/`` and these segments.

        Raises:
            Failure: there is no connection, or the answer is a problem.
        """
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        headers |= {"If-Match": if_match} if if_match is not None else {}
        headers |= {"If-None-Match": if_none_match} if if_none_match is not None else {}
        return self._answer(method, _target(path, query), body, headers)

    def health(self) -> Answer:
        """The answer of ``/healthz``, which has no version.

        Raises:
            Failure: there is no connection, or the answer is a problem.
        """
        return self._answer("GET", "/healthz", None, {"Accept": "application/json"})

    def _answer(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        connection = self._connect(TIMEOUT_SECONDS)
        with closing(connection):
            response = self._ask(connection, method, target, body, headers)
            content = self._read(response)
        if not content:
            return Answer(response.status, None, response.getheader("ETag"))
        try:
            return Answer(response.status, json.loads(content), response.getheader("ETag"))
        except ValueError:
            raise Failure(f"{self.url}: the answer is not JSON; is this a fairspine controller?") from None

    def events(self, after: str | None = None, *, opened: Callable[[], None] = lambda: None) -> Iterator[ServerEvent]:
        """Events as they happen, those behind the id ``after`` first; ends only by an error or when it is closed.

        ``opened`` is called as soon as the controller has begun to answer.

        Raises:
            NoAnswer: there is no connection, it broke, ended or fell silent.
            Failure: the answer is a problem.
        """
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        connection = self._connect(SILENCE_SECONDS)
        with closing(connection):
            response = self._ask(connection, "GET", _target(("events",), None), None, headers)
            if response.getheader("Content-Type", "").partition(";")[0].strip() != "text/event-stream":
                raise Failure(f"{self.url}: the answer is no stream of events; is this a fairspine controller?")
            opened()
            yield from parse_events(self._lines(response))
        raise NoAnswer(f"{self.url}: the controller ended the stream of events")

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls)

    def _ask(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        """The head of a successful response."""
        authorization = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        try:
            connection.request(method, self._prefix + target, body, {**headers, **authorization})
            response = connection.getresponse()
        except ConnectionRefusedError:
            raise NoAnswer(f"{self.url}: connection refused; is the controller running?") from None
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            raise self._broken(error) from None
        if response.status >= 300:
            raise _failure(self.url, response.status, response.reason, self._read(response))
        return response

    def _read(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from None

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        try:
            while line := response.readline():
                yield line
        except (OSError, http.client.HTTPException) as error:
            raise self._broken(error) from None

    def _broken(self, error: Exception) -> Failure:
        if isinstance(error, ssl.SSLCertVerificationError):
            return Failure(f"{self.url}: its certificate is not trusted: {error.verify_message} (see --ca-file)")
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return NoAnswer(f"{self.url}: {reason}")


def parse_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Events of a text/event-stream (WHATWG HTML, section 9.2.6) as our controller writes it, comments left out.

    Raises:
        Failure: an event's data is not ours.
    """
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        if name:
            fields[name] = value.removeprefix(b" ")
        elif not line.strip() and b"data" in fields:
            try:
                document = json.loads(fields[b"data"])
            except ValueError:
                raise not_understood(fields[b"data"]) from None
            described(document, "id", "at", "kind", "data")
            yield ServerEvent(str(document["id"]), str(document["kind"]), document)
            fields = {}


def described(document: Any, *members: str) -> dict[str, Any]:
    """The document, an object that has these members.

    Raises:
        Failure: it is something else, so a controller of ours did not send it.
    """
    if not isinstance(document, dict) or not all(name in document for name in members):
        raise not_understood(document)
    return document


def described_rows(rows: Any, *members: str) -> list[dict[str, Any]]:
    """The documents of a list, objects that have these members.

    Raises:
        Failure: it is something else, so a controller of ours did not send it.
    """
    if not isinstance(rows, list):
        raise not_understood(rows)
    return [described(row, *members) for row in rows]


def not_understood(part: object) -> Failure:
    """What to raise where (part of) an answer has another shape than ours."""
    return Failure(f"the answer is not understood; is this a fairspine controller? {shorten(part)}")


def _target(path: Iterable[str], query: Mapping[str, str | int] | None) -> str:
    # A colon separates a verb from what it is done to.
    target = "/".join(["", "v1", *(quote(segment, safe=":") for segment in path)])
    return f"{target}?{urlencode(query)}" if query else target


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise InputError("holds no certificates in PEM", field="--ca-file", value=str(ca_file)) from None
        except OSError as error:
            raise InputError(error.strerror or str(error), field="--ca-file", value=str(ca_file)) from None
    return context


def _failure(url: str, status: int, reason: str, content: bytes) -> Failure:
    """A problem document (RFC 9457), or whatever else came, as one line."""
    try:
        problem = json.loads(content)
        detail = problem.get("detail") or problem["title"]
        named = [str(problem["field"])] if problem.get("field") else []
        if problem.get("value") is not None:
            named.append(json.dumps(problem["value"], ensure_ascii=False))
    except (ValueError, KeyError, AttributeError, TypeError):
        detail, named = f"{status} {reason}", []
    if status == 401:
        detail = f"{detail} (--token, FAIRSPINE_TOKEN, or token in the config file)"
    text = " ".join(": ".join([*named, str(detail)]).split())
    if status in (502, 503, 504):
        return NoAnswer(f"{url}: {text}")
    return Failure(f"{url}: {text}", exit_code=2 if status in (400, 413, 415, 422) else 1)
