"""A client of the controller's HTTP interface."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import typer

from controller.cli.shared.command_error import CHANGED_MEANWHILE, CommandError
from controller.model.errors import InputError, shorten

if TYPE_CHECKING:
    import httpx

# httpx is imported where it is used: it costs start-up time, which commands without a controller do not need.

TIMEOUT_SECONDS = 120.0
"""Limit on connecting, and on the time without progress, of a change. Planning a large job may take a minute."""

READ_SECONDS = 5.0
"""The same limit of a read, which the controller answers from what it knows."""

SLOW_READS = frozenset({"trace"})
"""Reads for which the controller asks its switches: they have the limit of a change."""

REPLICA_SECONDS = 3.0
"""Limit on connecting to one of several replicas, before the next one is tried."""

NO_LEADER = "urn:problem-type:fairspine:no-leader"
"""Type of the problem that a replica answers while no replica leads (controller.rest.problems)."""

CHANGE, AT_LEAST, NO_CHANGE = "Fairspine-Change", "Fairspine-At-Least", "0-0"
"""Headers of a cluster's replicas (docs/explanation/cluster.md), and the number below those of all changes."""

REASON, LONGEST_REASON = "Fairspine-Reason", 200
"""Header with the reason of a change, and its maximum length."""

SILENCE_SECONDS = 45.0
"""Limit on the time between two pieces of the event stream. The controller sends a heartbeat every 2 s."""


@dataclass(frozen=True)
class ControllerResponse:
    """A successful answer. ``document`` is ``None`` for an empty body; ``etag`` is in the form that If-Match takes."""

    status: int
    document: Any
    etag: str | None = None


@dataclass(frozen=True)
class ServerEvent:
    """A server-sent event. ``id`` is the point to resume from; ``document`` is ``{"id", "at", "kind", "data"}``."""

    id: str
    kind: str
    document: dict[str, Any]


class NoAnswer(CommandError):
    """The controller is unreachable or not ready, or the answer broke off; a later try may succeed."""


class NoLeader(NoAnswer):
    """No replica of the cluster leads, or can reach the one that does; a later try may succeed."""


class _NotLeaderError(CommandError):
    """A replica of a cluster has not carried the request out, because it knows no leader; another one may."""


