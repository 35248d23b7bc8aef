"""Ethernet frames of the rogue host: ARP (RFC 826), LLDP (IEEE 802.1AB) and others."""

from __future__ import annotations

import random
import socket
import struct
from dataclasses import dataclass

BROADCAST = b"\xff" * 6
LLDP_NEAREST = bytes.fromhex("0180c200000e")
ETH_IPV4, ETH_ARP, ETH_VLAN, ETH_QINQ, ETH_MPLS, ETH_LLDP = 0x0800, 0x0806, 0x8100, 0x88A8, 0x8847, 0x88CC
LONGEST_FRAME = 4500


@dataclass(frozen=True)
class AttackedHost:
    """A host: address, hardware address, and the datapath id and port of its leaf."""

    name: str
    ip: str
    mac: str
    dpid: int
    port: int

    @property
    def hardware(self) -> bytes:
        """The MAC address, 6 bytes."""
        return bytes.fromhex(self.mac.replace(":", ""))

    @property
    def address(self) -> bytes:
        """The IPv4 address, 4 bytes."""
        return socket.inet_aton(self.ip)


def ethernet(destination: bytes, source: bytes, kind: int, payload: bytes) -> bytes:
    """Return an Ethernet frame without its checksum, padded to 60 bytes."""
    return (destination + source + struct.pack("!H", kind) + payload).ljust(60, b"\0")


def arp(
    operation: int, mac: bytes, ip: bytes, target_mac: bytes, target_ip: bytes, *, source: bytes, destination: bytes
) -> bytes:
    """Return an ARP packet; ``source`` and ``destination`` are the frame's addresses."""
    body = struct.pack("!HHBBH6s4s6s4s", 1, ETH_IPV4, 6, 4, operation, mac, ip, target_mac, target_ip)
    return ethernet(destination, source, ETH_ARP, body)


def forged_arp(rng: random.Random, me: AttackedHost, victims: list[AttackedHost]) -> bytes:
    """ARP in the name of another host: its address, its hardware address, or both; every form that ARP has."""
    victim, asked = rng.choice(victims), rng.choice(victims)
    claims_mac = rng.random() < 0.7
    mac = victim.hardware if claims_mac else me.hardware
    ip = victim.address if rng.random() < 0.8 else me.address
    form = rng.choice(("gratuitous request", "gratuitous reply", "probe answer", "announcement to 0.0.0.0"))
    source = mac if rng.random() < 0.7 else me.hardware
    target = {"gratuitous request": ip, "gratuitous reply": ip}.get(form, bytes(4))
    operation = 1 if form in ("gratuitous request", "announcement to 0.0.0.0") else 2
    return arp(operation, mac, ip, asked.hardware, target, source=source, destination=BROADCAST)


def poisonous_arp(rng: random.Random, me: AttackedHost, victims: list[AttackedHost]) -> bytes:
    """ARP for one host's own cache: "I have that other host's address"."""
    victim, asked = rng.sample(victims, 2)
    operation = rng.choice((1, 2))
    destination = rng.choice((asked.hardware, BROADCAST))
    return arp(
        operation,
        me.hardware,
        victim.address,
        asked.hardware,
        asked.address,
        source=me.hardware,
        destination=destination,
    )


def random_arp(rng: random.Random) -> bytes:
    """Return an ARP packet of a random host in 10.0.0.0/8."""
    mac = bytes((0x02,)) + rng.randbytes(5)
    ip = bytes((10,)) + rng.randbytes(3)
    target = rng.choice((bytes(4), ip, bytes((10,)) + rng.randbytes(3)))
    return arp(rng.choice((1, 2)), mac, ip, bytes(6), target, source=mac, destination=BROADCAST)


def malformed_arp(rng: random.Random, whole: bytes) -> bytes:
    """ARP with wrong lengths, types, or an early end."""
    data = bytearray(whole)
    what = rng.randrange(5)
    if what == 0:
        return bytes(data[: rng.randint(14, len(data) - 1)])
    if what == 1:
        data[18], data[19] = rng.choice((0, 1, 255)), rng.choice((0, 1, 16, 255))
    elif what == 2:
        data[14:18] = rng.randbytes(4)
    elif what == 3:
        data[20:22] = rng.randbytes(2)
    else:
        data += rng.randbytes(rng.randint(1, 1400))
    return bytes(data)


