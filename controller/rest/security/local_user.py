"""The user whose program holds the other end of a TCP connection from this machine to this machine.

The kernel tells it for each socket (proc(5), ``/proc/net/tcp``). Of clients on other machines, nothing is known.
"""

from __future__ import annotations

import ipaddress
import pwd
import struct
from pathlib import Path

_TABLES = {4: Path("/proc/self/net/tcp"), 6: Path("/proc/self/net/tcp6")}
_ESTABLISHED = "01"
_LOCAL, _REMOTE, _STATE, _UID = 1, 2, 3, 7


def user_of_client(address: str, port: str, own_port: str) -> str | None:
    """Return the name of the user (``uid 1234`` if it has none) who connected; ``None``: not known.

    Args:
        address: the client's, as the server sees it.
        port: the client's.
        own_port: the server's.
    """
    try:
        client = ipaddress.ip_address(address)
        wanted = int(port), int(own_port)
    except ValueError:
        return None
    if not client.is_loopback:
        return None
    try:
        rows = _TABLES[client.version].read_text().splitlines()[1:]
    except OSError:
        return None
    end = f"{_hexadecimal(client)}:{wanted[0]:04X}"
    for row in rows:
        fields = row.split()
        remote_port = fields[_REMOTE].rpartition(":")[2]
        if fields[_LOCAL] == end and int(remote_port, 16) == wanted[1] and fields[_STATE] == _ESTABLISHED:
            return _name(int(fields[_UID]))
    return None


def _hexadecimal(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return an address as the kernel writes it: its 32-bit words in the byte order of this machine."""
    return "".join(f"{word:08X}" for (word,) in struct.iter_unpack("=I", address.packed))


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
