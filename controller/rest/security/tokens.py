"""Bearer tokens in a file: one line each, ``NAME ROLE sha256:HEX``, and lines of comment that begin with ``#``.

The role of the agent of a host is written ``host:NAME``, with the name of the host in the fabric file. A quota is
written behind the hash of a token of the role ``write``: ``jobs=N``, ``changes=N``; so is the tenant whose jobs alone
the token may change: ``tenant=NAME``.

The file holds hashes only. A secret has 256 random bits, which cannot be guessed or found in a table, so one round of
SHA-256 without salt protects it as well as a slow password hash would, and checking a wrong token takes microseconds.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from controller.core.caller import ANONYMOUS, NO_QUOTA, Quota, Role
from controller.model.errors import InputError

PREFIX = "fairspine_"
"""Start of every secret, so that people and secret scanners recognise one."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")
_HOST = re.compile(r"\S+")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")
MOST_OF_QUOTA = 9_999_999
"""Largest limit of a quota."""

_QUOTA = re.compile(r"(jobs|changes)=(0|[1-9][0-9]{0,6})")
_TENANT = re.compile(r"tenant=(\S+)")
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Token:
    """One line of the file.

    Attributes:
        host: of whose agent it is, with the role ``host``.
        tenant: whose jobs alone it may change, with the role ``write``.
    """

    name: str
    role: Role
    digest: str
    host: str | None = None
    quota: Quota = NO_QUOTA
    tenant: str | None = None

    def line(self) -> str:
        """Return the line of the file."""
        role = self.role if self.host is None else f"{self.role}:{self.host}"
        limits = {"jobs": self.quota.jobs, "changes": self.quota.changes}
        stated = "".join(f" {name}={limit}" for name, limit in limits.items() if limit is not None)
        of_tenant = "" if self.tenant is None else f" tenant={self.tenant}"
        return f"{self.name} {role} sha256:{self.digest}{stated}{of_tenant}"


def digest(secret: str) -> str:
    """Return the SHA-256 hash of a secret, in hexadecimal."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def new_token(
    name: str, role: Role, host: str | None = None, quota: Quota = NO_QUOTA, tenant: str | None = None
) -> tuple[Token, str]:
    """Make a token and its secret. The secret is not stored anywhere.

    Args:
        name: of the token.
        role: of its callers.
        host: the host of whose agent it is, with the role ``host``.
        quota: what its callers may have and do, with the role ``write``.
        tenant: whose jobs alone its callers may change, with the role ``write``.

    Raises:
        InputError: the name is invalid; or there is a host without that role, or the role without one; or a quota
            or a tenant for a role that changes nothing.
    """
    check_name(name)
    if (role is Role.HOST) != (host is not None):
        reason = "names the host of an agent (role host)" if host is not None else "needs the name of the host"
        raise InputError(reason, field="host" if host is not None else "role", value=host or role.value)
    if host is not None and not _HOST.fullmatch(host):
        raise InputError("in a token, the name of a host has no blanks", field="host", value=host)
    if quota != NO_QUOTA and role is not Role.WRITE:
        raise InputError("a quota is for tokens that change something (role write)", field="role", value=role.value)
    if tenant is not None and role is not Role.WRITE:
        raise InputError("a tenant is for tokens that change something (role write)", field="role", value=role.value)
    if tenant is not None and not _TENANT.fullmatch(f"tenant={tenant}"):
        raise InputError("in a token, the name of a tenant has no blanks", field="tenant", value=tenant)
    secret = PREFIX + secrets.token_urlsafe(32)
    return Token(name, role, digest(secret), host, quota, tenant), secret


def check_name(name: str) -> None:
    """Check the name of a token.

    Raises:
        InputError: it is invalid.
    """
    if not _NAME.fullmatch(name):
        raise InputError("a token's name has 1 to 63 letters, digits, '.', '_' and '-'", field="name", value=name)
    if name == ANONYMOUS.name:
        raise InputError("this name is reserved for callers without a token", field="name", value=name)


def parse_tokens(text: str, source: str = "") -> tuple[Token, ...]:
    """Parse the text of a token file.

    Raises:
        InputError: the first invalid line. Its content is not shown, because it might be a secret.
    """
    tokens: dict[str, Token] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"line {number}"
        hashed = _HASH.fullmatch(words[2]) if len(words) >= 3 else None
        role, colon, host = words[1].partition(":") if len(words) >= 3 else ("", "", "")
        if hashed is None or role not in list(Role) or (role == Role.HOST) != bool(host) or bool(colon) != bool(host):
            raise InputError(
                "must be like 'NAME read|write|host:HOST sha256:HEX [jobs=N] [changes=N] [tenant=NAME]'",
                field=where,
                source=source,
            )
        try:
            check_name(words[0])
        except InputError as error:
            raise InputError(error.reason, field=where, source=source) from None
        if words[0] in tokens:
            raise InputError("this name occurs twice", field=where, source=source)
        quota, tenant = _limits(words[3:], where, source)
        if words[3:] and role != Role.WRITE:
            reason = "quotas and tenants are for tokens that change something (role write)"
            raise InputError(reason, field=where, source=source)
        tokens[words[0]] = Token(words[0], Role(role), hashed[1], host or None, quota, tenant)
    return tuple(tokens.values())


def _limits(words: list[str], where: str, source: str) -> tuple[Quota, str | None]:
    """Return the quota and the tenant that the last words of a line state.

    Raises:
        InputError: a word is none, or one is stated twice.
    """
    limits: dict[str, int] = {}
    tenant = None
    for word in words:
        if named := _TENANT.fullmatch(word):
            if tenant is not None:
                raise InputError("tenant= occurs twice", field=where, source=source)
            tenant = named[1]
            continue
        stated = _QUOTA.fullmatch(word)
        if stated is None:
            reason = "a quota is like 'jobs=10' or 'changes=60', and a tenant like 'tenant=a'"
            raise InputError(reason, field=where, source=source)
        if stated[1] in limits:
            raise InputError(f"{stated[1]}= occurs twice", field=where, source=source)
        limits[stated[1]] = int(stated[2])
    return Quota(**limits), tenant


def read_tokens(path: Path) -> tuple[Token, ...]:
    """Read a token file that only its owner can write.

    Raises:
        InputError: it cannot be read, others may write it, or a line is invalid.
    """
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
                raise InputError("users other than its owner may write it: chmod go-w", source=str(path))
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise InputError("is too large for a token file", source=str(path))
        return parse_tokens(text.decode(), str(path))
    except OSError as error:
        raise InputError(error.strerror or str(error), source=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", source=str(path)) from None


def holder(tokens: Iterable[Token], secret: str) -> Token | None:
    """Return the token of a secret, in a time that does not depend on which token it is; ``None``: unknown."""
    wanted, owner = digest(secret), None
    for token in tokens:
        if hmac.compare_digest(token.digest, wanted):
            owner = token
    return owner
