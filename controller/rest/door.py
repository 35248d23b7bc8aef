"""Who may use the HTTP interface and how it is encrypted, from the options of the controller."""

from __future__ import annotations

import ipaddress
import logging
import socket
from pathlib import Path

from controller.model.errors import InputError
from controller.rest.access import Access, Open
from controller.rest.tls import Tls
from controller.rest.tokens import TokenFile

LOG = logging.getLogger(__name__)


def open_door(host: str, tokens: str, cert: str, key: str) -> tuple[Access, Tls | None]:
    """Who may ask, and with what certificate we answer (``None``: in the clear).

    Args:
        host: where HTTP listens.
        tokens, cert, key: paths; empty where there are none.

    Raises:
        InputError: a file cannot be used, or without tokens others than this machine's users could ask.
    """
    if bool(cert) != bool(key):
        given, lacking = ("https_cert", "https_key") if cert else ("https_key", "https_cert")
        raise InputError(f"needs {lacking}, too", field=given, value=cert or key)
    tls = Tls(cert, key) if cert else None
    if tokens:
        return _tokens(Path(tokens)), tls
    if not is_loopback(host):
        raise InputError(
            "HTTP would answer anybody who can reach this address: name a file of tokens "
            "(fairspine token add NAME --role write --file FILE; tokens = FILE), or listen on 127.0.0.1",
            field="wsapi_host",
            value=host,
        )
    return Open(), tls


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on a host; an empty one stands for all addresses."""
    try:
        found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)


def _tokens(path: Path) -> TokenFile:
    try:
        return TokenFile(path)
    except InputError as error:
        raise InputError(error.reason, field=error.field or "tokens", value=error.value, source=error.source) from None