class Client:
    """HTTP client of one controller, or of the replicas of one cluster, with one connection per request.

    A request goes to the replica that answered last, and to the next one if that is gone or knows no leader.

    Attributes:
        url: of the replica that was asked last.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        timeout: float | None = None,
        reason: str | None = None,
    ) -> None:
        """Check the URLs and the token, and load the certificates of ``ca_file``.

        ``url``: one URL, or those of several replicas with commas between them. ``timeout`` is the limit on connecting,
        and on the time without progress, in seconds; default: ``READ_SECONDS`` for reads, else ``TIMEOUT_SECONDS``.
        ``reason``: why changes are made.

        Raises:
            InputError: a URL is not an http or https URL of a server, the token or the reason is malformed, or the
                file holds no certificates.
        """
        self._prefixes = {each: _prefix(each) for each in split_urls(url)}
        self.url = next(iter(self._prefixes))
        if token is not None and not (token.isascii() and token.isprintable() and token.strip() == token and token):
            raise InputError("is not a token", field="--token")
        if reason is not None and not (reason.isascii() and reason.isprintable() and len(reason) <= LONGEST_REASON):
            text = f"must have printable ASCII characters, {LONGEST_REASON} at most"
            raise InputError(text, field="--reason", value=reason)
        self._token, self._timeout, self._reason = token, timeout, reason
        # The number of the last change that this client has seen, and whether it said that nobody leads.
        self._change, self._noted = NO_CHANGE, False
        # Loading the system's certificates takes time, which plain HTTP does not need.
        has_tls = any(urlsplit(each).scheme == "https" for each in self._prefixes)
        self._tls = _trust(ca_file) if has_tls else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def request(
        self,
        method: str,
        *path: str,
        query: Mapping[str, str | int] | None = None,
        body: bytes | None = None,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> ControllerResponse:
        """Send a request for ``/v1/`` and these path segments, and return the answer.

        Raises:
            CommandError: there is no connection, or the answer is a problem.
        """
        headers = {"Accept": "application/json"} | _content_type(method, body)
        headers |= {"If-Match": if_match} if if_match is not None else {}
        headers |= {"If-None-Match": if_none_match} if if_none_match is not None else {}
        headers |= {REASON: self._reason} if self._reason and method != "GET" else {}
        waits = TIMEOUT_SECONDS if method != "GET" or path[0] in SLOW_READS else READ_SECONDS
        return self._answer(method, _target(path, query), body, headers, self._timeout or waits)

    def health(self) -> ControllerResponse:
        """Return the answer of ``/healthz``, whose path has no version.

        Raises:
            CommandError: there is no connection, or the answer is a problem.
        """
        return self._answer("GET", "/healthz", None, {"Accept": "application/json"}, self._timeout or READ_SECONDS)

    def _answer(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> ControllerResponse:
        try:
            return self._read(method, target, body, headers, timeout)
        except NoLeader as failure:
            if method != "GET":
                raise
            with suppress(CommandError):
                return self._read_of_follower(target, headers, failure, timeout)
            raise failure from None

    def _read_of_follower(
        self, target: str, headers: Mapping[str, str], failure: NoLeader, timeout: float
    ) -> ControllerResponse:
        """Return what a replica that does not lead knows: at least what this client was told before.

        ``failure``: why the leader does not answer.
        """
        answer = self._read("GET", target, None, {**headers, AT_LEAST: self._change}, timeout)
        if not self._noted:
            self._noted = True
            note = f"note: {failure}; what follows is what {self.url} knows of the store (change {self._change})"
            typer.echo(note, err=True)
        return answer

    def _read(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> ControllerResponse:
        with self._response(method, target, body, headers, timeout) as response:
            content = response.read()
        self._change = response.headers.get(CHANGE, self._change)
        if not content:
            return ControllerResponse(response.status_code, None, response.headers.get("ETag"))
        try:
            return ControllerResponse(response.status_code, json.loads(content), response.headers.get("ETag"))
        except ValueError:
            raise CommandError(f"{self.url}: the answer is not JSON; is this a fairspine controller?") from None

    def events(
        self, after: str | None = None, *, opened: Callable[[], None] = lambda: None
    ) -> Generator[ServerEvent, None, None]:
        """Yield events as they happen, starting behind the id ``after``, until an error or until it is closed.

        ``opened`` is called as soon as the controller has begun to answer.

        Raises:
            NoAnswer: there is no connection, it broke or ended, or no heartbeat came.
            CommandError: the answer is a problem document or not an event stream.
        """
        from httpx_sse import EventSource, SSEError

        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after is not None else {})
        with self._response("GET", _target(("events",), None), None, headers, SILENCE_SECONDS) as response:
            if response.headers.get("Content-Type", "").startswith("text/event-stream"):
                opened()
            try:
                for event in EventSource(response).iter_sse():
                    # A block without data, such as one that sets the reconnection time, is not an event.
                    if event.data:
                        yield _server_event(event.data)
            except SSEError:
                raise CommandError(
                    f"{self.url}: the answer is not a stream of events; is this a fairspine controller?"
                ) from None
        raise NoAnswer(f"{self.url}: the controller ended the stream of events")

    @contextmanager
    def _response(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], timeout: float
    ) -> Iterator[httpx.Response]:
        """Send a request and give its successful response, whose body is not read yet.

        Raises:
            CommandError: there is no connection, it broke off, or the response is not successful.
        """
        import httpx

        headers = dict(headers) | ({} if self._token is None else {"Authorization": f"Bearer {self._token}"})
        connecting = timeout if len(self._prefixes) == 1 else min(timeout, REPLICA_SECONDS)
        # Proxies and certificates of the environment are ignored: only the URL and --ca-file select the server.
        http = httpx.Client(verify=self._tls, timeout=httpx.Timeout(timeout, connect=connecting), trust_env=False)
        try:
            with http, ExitStack() as opened:
                yield self._first_answer(http, opened, method, target, body, headers)
        except httpx.TimeoutException as error:
            raise self._too_late(error, method, target, http) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise self._broken(error) from None

    def _too_late(self, error: Exception, method: str, target: str, http: httpx.Client) -> CommandError:
        """Return the failure of a request without an answer in time; it names what was waited for."""
        import httpx

        if isinstance(error, httpx.ConnectTimeout):
            return NoAnswer(f"{self.url}: no connection within {http.timeout.connect:g} s (--timeout)")
        return NoAnswer(
            f"{self.url}: no answer to {method} {target} within {http.timeout.read:g} s (--timeout); "
            "the controller is stopped, or busy"
        )

    def _first_answer(
        self,
        http: httpx.Client,
        opened: ExitStack,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        """Return the successful response of the first replica that gives an answer; ``opened`` closes it.

        A change that a replica may have received goes to no other one: it might be carried out twice.

        Raises:
            CommandError: no replica can be reached, or the one that answers refuses the request.
        """
        import httpx

        urls = list(self._prefixes)
        first = urls.index(self.url)
        failures: list[CommandError] = []
        for self.url in urls[first:] + urls[:first]:
            # The target as it is: httpx would resolve "..", which is a wrong name here and not a path.
            exact = {"target": (self._prefixes[self.url] + target).encode()}
            with ExitStack() as attempt:
                try:
                    response = attempt.enter_context(
                        http.stream(method, self.url, content=body, headers=headers, extensions=exact)
                    )
                    if response.status_code < 300:
                        opened.push(attempt.pop_all())
                        return response
                    content = response.read()
                except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                    late = isinstance(error, httpx.TimeoutException)
                    failures.append(self._too_late(error, method, target, http) if late else self._broken(error))
                    if method not in ("GET", "HEAD") and not isinstance(
                        error, httpx.ConnectError | httpx.ConnectTimeout
                    ):
                        text = f"{failures[-1]}; the request may have been carried out, or not"
                        raise NoAnswer(text) from None
                    continue
            failure = _failure(self.url, response, content)
            if not isinstance(failure, _NotLeaderError):
                raise failure
            failures.append(failure)
        reasons = "; ".join(str(each) for each in failures)
        if any(isinstance(each, _NotLeaderError) for each in failures):
            raise NoLeader(reasons)
        raise failures[0] if len(failures) == 1 else NoAnswer(reasons)

    def _broken(self, error: Exception) -> CommandError:
        """Return a failure that names the first cause of the exception in one line."""
        import httpx

        broke_the_protocol = isinstance(error, httpx.RemoteProtocolError)
        # httpx wraps the exceptions of httpcore, which wrap those of the standard library.
        while isinstance(cause := error.__cause__ or error.__context__, Exception):
            error = cause
        if isinstance(error, ConnectionRefusedError):
            return NoAnswer(f"{self.url}: connection refused; is the controller running?")
        if isinstance(error, ssl.SSLCertVerificationError):
            return CommandError(f"{self.url}: its certificate is not trusted: {error.verify_message} (see --ca-file)")
        if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            return NoAnswer(f"{self.url}: there is no TLS at this address; use http:// in place of https://")
        if isinstance(error, socket.gaierror):
            return NoAnswer(f"{self.url}: {error.strerror}; is the name in the URL right?")
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "; is this the HTTP port of a controller?" if broke_the_protocol else ""
        return NoAnswer(f"{self.url}: {reason}{hint}")


def _server_event(data: str) -> ServerEvent:
    try:
        document = json.loads(data)
    except ValueError:
        raise not_understood(data) from None
    described(document, "id", "at", "kind", "data")
    return ServerEvent(str(document["id"]), str(document["kind"]), document)


def described(document: Any, *members: str) -> dict[str, Any]:
    """Return the document after checking that it is an object with these members.

    Raises:
        CommandError: it is not, so a fairspine controller did not send it.
    """
    if not isinstance(document, dict) or not all(name in document for name in members):
        raise not_understood(document)
    return document


def described_rows(rows: Any, *members: str) -> list[dict[str, Any]]:
    """Return the rows after checking that they are a list of objects with these members.

    Raises:
        CommandError: they are not, so a fairspine controller did not send them.
    """
    if not isinstance(rows, list):
        raise not_understood(rows)
    return [described(row, *members) for row in rows]


def not_understood(part: object) -> CommandError:
    """Return the failure to raise if (part of) an answer does not have the expected form."""
    return CommandError(f"unexpected answer; is this a fairspine controller? {shorten(part)}")


def split_urls(text: str) -> list[str]:
    """Return the URLs of a text that has commas between them, each once.

    Raises:
        InputError: the text has no URL.
    """
    urls = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not urls:
        raise InputError("must be like http://127.0.0.1:8080", field="--url", value=text)
    return urls


def _prefix(url: str) -> str:
    """Return the path of a controller's URL.

    Raises:
        InputError: it is not an http or https URL of a server.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(str(error), field="--url", value=url) from None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise InputError("must be like http://127.0.0.1:8080", field="--url", value=url)
    if parts.username is not None or parts.password is not None:
        # The value is not shown, since it holds a secret.
        raise InputError("contains a user name or a password; use a token (--token)", field="--url")
    return parts.path.rstrip("/")


