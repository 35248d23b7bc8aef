"""The 5-tuple of a flow, as the bytes by which the kernel looks it up."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = IPv4Address | IPv6Address

PROTOCOLS = {"tcp": 6, "udp": 17}
_NAMES = {number: name for name, number in PROTOCOLS.items()}
_REST = struct.Struct("!B3xH2xH2x")

KEY4_BYTES, KEY6_BYTES = 2 * 4 + _REST.size, 2 * 16 + _REST.size
"""nftables pads each part of a concatenation to four bytes."""


def flow_key(src: Address, dst: Address, protocol: str, src_port: int, dst_port: int) -> bytes:
    """Return the key of a flow: addresses of one version, protocol and ports, in network order."""
    return src.packed + dst.packed + _REST.pack(PROTOCOLS[protocol], src_port, dst_port)


def destination(key: bytes) -> bytes:
    """Return the packed address to which a flow goes."""
    size = 4 if len(key) == KEY4_BYTES else 16
    return key[size : 2 * size]


def described(key: bytes) -> dict[str, str | int]:
    """Return the parts of a key as plain data."""
    size = 4 if len(key) == KEY4_BYTES else 16
    protocol, src_port, dst_port = _REST.unpack(key[2 * size :])
    return {
        "src": str(ip_address(key[:size])),
        "dst": str(ip_address(key[size : 2 * size])),
        "protocol": _NAMES.get(protocol, str(protocol)),
        "src_port": src_port,
        "dst_port": dst_port,
    }
