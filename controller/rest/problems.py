"""Errors as problem details (RFC 9457): what a client is told when a request did not work."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from controller.model.errors import InputError, NotFoundError, UnavailableError, shorten
from controller.rest.backend import ConflictError, PreconditionFailedError, StorageError, etag
from controller.rest.messages import Response

PROBLEM_JSON = "application/problem+json"

ABOUT_BLANK = "about:blank"
"""The type of a problem that its HTTP status describes fully (RFC 9457, section 4.2.1)."""
BAD_INPUT = "urn:problem-type:fairspine:bad-input"
NOT_FOUND = "urn:problem-type:fairspine:not-found"
UNAVAILABLE = "urn:problem-type:fairspine:unavailable"
STORAGE = "urn:problem-type:fairspine:storage"
INTERNAL = "urn:problem-type:fairspine:internal-error"

_TITLES = {
    BAD_INPUT: "The input cannot be used",
    NOT_FOUND: "There is no such thing",
    UNAVAILABLE: "This cannot be answered now",
    STORAGE: "The change could not be kept, so it was not made",
    INTERNAL: "The controller made a mistake",
}

_LARGEST_EXACT_INTEGER = 2**53 - 1
"""RFC 8259, section 6: larger integers do not survive every JSON reader."""


class ProblemError(Exception):
    """A request that ends in a problem document.

    Attributes:
        status: HTTP status, 4xx or 5xx.
        detail: what is wrong with this very request, for people.
        kind: the problem's type, one of the constants of this module.
        members: extension members, such as ``field`` and ``value``.
        headers: headers that the response needs besides.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = ABOUT_BLANK,
        members: Mapping[str, Any] | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind
        self.members = dict(members or {})
        self.headers = headers

    def response(self, instance: str) -> Response:
        """The response to the request for ``instance`` (a URI reference; empty where it is not known)."""
        document = {
            "type": self.kind,
            "title": _TITLES.get(self.kind, HTTPStatus(self.status).phrase),
            "status": self.status,
            "detail": self.detail,
            **({"instance": instance} if instance else {}),
            **self.members,
        }
        # Not orjson: values quoted from a request may hold integers and surrogates that it refuses.
        return Response(self.status, json.dumps(document).encode(), PROBLEM_JSON, self.headers)


def bad_input(reason: str, *, field: str, value: object = None, status: int = HTTPStatus.BAD_REQUEST) -> ProblemError:
    """A problem that names the field and the value that cannot be used (no value: ``None``)."""
    members: dict[str, object] = {}
    if field:
        members["field"] = field
    if value is not None:
        members["value"] = _shown(value)
    return ProblemError(status, reason, kind=BAD_INPUT, members=members)


Expected = InputError | NotFoundError | UnavailableError | PreconditionFailedError | ConflictError
"""What the backend may raise."""


def from_error(error: Expected, *, has_body: bool) -> ProblemError:
    """The problem for an error of the core.

    An ``InputError`` about a field of the body is 422, the content could be read and cannot be used (RFC 9110,
    section 15.5.21); one about no field, or about a request without a body, is 400.
    """
    if isinstance(error, InputError):
        status = HTTPStatus.UNPROCESSABLE_ENTITY if has_body and error.field else HTTPStatus.BAD_REQUEST
        return bad_input(error.reason, field=error.field, value=error.value, status=status)
    if isinstance(error, NotFoundError):
        members = {"field": error.kind, "value": _shown(error.name)}
        return ProblemError(HTTPStatus.NOT_FOUND, str(error), kind=NOT_FOUND, members=members)
    if isinstance(error, PreconditionFailedError):
        headers = () if error.revision is None else (("ETag", etag(error.revision)),)
        return ProblemError(HTTPStatus.PRECONDITION_FAILED, error.reason, headers=headers)
    if isinstance(error, ConflictError):
        return ProblemError(HTTPStatus.CONFLICT, error.reason)
    kind = STORAGE if isinstance(error, StorageError) else UNAVAILABLE
    return unavailable(error.reason, kind=kind, retry_after_seconds=error.retry_after_seconds)


def unavailable(reason: str, *, kind: str = UNAVAILABLE, retry_after_seconds: int = 1) -> ProblemError:
    """503, and when to try again."""
    headers = (("Retry-After", str(retry_after_seconds)),)
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, reason, kind=kind, headers=headers)


def internal(error_id: str) -> ProblemError:
    """What a client is told of an exception that nobody expected: an id to look for in the log, and no more."""
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"the controller's log says more under {error_id}",
        kind=INTERNAL,
        members={"error_id": error_id},
    )


def _shown(value: object) -> object:
    """A value as it goes into a problem: itself where JSON can hold it in few characters, else cut to a string."""
    match value:
        case bool():
            return value
        case int() if abs(value) <= _LARGEST_EXACT_INTEGER:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if len(value) <= 80:
            return value
        case _:
            return shorten(value)
