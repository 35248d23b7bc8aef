"""Check Host and Origin headers, against DNS rebinding and requests from pages of other origins.

A page on another site can have a browser send requests here. It cannot choose what the headers
say: the name that the browser looked up (``Host``), where the page is from (``Origin``, RFC 6454; ``Sec-Fetch-Site``,
W3C Fetch Metadata). A name that a stranger points to this machine's address (DNS rebinding) shows in ``Host`` alone.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT
from controller.rest.problems import bad_input

_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(r"(https?)://([^/?#@\s]+)", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

MOST_NAMES = 100


@dataclass(frozen=True)
class Authority:
    """A host and a port (RFC 3986, section 3.2): the host in lower case, addresses in their shortest form."""

    host: str
    port: int | None = None


@dataclass(frozen=True)
class Names:
    """The names of this server.

    Attributes:
        hosts: names and addresses, with any port, because a forwarded port may have another number.
        listed: further names from the options.
        tls: whether it answers in HTTPS itself, so that no page of ours can come over HTTP.
    """

    hosts: frozenset[str] = frozenset()
    listed: frozenset[Authority] = frozenset()
    tls: bool = False

    def check(self, method: str, headers: Mapping[str, str], local: str, target: str = "") -> None:
        """Check the host that a request is for, and the page that it comes from.

        Args:
            method: the request's method.
            headers: by lower-case name.
            local: the address that the connection came to.
            target: the request target; one in absolute form names a host, too (RFC 9112, section 3.2.2).

        Raises:
            ProblemError: 421, the request is for another host; 403, it comes from a page of another origin.
        """
        asked = headers.get("host")
        if absolute := _ORIGIN.match(target):
            self._check_host(absolute[2], local)
        if asked is not None:
            self._check_host(asked, local)
        self._check_origin(headers.get("origin"), asked)
        _check_site(method, headers)

    def _check_host(self, text: str, local: str) -> None:
        host = authority(text)
        ours = self.hosts | {_address(local)} | (_LOOPBACK if _is_loopback(local) else frozenset())
        if host is None or (host.host not in ours and not self._is_listed(host)):
            raise bad_input(
                "this is not a name of this server; add further names to the option http_hosts",
                field="Host",
                value=text,
                status=HTTPStatus.MISDIRECTED_REQUEST,
            )

    def _check_origin(self, text: str | None, asked: str | None) -> None:
        if text is None:
            return
        match = _ORIGIN.fullmatch(text)
        origin = None if match is None else authority(match[2])
        if match is not None and origin is not None:
            port = _DEFAULT_PORTS[match[1].lower()]
            own = None if asked is None else authority(asked)
            # The origin of a proxy that ends TLS is another one than that of this server: it has to be listed.
            same = own is not None and _with_port(origin, port) == _with_port(own, port)
            if same and match[1].lower() == ("https" if self.tls else "http"):
                return
            if Authority(origin.host, None if origin.port == port else origin.port) in self.listed:
                return
        raise bad_input("requests from pages of this origin are not allowed", field="Origin", value=text, status=403)

    def _is_listed(self, host: Authority) -> bool:
        # A name that is listed without a port matches any port.
        return host in self.listed or Authority(host.host) in self.listed


def names_of(listen_host: str, machine: str, listed: str, *, tls: bool) -> Names:
    """Return the names of a server.

    Args:
        listen_host: where it listens, as configured; empty: everywhere.
        machine: the machine's own name.
        listed: the option ``http_hosts``: names or addresses, each with or without a port, between commas.
        tls: whether the server uses TLS.

    Raises:
        InputError: an entry of the list is invalid.
    """
    entries = [entry.strip() for entry in listed.split(",") if entry.strip()]
    if len(entries) > MOST_NAMES:
        raise InputError(f"has more than {MOST_NAMES} names", field="http_hosts")
    listed_names = set()
    for entry in entries:
        named = authority(entry) or authority(f"[{entry}]")
        if named is None:
            raise InputError(
                "must be names or addresses, like fabric.example.net:8443", field="http_hosts", value=entry
            )
        listed_names.add(named)
    given = (authority(name) or authority(f"[{name}]") for name in (listen_host, machine) if name)
    return Names(frozenset(name.host for name in given if name is not None), frozenset(listed_names), tls)


def url_of(listen_host: str, port: int, machine: str, *, tls: bool) -> str:
    """Return the URL of a server that listens on this address; one that listens on all has the machine's name."""
    host = machine if listen_host in ("0.0.0.0", "::") else listen_host
    return f"{'https' if tls else 'http'}://{f'[{host}]' if _is_ipv6(host) else host}:{port}"


@functools.lru_cache(maxsize=64)
def authority(text: str) -> Authority | None:
    """Parse a host with or without a port; ``None``: invalid."""
    match = _AUTHORITY.fullmatch(text)
    if match is None or (match[2] is not None and not 0 < int(match[2]) <= MAX_PORT):
        return None
    host = match[1].strip("[]")
    if host != match[1] and not _is_ipv6(host):
        return None
    # The root of the DNS, a single dot, names no machine.
    name = _address(host)
    return Authority(name, None if match[2] is None else int(match[2])) if name else None


def _with_port(authority: Authority, default: int) -> Authority:
    return Authority(authority.host, default if authority.port is None else authority.port)


@functools.lru_cache(maxsize=64)
def _address(host: str) -> str:
    """Return a host in the form in which hosts are compared."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower().removesuffix(".")
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False


@functools.lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(_address(host)).is_loopback
    except ValueError:
        return False


def _check_site(method: str, headers: Mapping[str, str]) -> None:
    site = headers.get("sec-fetch-site", "none")
    if site in ("none", "same-origin"):
        return
    # A link on another page may lead here: that page learns nothing, and nothing changes.
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest", "document") == "document"
    if method in ("GET", "HEAD") and followed:
        return
    raise bad_input(
        "requests from pages of another site are not allowed", field="Sec-Fetch-Site", value=site, status=403
    )
