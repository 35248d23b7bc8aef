"""Frames and sFlow datagrams as switches send them, made without the parsers under test."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address

from controller.learning.sightings import QpKey, SightingBatch
from controller.model.packets.port_numbers import ROCE_PORT
from emulation.roce.wire import (
    FIRST_PACKETS,
    WITH_IMMEDIATE,
    WRITE_MIDDLE,
    Ack,
    Reth,
    Write,
    encode_ack,
    encode_write,
)

MACS = bytes(range(12))


def datagram_to(key: QpKey, payload: bytes, *, port: int = ROCE_PORT, tags: bytes = b"\x08\x00") -> bytes:
    """Return an Ethernet frame with a UDP datagram of a QP; ``tags`` are what comes between addresses and IPv4."""
    udp = struct.pack("!HHHH", key.udp_src, port, 8 + len(payload), 0)
    ip = struct.pack(
        "!BBHHHBBH4s4s",
        0x45,
        0,
        28 + len(payload),
        0,
        0x4000,
        64,
        17,
        0,
        IPv4Address(key.src).packed,
        IPv4Address(key.dst).packed,
    )
    return MACS + tags + ip + udp + payload


def write_frame(
    key: QpKey, psn: int, size: int = 4096, opcode: int = WRITE_MIDDLE, *, tags: bytes = b"\x08\x00"
) -> bytes:
    """Return the frame of a packet of an RDMA write."""
    reth = Reth(0, 0, size) if opcode in FIRST_PACKETS else None
    immediate = 0 if opcode in WITH_IMMEDIATE else None
    packet = Write(opcode, key.dst_qp, psn, False, reth, memoryview(bytes(size)), immediate)
    return datagram_to(key, b"".join(encode_write(packet, 0)), tags=tags)


def ack_frame(key: QpKey, psn: int) -> bytes:
    """Return the frame of an acknowledgement."""
    return datagram_to(key, encode_ack(Ack(key.dst_qp, psn, 0x1F, 0), 0))


def tcp_frame(
    src: int, dst: int, port: int, payload: bytes, sequence: int = 0, *, to: int = 5001, tags: bytes = b"\x08\x00"
) -> bytes:
    """Return the frame of a TCP segment with timestamps, from a port to a port."""
    head = struct.pack("!HHIIBBHHH", port, to, sequence % (1 << 32), 0, 8 << 4, 0x18, 512, 0, 0) + bytes(12)
    addresses = IPv4Address(src).packed, IPv4Address(dst).packed
    size = 20 + len(head) + len(payload)
    return MACS + tags + struct.pack("!BBHHHBBH4s4s", 0x45, 0, size, 0, 0x4000, 64, 6, 0, *addresses) + head + payload


def record(frame: bytes, length: int = 128) -> bytes:
    """Return the record of a raw header, of which ``length`` bytes are kept."""
    head = frame[:length]
    body = struct.pack("!IIII", 1, len(frame), 4, len(head)) + head + bytes(-len(head) % 4)
    return struct.pack("!II", 1, len(body)) + body


def flow_sample(records: Sequence[bytes], *, source: int = 3, drops: int = 0, expanded: bool = False) -> bytes:
    """Return a flow sample, or an expanded one."""
    if expanded:
        body = struct.pack("!11I", 1, 0, source, 1000, 5, drops, 0, 1, 0, 2, len(records))
    else:
        body = struct.pack("!8I", 1, source, 1000, 5, drops, 1, 2, len(records))
    body += b"".join(records)
    return struct.pack("!II", 3 if expanded else 1, len(body)) + body


def counter_sample() -> bytes:
    """Return a sample of counters, as far as it matters."""
    body = struct.pack("!III", 1, 3, 0)
    return struct.pack("!II", 2, len(body)) + body


def sflow_datagram(
    samples: Sequence[bytes], *, sequence: int = 1, agent: bytes = bytes((10, 0, 0, 1)), sub_agent: int = 0
) -> bytes:
    """Return a datagram."""
    kind = 1 if len(agent) == 4 else 2
    head = struct.pack("!II", 5, kind) + agent + struct.pack("!IIII", sub_agent, sequence, 12345, len(samples))
    return head + b"".join(samples)


def datagrams_of(batch: SightingBatch, at_once: int = 7) -> list[tuple[float, bytes]]:
    """Return (time, datagram) for sampled packets, in order of time."""
    rows = sorted(zip(batch.at.tolist(), batch.qp.tolist(), batch.sent.tolist(), strict=True))
    samples = [
        (at, flow_sample([record(write_frame(batch.keys[qp], psn, batch.unit_bytes), 70)])) for at, qp, psn in rows
    ]
    parts = [samples[i : i + at_once] for i in range(0, len(samples), at_once)]
    return [(part[-1][0], sflow_datagram([one for _, one in part], sequence=i)) for i, part in enumerate(parts)]