def _content_type(method: str, body: bytes | None) -> dict[str, str]:
    # The controller takes no POST that a form on another site could have sent.
    return {"Content-Type": "application/json"} if body is not None or method == "POST" else {}


def _target(path: Iterable[str], query: Mapping[str, str | int] | None) -> str:
    # A colon separates a resource from the verb that is applied to it.
    target = "/".join(["", "v1", *(quote(segment, safe=":") for segment in path)])
    return f"{target}?{urlencode(query)}" if query else target


def _trust(ca_file: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise InputError("contains no PEM certificates", field="--ca-file", value=str(ca_file)) from None
        except OSError as error:
            raise InputError(error.strerror or str(error), field="--ca-file", value=str(ca_file)) from None
    return context


def _failure(url: str, response: httpx.Response, content: bytes) -> CommandError:
    """Return a failure that describes a problem document (RFC 9457), or any other answer, in one line."""
    status, kind = response.status_code, ""
    try:
        problem = json.loads(content)
        kind = str(problem.get("type"))
        detail = problem.get("detail") or problem["title"]
        named = [str(problem["field"])] if problem.get("field") else []
        if problem.get("value") is not None:
            named.append(json.dumps(problem["value"], ensure_ascii=False))
    except (ValueError, KeyError, AttributeError, TypeError):
        detail, named = f"{status} {response.reason_phrase}", []
    if status == 401:
        detail = f"{detail} (--token, FAIRSPINE_TOKEN, or token in the config file)"
    text = " ".join(": ".join([*named, str(detail)]).split())
    if status == 503 and kind == NO_LEADER:
        return _NotLeaderError(f"{url}: {text}")
    if status in (502, 503, 504):
        return NoAnswer(f"{url}: {text}")
    code = CHANGED_MEANWHILE if status == 412 else 2 if status in (400, 413, 415, 422) else 1
    return CommandError(f"{url}: {text}", exit_code=code)
