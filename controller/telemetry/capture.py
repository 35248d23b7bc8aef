"""Packet counts of RoCE flows and TCP connections by 5-tuple, read from pcap files.

Reads classic pcap (libpcap's "savefile" format, either byte order, micro- or nanoseconds) of Ethernet, and skips VLAN
tags (IEEE 802.1Q) and MPLS labels (RFC 3032). Packets other than IPv4 TCP and UDP to the RoCE port are ignored.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from controller.model.errors import InputError
from controller.model.packets.flow_ports import TCP, UDP
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import ETH_IPV4
from controller.southbound.rules.rule import ETH_MPLS

LARGEST_PACKET = 1 << 18
"""Largest packet, in bytes, that libpcap writes."""

_ORDER = {b"\xd4\xc3\xb2\xa1": "<", b"\x4d\x3c\xb2\xa1": "<", b"\xa1\xb2\xc3\xd4": ">", b"\xa1\xb2\x3c\x4d": ">"}
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_ETHERNET = 1
_VLAN = (0x8100, 0x88A8)
_BOTTOM_OF_STACK = 1


class Tuple(NamedTuple):
    """The header fields that distinguish RoCE flows: IPv4 addresses and UDP source port."""

    src: str
    dst: str
    udp_src: int


class TcpTuple(NamedTuple):
    """The header fields that distinguish TCP connections and their directions."""

    src: str
    dst: str
    src_port: int
    dst_port: int


Counts = Counter[Tuple | TcpTuple]


def read_capture(path: Path) -> Counts:
    """Return the number of packets of each RoCE flow, and of each TCP connection and direction, in a file.

    Raises:
        InputError: the file cannot be read, is not a pcap file of Ethernet, or is truncated.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", source=str(path)) from None
    try:
        return Counter(flow for frame in _frames(data) if (flow := flow_of(frame)) is not None)
    except InputError as error:
        raise error.with_source(str(path)) from None


def _frames(data: bytes) -> Iterator[bytes]:
    order = _ORDER.get(data[:4])
    if data[:4] == _PCAPNG:
        raise InputError("is pcapng; 'editcap -F pcap' or 'tcpdump -w' make the classic format")
    if order is None or len(data) < 24:
        raise InputError("is not a pcap file")
    (kind,) = struct.unpack_from(f"{order}I", data, 20)
    if kind & 0xFFFF != _ETHERNET:
        raise InputError("is not a capture of Ethernet", field="link type", value=kind & 0xFFFF)
    at, number = 24, 1
    while at < len(data):
        if at + 16 > len(data):
            raise InputError("the file is truncated", field=f"packet {number}")
        (length,) = struct.unpack_from(f"{order}I", data, at + 8)
        at += 16
        if length > LARGEST_PACKET:
            raise InputError("is longer than any packet", field=f"packet {number}", value=length)
        if at + length > len(data):
            raise InputError("the file is truncated", field=f"packet {number}")
        yield data[at : at + length]
        at, number = at + length, number + 1


def flow_of(frame: bytes) -> Tuple | TcpTuple | None:
    """Return the 5-tuple of a TCP packet, or its variable part of a RoCE packet; ``None`` for any other packet.

    The protocol and the destination port are the same for all RoCE packets.
    """
    at, kind = 12, _short(frame, 12)
    while kind in _VLAN:
        at += 4
        kind = _short(frame, at)
    at += 2
    if kind == ETH_MPLS:
        while at + 4 <= len(frame) and not frame[at + 2] & _BOTTOM_OF_STACK:
            at += 4
        at += 4
        kind = ETH_IPV4 if len(frame) > at and frame[at] >> 4 == 4 else 0
    if kind != ETH_IPV4 or len(frame) < at + 20:
        return None
    # A later fragment has no ports.
    protocol = frame[at + 9]
    if protocol not in (TCP, UDP) or _short(frame, at + 6) & 0x1FFF:
        return None
    ports = at + 4 * (frame[at] & 15)
    src_port, dst_port = _short(frame, ports), _short(frame, ports + 2)
    if protocol == UDP and dst_port != ROCE_PORT:
        return None
    src, dst = (str(IPv4Address(frame[at + n : at + n + 4])) for n in (12, 16))
    return TcpTuple(src, dst, src_port, dst_port) if protocol == TCP else Tuple(src, dst, src_port)


def _short(frame: bytes, at: int) -> int:
    """Return two bytes as an integer, or 0 beyond the end of a truncated packet."""
    return int.from_bytes(frame[at : at + 2], "big") if at + 2 <= len(frame) else 0
