"""Who may ask: bearer tokens (RFC 6750), or anybody where none are needed."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

from controller.rest.backend import ANONYMOUS, Caller
from controller.rest.problems import ProblemError

CHALLENGE = 'Bearer realm="fairspine"'


class Access(Protocol):
    """Tells callers apart."""

    @property
    def required(self) -> bool:
        """Whether callers need a token."""

    def caller(self, authorization: str | None) -> Caller:
        """Who sends a request with this Authorization header.

        Raises:
            ProblemError: 401, nobody that is known.
        """


class Open:
    """Everybody may do everything: for a controller that listens on loopback alone."""

    required = False

    def caller(self, authorization: str | None) -> Caller:
        return ANONYMOUS


def bearer(authorization: str | None) -> str:
    """The token of an Authorization header.

    Raises:
        ProblemError: 401, there is none.
    """
    if authorization is None:
        raise ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "a token is required: send Authorization: Bearer TOKEN",
            headers=(("WWW-Authenticate", CHALLENGE),),
        )
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise ProblemError(
            HTTPStatus.UNAUTHORIZED,
            "the only scheme known is Bearer: send Authorization: Bearer TOKEN",
            headers=(("WWW-Authenticate", CHALLENGE),),
        )
    return token.strip()


def unknown_token() -> ProblemError:
    """401: whoever it is, nobody of ours."""
    return ProblemError(
        HTTPStatus.UNAUTHORIZED,
        "the token is not known; it may have been removed",
        headers=(("WWW-Authenticate", f'{CHALLENGE}, error="invalid_token"'),),
    )
