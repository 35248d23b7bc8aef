"""Requests to the controller, or to the replicas of a cluster."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from agent.errors import HostAgentError

CONNECT_SECONDS = 3.0
WAIT_SECONDS = 30
"""For a new plan, in one request."""
ANSWER_SECONDS = 10.0
"""For an answer, beyond that wait."""
MOST_BYTES = 256 << 20
TABLE = "table"


@dataclass(frozen=True)
class ControllerAccess:
    """The addresses of the controller, and the credentials of the host.

    Attributes:
        urls: of the replicas.
        token: the secret of a token.
        tls: for https.
    """

    urls: tuple[str, ...]
    token: str | None
    tls: ssl.SSLContext


def access(url: str, token: str | None, ca_file: Path | None, cert: Path | None, key: Path | None) -> ControllerAccess:
    """Return the access that options describe.

    Raises:
        HostAgentError: an option cannot be used.
    """
    urls = tuple(part.strip().rstrip("/") for part in url.split(",") if part.strip())
    for each in urls or (url,):
        parts = urlsplit(each)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HostAgentError(f"--url: must be like https://controller:8080, and not {each!r}", exit_code=2)
    if key is not None and cert is None:
        raise HostAgentError("--key: needs --cert", exit_code=2)
    tls = ssl.create_default_context()
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    if ca_file is not None:
        try:
            tls.load_verify_locations(ca_file)
        except ssl.SSLError:
            raise HostAgentError(f"--ca-file {ca_file}: contains no PEM certificates", exit_code=2) from None
        except OSError as error:
            raise HostAgentError(f"--ca-file {ca_file}: {error.strerror}", exit_code=2) from None
    if cert is not None:
        try:
            tls.load_cert_chain(cert, key)
        except ssl.SSLError as error:
            raise HostAgentError(f"--cert {cert}: no certificate with its key: {error.reason}", exit_code=2) from None
        except OSError as error:
            raise HostAgentError(f"--cert {cert}: {error.strerror}", exit_code=2) from None
    return ControllerAccess(urls, token, tls)


class ControllerConnection:
    """A connection that is opened when it is needed. One thread uses it."""

    def __init__(self, host: str, access: ControllerAccess) -> None:
        """Store the name of the host and the access; the first request connects."""
        self._host, self._access, self._at = host, access, 0
        self._connection: http.client.HTTPConnection | None = None

    def plan(
        self,
        after: tuple[int, str] | None,
        wait_seconds: int = WAIT_SECONDS,
        destinations: str = "",
        report: Any = None,
        *,
        changes: bool = False,
    ) -> Any | None:
        """Return the document of a plan with another epoch or digest; ``None``: there was none in this time.

        It has paths to leaves in place of destinations, of which ``table`` has the hosts.

        Args:
            after: epoch and digest of the plan that is known.
            wait_seconds: the longest wait.
            destinations: hash of those that are known: the document has them only if they are others.
            report: one to send in the same request; ``None``: there is none.
            changes: whether the document may have the changes of the plan that is known.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """
        query = f"form={'changes' if changes else 'table'}&wait={wait_seconds}" + _after(after)
        if destinations:
            query += f"&destinations={quote(destinations, safe='')}"
        seconds = wait_seconds + ANSWER_SECONDS
        if report is None:
            status, body = self._request("GET", f"segments?{query}", None, seconds)
        else:
            status, body = self._request("POST", f"report?{query}", json.dumps(report).encode(), seconds)
        return None if status in (204, 304) else self._decoded(body)

    def port_plan(self, after: tuple[int, str] | None, wait_seconds: int = WAIT_SECONDS) -> Any | None:
        """Return for which paths ports are wanted, in another plan than this one; ``None``: none came in this time.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """
        query = f"wait={wait_seconds}" + _after(after)
        status, body = self._request("GET", f"ports?{query}", None, wait_seconds + ANSWER_SECONDS)
        return None if status in (204, 304) else self._decoded(body)

    def samples(self, after: int, wait_seconds: int = WAIT_SECONDS) -> Any | None:
        """Return the document of packets of this host that routers have sampled; ``None``: none came in this time.

        Args:
            after: number of the document that is known; 0: none.
            wait_seconds: the longest wait.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """
        query = f"after={after}&wait={wait_seconds}"
        status, body = self._request("GET", f"samples?{query}", None, wait_seconds + ANSWER_SECONDS)
        return None if status == 304 else self._decoded(body)

    def server_table(self, after: str, wait_seconds: int) -> Any | None:
        """Return the document of another table than this one; ``None``: there was none in this time.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """
        query = f"wait={wait_seconds}" + (f"&after={quote(after, safe='')}" if after else "")
        status, body = self._request("GET", f"circuits?{query}", None, wait_seconds + ANSWER_SECONDS)
        return None if status == 304 else self._decoded(body)

    def table(self) -> Any:
        """Return the document of the hosts that this one can reach.

        Raises:
            HostAgentError: there is no answer, or none that can be used.
        """
        return self._decoded(self._request("GET", TABLE, None, ANSWER_SECONDS)[1])

    def _decoded(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except ValueError:
            raise HostAgentError(f"{self._url}: the answer is not JSON; is this a fairspine controller?") from None

    def report(self, document: Any) -> None:
        """Send a report.

        Raises:
            HostAgentError: it was not taken.
        """
        self._request("POST", "report", json.dumps(document).encode(), ANSWER_SECONDS)

    def close(self) -> None:
        """End a request that is under way, from another thread, too."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    @property
    def _url(self) -> str:
        return self._access.urls[self._at]

    def _request(self, method: str, target: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        failures = []
        for _ in self._access.urls:
            try:
                return self._ask(method, target, body, seconds)
            except (OSError, http.client.HTTPException) as error:
                failures.append(f"{self._url}: {_reason(error)}")
            except _TryNextError as error:
                failures.append(str(error))
            self._drop()
            self._at = (self._at + 1) % len(self._access.urls)
        raise HostAgentError("; ".join(failures))

    def _ask(self, method: str, target: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        parts = urlsplit(self._url)
        kept = self._connection is not None
        connection = self._connection or self._opened()
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        if target == TABLE:
            # It is large, and the controller has compressed it once for all agents.
            headers["Accept-Encoding"] = "gzip"
        if self._access.token is not None:
            headers["Authorization"] = f"Bearer {self._access.token}"
        path = f"{parts.path}/v1/hosts/{quote(self._host, safe='')}/{target}"
        try:
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = _unzipped(response.read(MOST_BYTES), response.headers.get("Content-Encoding"))
        except (ConnectionError, http.client.BadStatusLine):
            self._drop()
            if kept:
                # The controller has closed a connection that it did not need.
                return self._ask(method, target, body, seconds)
            raise
        if response.will_close:
            self._drop()
        if response.status < 300 or response.status == 304:
            return response.status, content
        raise self._refusal(response.status, content)

    def _opened(self) -> http.client.HTTPConnection:
        parts = urlsplit(self._url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, parts.port, timeout=CONNECT_SECONDS, context=self._access.tls
            )
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=CONNECT_SECONDS)
        connection.connect()
        self._connection = connection
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _refusal(self, status: int, content: bytes) -> Exception:
        problem = _problem(content)
        if status == 401:
            return HostAgentError(
                f"{self._url}: the controller does not know this token or certificate (401): {problem}"
            )
        if status == 403:
            return HostAgentError(
                f"{self._url}: this token or certificate is not that of host {self._host} (403): {problem}"
            )
        if status == 404:
            return HostAgentError(f"{self._url}: the controller has no host {self._host!r} (404): {problem}")
        text = f"{self._url}: answer {status}: {problem}"
        return _TryNextError(text) if status >= 500 else HostAgentError(text)


def _after(plan: tuple[int, str] | None) -> str:
    """Return the part of a query by which another plan is asked for."""
    if plan is None:
        return ""
    epoch, digest = plan
    return f"&after={epoch}" + (f"&digest={quote(digest, safe='')}" if digest else "")


def _unzipped(body: bytes, encoding: str | None) -> bytes:
    """Return the content of a body, of at most ``MOST_BYTES``.

    Raises:
        HTTPException: it cannot be decoded.
    """
    if encoding != "gzip":
        return body
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(body, MOST_BYTES)
    except zlib.error:
        raise http.client.HTTPException("the answer is not what gzip has made") from None


class _TryNextError(Exception):
    """A replica cannot answer; another one may."""


def _problem(content: bytes) -> str:
    try:
        document = json.loads(content)
        text = document.get("detail") or document.get("title") or ""
    except (ValueError, AttributeError):
        text = content[:80].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in str(text))


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused; is the controller running?"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (see --ca-file)"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
