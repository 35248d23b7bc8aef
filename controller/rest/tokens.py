"""Bearer tokens in a file: one line each, ``NAME ROLE sha256:HEX``, and lines of comment that begin with ``#``.

Only hashes are in the file. A secret is 256 random bits, which nobody can guess or look up in a table, so one round of
SHA-256 without salt keeps it as well as a slow password hash would, and a request with a wrong token costs us
microseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.model.errors import InputError
from controller.rest.access import bearer, unknown_token
from controller.rest.backend import ANONYMOUS, Caller, Role

LOG = logging.getLogger(__name__)

PREFIX = "fairspine_"
"""What secrets begin with, so that people and scanners of repositories recognise one."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Token:
    """One line of the file."""

    name: str
    role: Role
    digest: str

    def line(self) -> str:
        """As it stands in the file."""
        return f"{self.name} {self.role} sha256:{self.digest}"


def digest(secret: str) -> str:
    """What is kept of a secret, in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def new_token(name: str, role: Role) -> tuple[Token, str]:
    """A token and its secret, which is in no other place.

    Raises:
        InputError: no token can have that name.
    """
    check_name(name)
    secret = PREFIX + secrets.token_urlsafe(32)
    return Token(name, role, digest(secret)), secret


def check_name(name: str) -> None:
    """
    Raises:
        InputError: no token can have that name.
    """
    if not _NAME.fullmatch(name):
        raise InputError("a token's name has 1 to 63 letters, digits, '.', '_' and '-'", field="name", value=name)
    if name == ANONYMOUS.name:
        raise InputError("this name stands for callers without a token", field="name", value=name)


def parse_tokens(text: str, source: str = "") -> tuple[Token, ...]:
    """The tokens of a file.

    Raises:
        InputError: the first wrong line. What it says instead is not told: it might be a secret in the wrong place.
    """
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number}"
        hashed = _HASH.fullmatch(words[2]) if len(words) == 3 else None
        if hashed is None or words[1] not in list(Role):
            raise InputError("must be like 'NAME read|write sha256:HEX'", field=where, source=source)
        try:
            check_name(words[0])
        except InputError as error:
            raise InputError(error.reason, field=where, source=source) from None
        if words[0] in tokens:
            raise InputError("this name is in the file twice", field=where, source=source)
        tokens[words[0]] = Token(words[0], Role(words[1]), hashed[1])
    return tuple(tokens.values())


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file that nobody but its owner can write.

    Raises:
        InputError: it cannot be read, others may write it, or a line is wrong.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                raise InputError("others than its owner may write it: chmod go-w", source=str(path))
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise InputError("is far too large for a file of tokens", source=str(path))
        return parse_tokens(text.decode(), str(path))
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not text", source=str(path)) from None


def holder(tokens: Iterable[Token], secret: str) -> Token | None:
    """Whose secret that is. Takes as long whoever's it is, or nobody's."""
    wanted, found = digest(secret), None
    for token in tokens:
        if hmac.compare_digest(token.digest, wanted):
            found = token
    return found


class TokenFile:
    """The tokens of a file, read again whenever it is another one."""

    required = True

    def __init__(self, path: Path) -> None:
        """
        Raises:
            InputError: the file cannot be used.
        """
        self._path = path
        # Before reading: what is changed while we read is read once more.
        self._seen = self._look()
        self._tokens = read_tokens(path)

    def caller(self, authorization: str | None) -> Caller:
        """Who sends a request with this Authorization header.

        Raises:
            ProblemError: 401, nobody that is in the file.
        """
        secret = bearer(authorization)
        self._refresh()
        token = holder(self._tokens, secret)
        if token is None:
            raise unknown_token()
        return Caller(token.name, token.role)

    def _refresh(self) -> None:
        now = self._look()
        if now == self._seen:
            return
        self._seen = now
        try:
            self._tokens = read_tokens(self._path)
        except InputError as error:
            LOG.error("the tokens stay as they were: %s", error)
        else:
            LOG.info("%d tokens from %s", len(self._tokens), self._path)

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size
