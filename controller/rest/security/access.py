"""Authentication: bearer tokens (RFC 6750), or any caller where no tokens are required."""

from __future__ import annotations

import logging
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from controller.core.caller import ANONYMOUS, Caller, Role
from controller.model.errors import InputError
from controller.rest.problems import ProblemError
from controller.rest.security.tokens import holder, read_tokens

LOG = logging.getLogger(__name__)

CHALLENGE = 'Bearer realm="fairspine"'


class Access(Protocol):
    """Identifies callers."""

    @property
    def required(self) -> bool:
        """True if callers need a token."""

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller with this Authorization header.

        Raises:
            ProblemError: 401, the header holds no known token.
        """


class Open:
    """Access without tokens and with all rights: for a controller that listens on loopback only."""

    required = False

    def caller(self, authorization: str | None) -> Caller:
        """Return the anonymous caller."""
        return ANONYMOUS


class TokenFile:
    """The tokens of a file, which is read again when it changes."""

    required = True

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            InputError: the file cannot be used.
        """
        self._path = path
        # Before reading: a change made during the read causes another read.
        self._seen = self._look()
        self._tokens = read_tokens(path)

    def caller(self, authorization: str | None) -> Caller:
        """Return the caller with this Authorization header.

        Raises:
            ProblemError: 401, the file has no such token.
        """
        secret = bearer(authorization)
        self._refresh()
        token = holder(self._tokens, secret)
        if token is None:
            raise unknown_token()
        hosts = () if token.host is None else (token.host,)
        return Caller(token.name, token.role, hosts=hosts, quota=token.quota, tenant=token.tenant)

    def _refresh(self) -> None:
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._tokens = read_tokens(self._path)
        except InputError as error:
            LOG.error("the token file cannot be read; the previous tokens remain valid: %s", error)
        else:
            LOG.info("%d tokens from %s", len(self._tokens), self._path)

    def _look(self) -> tuple[int, ...] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


def certified(hosts: tuple[str, ...]) -> Caller:
    """Return the caller whose certificate has the names of these hosts."""
    return Caller(f"certificate of {hosts[0]}", Role.HOST, hosts=hosts, certified=True)


def bearer(authorization: str | None) -> str:
    """Return the token of an Authorization header.

    Raises:
        ProblemError: 401, there is none.
    """
    if authorization is None:
        raise _unauthorized("a token is required: send Authorization: Bearer TOKEN")
    scheme, _, token = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise _unauthorized("the only supported scheme is Bearer: send Authorization: Bearer TOKEN")
    return token.strip()


def unknown_token() -> ProblemError:
    """Return the 401 problem for a token that is not in the file."""
    return _unauthorized("unknown token; it may have been removed", ', error="invalid_token"')


def _unauthorized(detail: str, error: str = "") -> ProblemError:
    return ProblemError(HTTPStatus.UNAUTHORIZED, detail, headers={"WWW-Authenticate": CHALLENGE + error})
