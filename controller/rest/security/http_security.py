"""Read authentication and encryption of the HTTP interface from the controller's options."""

from __future__ import annotations

import ipaddress
import logging
import socket
from dataclasses import dataclass, field
from pathlib import Path

from controller.model.errors import InputError
from controller.rest.security.access import Access, Open, TokenFile
from controller.rest.security.peer_trust import PeerTrust
from controller.rest.security.tls import Tls

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class HttpSecurity:
    """Authentication and encryption of the HTTP interface.

    Attributes:
        access: identifies callers.
        tls: of the interface; ``None``: plain HTTP.
        peers: the certificates that are accepted from other replicas; ``None``: those that the system accepts.
    """

    access: Access = field(default_factory=Open)
    tls: Tls | None = None
    peers: PeerTrust | None = None


def security_from(host: str, tokens: str, cert: str, key: str, agents_ca: str = "") -> HttpSecurity:
    """Return the security of an interface of a controller in no cluster.

    Args:
        host: the address that HTTP listens on.
        tokens: path of the token file; empty: not given.
        cert: path of the certificate; empty: not given.
        key: path of its private key; empty: not given.
        agents_ca: path of the certificates of authorities of hosts; empty: not given.

    Raises:
        InputError: a file cannot be used, or other machines could send requests without a token.
    """
    if bool(cert) != bool(key):
        given, lacking = ("https_cert", "https_key") if cert else ("https_key", "https_cert")
        raise InputError(f"requires {lacking} as well", field=given, value=cert or key)
    for lacking, given in (("https_cert", cert), ("tokens", tokens)):
        if agents_ca and not given:
            raise InputError(f"requires {lacking} as well", field="agents_ca", value=agents_ca)
    tls = Tls(cert, key, agents_ca) if cert else None
    if tokens:
        return HttpSecurity(_tokens(Path(tokens)), tls)
    if not is_loopback(host):
        raise InputError(
            "this address can be reached from other machines, so tokens are required: name a token file "
            "(fairspine token add NAME --role write --file FILE; tokens = FILE), or listen on 127.0.0.1",
            field="wsapi_host",
            value=host,
        )
    return HttpSecurity(Open(), tls)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a listener on a host; an empty one stands for all addresses."""
    try:
        addresses = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        return False
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in addresses)


def _tokens(path: Path) -> TokenFile:
    try:
        return TokenFile(path)
    except InputError as error:
        raise InputError(error.reason, field=error.field or "tokens", value=error.value, source=error.source) from None
