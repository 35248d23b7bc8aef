"""What switches see of a flow beside its addresses, protocol and ports, as one number: its *port code*.

A code up to 65535 is the UDP source port of RoCEv2, whose destination port is fixed; 0 is an unknown one. Other
protocols have higher codes: the kind, shifted by 16 bits, and a port, or 0 where none is known. Of TCP one port is
known, that of the end that listens: the other end takes any free port. All packets of a pair of hosts that match a
code also match at most one other code in part, and then in whole: ``any`` has all, ``udp`` has those of RoCEv2.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.fabric import BoolArray, IntArray
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.model.traffic import ANY_PORT

PORT_MASK = 0xFFFF
KIND_SHIFT = 16

TCP, UDP, NO_PROTOCOL = 6, 17, 253
"""Protocol numbers of IP (IANA); 253 is for experiments (RFC 3692) and stands for what is neither TCP nor UDP."""


class PortKind(IntEnum):
    """Which header fields a code names; the port is that of the sender (``FROM``) or the receiver (``TO``)."""

    ROCE = 0
    TCP_TO = 1
    TCP_FROM = 2
    UDP_TO = 3
    ANY = 4


class FlowPorts(NamedTuple):
    """A code in words: the protocol, and the ports that are known; those of RoCEv2 packets include 4791."""

    protocol: Protocol
    src_port: int | None
    dst_port: int | None


_PROTOCOL: dict[PortKind, Protocol] = {
    PortKind.ROCE: ROCE,
    PortKind.TCP_TO: "tcp",
    PortKind.TCP_FROM: "tcp",
    PortKind.UDP_TO: "udp",
    PortKind.ANY: "any",
}
_WITHOUT_PORT: dict[Protocol, int] = {
    ROCE: ANY_PORT,
    "tcp": PortKind.TCP_TO << KIND_SHIFT,
    "udp": PortKind.UDP_TO << KIND_SHIFT,
    "any": PortKind.ANY << KIND_SHIFT,
}


def port_code(protocol: Protocol, src_port: int | None = None, dst_port: int | None = None) -> int:
    """Return the code of flows of a protocol, of which at most one port is known.

    Args:
        protocol: the protocol.
        src_port: the port of the sender, for RoCEv2 and TCP.
        dst_port: the port of the receiver, for TCP and UDP.
    """
    if protocol == ROCE:
        return src_port or ANY_PORT
    if src_port:
        return PortKind.TCP_FROM << KIND_SHIFT | src_port
    return _WITHOUT_PORT[protocol] | (dst_port or 0)


ALL_TCP = port_code("tcp")
"""The code of all TCP packets of two hosts."""

CODES_OF_TCP = (PortKind.TCP_TO, PortKind.TCP_FROM)
"""The kinds of TCP."""


def kind_of(code: int) -> PortKind:
    """Return which fields a code names."""
    return PortKind(code >> KIND_SHIFT)


def flow_ports(code: int) -> FlowPorts:
    """Return the protocol and the known ports of a code."""
    kind, port = kind_of(code), code & PORT_MASK or None
    if kind == PortKind.ROCE:
        return FlowPorts(ROCE, port, ROCE_PORT)
    return FlowPorts(_PROTOCOL[kind], *((port, None) if kind == PortKind.TCP_FROM else (None, port)))


def udp_source(code: int) -> int | None:
    """Return the UDP source port of a RoCEv2 flow; ``None``: it is unknown, or the protocol is another one."""
    return code if ANY_PORT < code <= MAX_PORT else None


def protocol_fields(code: int) -> dict[str, Any]:
    """Return the members by which documents tell flows of other protocols than RoCEv2; those have none."""
    return {} if code <= MAX_PORT else flow_ports(code)._asdict()


def is_roce(codes: IntArray) -> BoolArray:
    """Return which flows [N] are RoCEv2's."""
    roce: BoolArray = codes <= MAX_PORT
    return roce


def states_port(codes: IntArray) -> BoolArray:
    """Return of which flows [N] a port is known."""
    stated: BoolArray = codes & PORT_MASK != 0
    return stated


def can_be_split(codes: IntArray) -> BoolArray:
    """Return which flows [N] can have several paths: RoCEv2's, by several source ports that the hosts take."""
    splittable: BoolArray = (codes != ANY_PORT) & is_roce(codes)
    return splittable


def header_fields(codes: IntArray) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return protocol number, source port and destination port [N] in packets of flows; 0 for unknown ports."""
    if codes.max(initial=0) <= PORT_MASK:
        # Most traffic is RoCEv2 alone: a seventh of the time.
        udp, roce = (np.full(len(codes), number, dtype=np.int32) for number in (UDP, ROCE_PORT))
        return udp, codes.astype(np.int32), roce
    kind, port = codes >> KIND_SHIFT, codes & PORT_MASK
    number = np.array([UDP, TCP, TCP, UDP, NO_PROTOCOL], dtype=np.int32)[kind]
    from_sender = (kind == PortKind.ROCE) | (kind == PortKind.TCP_FROM)
    src = np.where(from_sender, port, 0).astype(np.int32)
    dst = np.where(kind == PortKind.ROCE, ROCE_PORT, np.where(from_sender, 0, port)).astype(np.int32)
    return number, src, dst
