"""A small HTTP client for the controller's interface."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import quote, urlsplit

from controller.cli.failure import Failure
from controller.model.errors import InputError, shorten

TIMEOUT_SECONDS = 120.0
"""For one answer: planning a large job may take a while."""


class Client:
    """Talks to one controller, a connection a request."""

    def __init__(self, url: str) -> None:
        """
        Raises:
            InputError: that is no http or https URL of a server.
        """
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname or "", parts.port
        except ValueError as error:
            raise InputError(str(error), field="--url", value=url) from None
        if parts.scheme not in ("http", "https") or not self._host or parts.query or parts.fragment:
            raise InputError("must be like http://127.0.0.1:8080", field="--url", value=url)
        self._url, self._secure, self._prefix = url, parts.scheme == "https", parts.path.rstrip("/")

    def request(self, method: str, *path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Status and document (``None`` if there is none) of a request for ``/v1/`` and these segments.

        Raises:
            Failure: there is no connection, or the answer is a problem.
        """
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, self._port, timeout=TIMEOUT_SECONDS)
        target = "/".join([self._prefix, "v1", *(quote(segment, safe="") for segment in path)])
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            content = response.read()
        except ConnectionRefusedError:
            raise Failure(f"{self._url}: connection refused; is the controller running?") from None
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise Failure(f"{self._url}: {reason}") from None
        finally:
            connection.close()
        if response.status >= 400:
            raise _failure(self._url, response.status, response.reason, content)
        if not content:
            return response.status, None
        try:
            return response.status, json.loads(content)
        except ValueError:
            raise Failure(f"{self._url}: the answer is not JSON; is this a fairspine controller?") from None


def described(document: Any, *members: str) -> dict[str, Any]:
    """The document, an object that has these members.

    Raises:
        Failure: it is something else, so a controller of ours did not send it.
    """
    if not isinstance(document, dict) or not all(name in document for name in members):
        raise not_understood(document)
    return document


def not_understood(part: object) -> Failure:
    """What to raise where (part of) an answer has another shape than ours."""
    return Failure(f"the answer is not understood; is this a fairspine controller? {shorten(part)}")


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
    text = " ".join(": ".join([*named, str(detail)]).split())
    return Failure(f"{url}: {text}", exit_code=2 if status in (400, 413, 415, 422) else 1)
