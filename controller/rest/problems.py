"""Errors as problem details (RFC 9457), raised as Falcon's HTTP errors."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import falcon

from controller.core.errors import ConflictError, NotAllowedError, PreconditionFailedError, StorageError
from controller.core.ports.api import etag
from controller.model.errors import InputError, NotFoundError, UnavailableError, shorten
from controller.model.units import LARGEST_EXACT

PROBLEM_JSON = "application/problem+json"

ABOUT_BLANK = "about:blank"
"""The type of a problem that its HTTP status describes fully (RFC 9457, section 4.2.1)."""
BAD_INPUT = "urn:problem-type:fairspine:bad-input"
NOT_FOUND = "urn:problem-type:fairspine:not-found"
UNAVAILABLE = "urn:problem-type:fairspine:unavailable"
STORAGE = "urn:problem-type:fairspine:storage"
NO_LEADER = "urn:problem-type:fairspine:no-leader"
OUTCOME_UNKNOWN = "urn:problem-type:fairspine:outcome-unknown"
INTERNAL = "urn:problem-type:fairspine:internal-error"

_TITLES = {
    BAD_INPUT: "Invalid input",
    NOT_FOUND: "Resource not found",
    UNAVAILABLE: "Temporarily unavailable",
    STORAGE: "The change was not made, because it could not be stored",
    NO_LEADER: "No replica leads the cluster now",
    OUTCOME_UNKNOWN: "The change may have been made, or not",
    INTERNAL: "Internal server error",
}

_FALCON_SAYS = {404: "no resource has this path", 405: "the resource does not support this method"}
"""Details of the errors that Falcon raises."""


class ProblemError(falcon.HTTPError):
    """A request that ends in a problem document.

    Attributes:
        status: HTTP status, 4xx or 5xx.
        detail: what is wrong with this request, for people.
        kind: the problem's type, one of the constants of this module.
        members: extension members, such as ``field`` and ``value``.
        headers: additional response headers.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = ABOUT_BLANK,
        members: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the HTTP status, the detail for people, and the members and headers to add to the response."""
        super().__init__(status, description=detail, headers=dict(headers or {}))
        self.status: int = status
        self.detail = detail
        self.kind = kind
        self.members = dict(members or {})

    def body(self, instance: str = "") -> bytes:
        """Encode the document for the request to ``instance`` (a URI reference; empty where it is not known)."""
        document = {
            "type": self.kind,
            "title": _TITLES.get(self.kind, HTTPStatus(self.status).phrase),
            "status": self.status,
            "detail": self.detail,
            **({"instance": instance} if instance else {}),
            **self.members,
        }
        # Not orjson: values quoted from a request may hold integers and surrogates that it refuses.
        return json.dumps(document).encode()


def write_problem(request: falcon.Request, response: falcon.Response, error: falcon.HTTPError) -> None:
    """Write the document of an error into the response: Falcon's error serializer."""
    if not isinstance(error, ProblemError):
        status = error.status_code
        error = ProblemError(status, _FALCON_SAYS.get(status, HTTPStatus(status).phrase))
    response.content_type = PROBLEM_JSON
    response.data = error.body(request.path)


def bad_input(reason: str, *, field: str, value: object = None, status: int = HTTPStatus.BAD_REQUEST) -> ProblemError:
    """Return a problem that names the invalid field and its value (``None``: no value is shown)."""
    members: dict[str, object] = {}
    if field:
        members["field"] = field
    if value is not None:
        members["value"] = _shown(value)
    return ProblemError(status, reason, kind=BAD_INPUT, members=members)


Expected = InputError | NotFoundError | UnavailableError | PreconditionFailedError | ConflictError | NotAllowedError
"""The exceptions that the backend may raise."""


def from_error(error: Expected, *, has_body: bool) -> ProblemError:
    """Return the problem for an error of the core.

    An ``InputError`` about a field of the body is 422 (RFC 9110, section 15.5.21: the content is well-formed and
    invalid); one about no field, or about a request without a body, is 400.
    """
    if isinstance(error, InputError):
        status = HTTPStatus.UNPROCESSABLE_ENTITY if has_body and error.field else HTTPStatus.BAD_REQUEST
        return bad_input(error.reason, field=error.field, value=error.value, status=status)
    if isinstance(error, NotFoundError):
        members = {"field": error.field, "value": _shown(error.name)}
        return ProblemError(HTTPStatus.NOT_FOUND, str(error), kind=NOT_FOUND, members=members)
    if isinstance(error, PreconditionFailedError):
        headers = {} if error.revision is None else {"ETag": etag(error.revision)}
        return ProblemError(HTTPStatus.PRECONDITION_FAILED, error.reason, headers=headers)
    if isinstance(error, ConflictError):
        return ProblemError(HTTPStatus.CONFLICT, error.reason)
    if isinstance(error, NotAllowedError):
        return beyond_scope(error.reason)
    kind = STORAGE if isinstance(error, StorageError) else UNAVAILABLE
    return unavailable(error.reason, kind=kind, retry_after_seconds=error.retry_after_seconds)


def beyond_scope(reason: str) -> ProblemError:
    """Return a 403 problem: the token is valid, and not for this request."""
    headers = {"WWW-Authenticate": 'Bearer realm="fairspine", error="insufficient_scope"'}
    return ProblemError(HTTPStatus.FORBIDDEN, reason, headers=headers)


def unavailable(reason: str, *, kind: str = UNAVAILABLE, retry_after_seconds: int = 1) -> ProblemError:
    """Return a 503 problem with the time after which to try again."""
    headers = {"Retry-After": str(retry_after_seconds)}
    return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, reason, kind=kind, headers=headers)


def outcome_unknown(reason: str) -> ProblemError:
    """Return the problem of a change that the leader may have made before it ended."""
    detail = f"{reason}: the change may have been made, or not; read the state again before you repeat it"
    return ProblemError(HTTPStatus.BAD_GATEWAY, detail, kind=OUTCOME_UNKNOWN)


def internal(error_id: str) -> ProblemError:
    """Return the problem for an unexpected exception: it only names the entry in the log."""
    return ProblemError(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        f"the controller's log has the details under {error_id}",
        kind=INTERNAL,
        members={"error_id": error_id},
    )


def _shown(value: object) -> object:
    """Return a value as a problem shows it: itself if JSON can hold it in few characters, else a shortened string."""
    match value:
        case bool():
            return value
        case int() if abs(value) <= LARGEST_EXACT:
            return value
        case float() if math.isfinite(value):
            return value
        case str() if len(value) <= 80:
            return value
        case _:
            return shorten(value)
