"""Send log records to a syslog daemon by datagrams: on this machine (a Unix socket) or over UDP (RFC 5426)."""

from __future__ import annotations

import logging
import socket
from logging.handlers import SYSLOG_UDP_PORT, SysLogHandler

from controller.model.errors import InputError
from controller.model.packets.port_numbers import MAX_PORT

LOCAL = "/dev/log"
"""The socket of the daemon on this machine."""


def parse_address(text: str) -> str | tuple[str, int]:
    """Return the path of a Unix socket, or the IP address and port that ``HOST[:PORT]`` or ``[IPV6]:PORT`` names.

    A name is looked up now and never again, because a lookup for each line could block the controller.

    Raises:
        InputError: it is neither, or the name is not known.
    """
    if text.startswith("/"):
        return text
    host, _, port = text.rpartition(":") if text.rpartition("]")[2].count(":") == 1 else (text, "", "")
    host = host.removeprefix("[").removesuffix("]")
    number = port or str(SYSLOG_UDP_PORT)
    if not host or not (number.isascii() and number.isdigit() and 0 < int(number) <= MAX_PORT):
        raise InputError("expected HOST[:PORT] or the path of a socket", field="log_syslog", value=text)
    try:
        address = socket.getaddrinfo(host, int(number), type=socket.SOCK_DGRAM)[0][4]
    except (OSError, UnicodeError):
        raise InputError("the host is not known", field="log_syslog", value=text) from None
    return str(address[0]), int(address[1])


class SyslogDatagrams(SysLogHandler):
    """The standard library's handler, which here never blocks the event loop, and drops what cannot be sent."""

    append_nul = False

    def __init__(self, address: str | tuple[str, int]) -> None:
        """Send to an address of ``parse_address``, which nothing has to listen on."""
        super().__init__(address, facility=SysLogHandler.LOG_DAEMON, socktype=socket.SOCK_DGRAM)

    def createSocket(self) -> None:  # noqa: N802
        """Open a socket that is not connected, so that a daemon may come, go and come back. Its parent calls this."""
        host = None if isinstance(self.address, str) else self.address[0]
        family = socket.AF_UNIX if host is None else socket.AF_INET6 if ":" in host else socket.AF_INET
        self.unixsocket, self.socktype = False, socket.SOCK_DGRAM
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.setblocking(False)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Drop a record that could not be sent: an error report for each would fill the other logs."""