def tlv(kind: int, value: bytes) -> bytes:
    """One TLV of LLDP: 7 bits type, 9 bits length."""
    return struct.pack("!H", kind << 9 | (len(value) & 0x1FF)) + value


def lldp(source: bytes, chassis: bytes, port: bytes, *more: bytes, ttl: int = 120) -> bytes:
    """Return an LLDP frame; ``chassis`` and ``port`` begin with their subtype."""
    tlvs = tlv(1, chassis) + tlv(2, port) + tlv(3, struct.pack("!H", ttl)) + b"".join(more) + tlv(0, b"")
    return ethernet(LLDP_NEAREST, source, ETH_LLDP, tlvs)


def ryu_lldp(source: bytes, dpid: int, port: int) -> bytes:
    """As Ryu's own discovery sends it: chassis "dpid:..." (locally assigned), port as a component of 4 bytes."""
    return lldp(source, b"\x07" + f"dpid:{dpid:016x}".encode(), b"\x02" + struct.pack("!I", port), ttl=0)


def foreign_lldp(rng: random.Random, source: bytes) -> bytes:
    """As a server's or another vendor's agent sends it."""
    name = rng.choice((b"\x05Ethernet1/1", b"\x03" + source, b"\x07" + str(rng.randrange(64)).encode()))
    described = (tlv(4, b"uplink"), tlv(5, b"server-" + str(rng.randrange(99)).encode()), tlv(6, b"Linux"))
    organisation = tlv(127, rng.randbytes(3) + bytes((rng.randrange(16),)) + rng.randbytes(rng.randint(0, 40)))
    return lldp(source, b"\x04" + source, name, *described, organisation)


def malformed_lldp(rng: random.Random, whole: bytes) -> bytes:
    """Return a frame with TLVs cut short, too long, in the wrong order, without an end, or with flipped bits."""
    data = bytearray(whole)
    what = rng.randrange(5)
    if what == 0:
        return bytes(data[: rng.randint(14, len(data) - 1)])
    if what == 1:
        at = 14 if rng.random() < 0.5 else rng.randrange(14, len(data) - 1)
        data[at : at + 2] = rng.choice((b"\x00\x00", b"\xff\xff", b"\x02\x00", b"\x03\xff", rng.randbytes(2)))
    elif what == 2:
        data[14:] = data[:13:-1]
    elif what == 3:
        data += rng.randbytes(rng.randint(1, 1400))
    else:
        for _ in range(rng.choice((1, 2, 16))):
            data[rng.randrange(14, len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def odd_frame(rng: random.Random, me: AttackedHost, victims: list[AttackedHost]) -> bytes:
    """Tagged, labelled, far too long, hardly a frame, or of any type; some carry ARP or LLDP inside."""
    inside = rng.choice((forged_arp(rng, me, victims), ryu_lldp(me.hardware, me.dpid, me.port), rng.randbytes(46)))
    destination = rng.choice((BROADCAST, LLDP_NEAREST, rng.choice(victims).hardware, rng.randbytes(6)))
    source = rng.choice((me.hardware, rng.choice(victims).hardware, BROADCAST, bytes(6), rng.randbytes(6)))
    what = rng.randrange(7)
    if what == 0:
        tag = struct.pack("!H", rng.getrandbits(16))
        return destination + source + struct.pack("!H", ETH_VLAN) + tag + inside[12:]
    if what == 1:
        tags = struct.pack("!HHHH", ETH_QINQ, rng.getrandbits(16), ETH_VLAN, rng.getrandbits(16))
        return destination + source + tags + inside[12:]
    if what == 2:
        labels = b"".join(struct.pack("!I", rng.getrandbits(32)) for _ in range(rng.randint(1, 8)))
        return ethernet(destination, source, ETH_MPLS, labels + inside[14:])
    if what == 3:
        return ethernet(destination, source, rng.choice((ETH_ARP, ETH_LLDP, 0x9000)), bytes(LONGEST_FRAME - 14))
    if what == 4:
        return destination + source + struct.pack("!H", rng.choice((ETH_ARP, ETH_LLDP, ETH_IPV4)))
    if what == 5:
        # A length in place of a type: IEEE 802.3, with or without a BPDU inside.
        return ethernet(destination, source, rng.randrange(1501), b"\x42\x42\x03" + rng.randbytes(40))
    return ethernet(destination, source, rng.getrandbits(16), rng.randbytes(rng.randint(0, 1400)))
