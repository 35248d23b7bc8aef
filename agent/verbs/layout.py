"""The layout of the two files that are shared with libfairspine-verbs: verbs/layout.h in Python."""

from __future__ import annotations

import struct
from enum import IntEnum, IntFlag
from ipaddress import IPv6Address
from typing import NamedTuple

from agent.plans.flow_keys import Address

LAYOUT_VERSION = 2
PORTS_MAGIC = int.from_bytes(b"fsrports", "little")
RING_MAGIC = int.from_bytes(b"fspqring", "little")

PORTS, RING = "ports", "queue-pairs"
"""Names of the files."""

Fields = tuple[tuple[str, str], ...]
"""Names of fields, and their formats as ``struct`` writes them."""

HEADER: Fields = (
    ("magic", "Q"),
    ("version", "I"),
    ("state", "I"),
    ("capacity", "I"),
    ("row_bytes", "I"),
    ("newest", "Q"),
    ("rows", "2Q"),
    ("reserved", "2Q"),
)
PORT_ROW: Fields = (("gids", "32s"), ("number", "H"), ("port", "H"), ("kbps", "I"), ("check", "I"))
QP_RECORD: Fields = (
    ("record", "Q"),
    ("at_ns", "Q"),
    ("gids", "32s"),
    ("process", "I"),
    ("pid", "I"),
    ("qp", "I"),
    ("remote_qp", "I"),
    ("kind", "H"),
    ("flags", "H"),
    ("port", "H"),
    ("number", "H"),
    ("device", "20s"),
    ("check", "I"),
)

PROCESS_LOCK = 1 << 62
"""The lock of a byte of the ring that process n holds is this one and n bytes further."""
AGENT_LOCK = 0
"""The lock of a byte of the table that its agent holds."""

GIDS_BYTES = 32
"""Local and remote GID."""
MAPPED = b"\0" * 10 + b"\xff\xff"
"""What precedes an IPv4 address in a GID (RFC 4291, section 2.5.5.2)."""


class FileState(IntEnum):
    """Whether a file is in use, or has a successor of the same name."""

    IN_USE = 1
    RETIRED = 2


class RecordKind(IntEnum):
    """What has happened to a QP."""

    CONNECTED = 1
    MOVED = 2
    CLOSED = 3


class RecordFlag(IntFlag):
    """Where the port of a QP comes from."""

    PORT_PLANNED = 1
    PORT_SHARED = 2
    PORT_OWN = 4
    PORT_DERIVED = 8
    QP_PACED = 16


def packing(fields: Fields) -> struct.Struct:
    """Return what packs the fields: little-endian, without gaps."""
    return struct.Struct("<" + "".join(code for _, code in fields))


def offset_of(fields: Fields, name: str) -> int:
    """Return the bytes before a field."""
    names = [each for each, _ in fields]
    return packing(fields[: names.index(name)]).size


def gid_of(address: Address) -> bytes:
    """Return the GID of an address (RoCEv2)."""
    return MAPPED + address.packed if address.version == 4 else address.packed


def address_of(gid: bytes) -> Address:
    """Return the address that a GID stands for."""
    ipv6 = IPv6Address(gid)
    return ipv6.ipv4_mapped or ipv6


class PortRow(NamedTuple):
    """The UDP source port and the pace of a flow.

    Attributes:
        local, remote: addresses of both ends.
        number: of the flow: unique among those of the two GIDs, and not 0.
        port: UDP source port.
        kbps: the pace, in thousands of bits on the link a second; 0: it has none.
    """

    local: Address
    remote: Address
    number: int
    port: int
    kbps: int = 0


class QpRecord(NamedTuple):
    """What a process has reported of one of its QPs.

    Attributes:
        at: seconds since 1970.
        local, remote: addresses of both ends.
        process: random number of the process.
        pid: in its container.
        qp, remote_qp: QP numbers.
        kind: what has happened.
        flags: where its port comes from, and whether the device keeps its pace.
        port: UDP source port.
        number: of its row; 0: it has none.
        device: name of the RDMA device.
    """

    at: float
    local: Address
    remote: Address
    process: int
    pid: int
    qp: int
    remote_qp: int
    kind: RecordKind
    flags: RecordFlag
    port: int
    number: int
    device: str
