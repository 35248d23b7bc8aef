"""ARP frames as bytes and back (RFC 826), by struct alone: decoding a host's packets is fast and logs nothing.

A leaf delivers ARP for known hosts by rules. What is left comes here: requests for unknown targets, and answers to
our probes. A probe has sender address 0.0.0.0 (RFC 5227, section 2.1.1), so its answer has target address 0.0.0.0,
which one rule a leaf sends here.
"""

from __future__ import annotations

import struct
from socket import inet_aton, inet_ntoa
from typing import NamedTuple

from controller.model.network_state import Location

BROADCAST = "ff:ff:ff:ff:ff:ff"
NOBODY = "0.0.0.0"
NOBODY_MAC = "00:00:00:00:00:00"

REQUEST, REPLY = 1, 2
_ETH_ARP, _ETH_VLAN = b"\x08\x06", b"\x81\x00"
_TYPES_AT = 12
_VLAN_TAG = 4
_BODY = struct.Struct("!2s6sH6s4s6s4s")
"""Ethernet type; hardware type, protocol type and lengths; operation; sender and target: MAC and IPv4 address."""
_KIND = struct.pack("!HHBB", 1, 0x0800, 6, 4)
"""ARP for IPv4 over Ethernet."""
_SHORTEST = 60
"""Bytes of the shortest Ethernet frame, without its checksum (IEEE 802.3, section 3.2.8)."""


class Heard(NamedTuple):
    """The content of an ARP packet: its sender (``ip``, ``mac``), the address it is about, and whether it is a request.

    ``target_mac``: the target hardware address within ARP; in a request it is not known yet.
    """

    ip: str
    mac: str
    target: str
    request: bool
    target_mac: str = NOBODY_MAC


def parse(data: bytes) -> Heard | None:
    """Return the ARP packet in a frame, with at most one 802.1Q tag; ``None``: there is none, or no sound one.

    A sound one is a request or a reply for IPv4 over Ethernet, from a unicast MAC address, and from an IPv4 address
    that a host may have, or from 0.0.0.0.
    """
    at = _TYPES_AT
    if data[at : at + 2] == _ETH_VLAN:
        at += _VLAN_TAG
    if len(data) < at + _BODY.size:
        return None
    eth_type, kind, operation, mac, ip, target_mac, target = _BODY.unpack_from(data, at)
    if eth_type != _ETH_ARP or kind != _KIND or operation not in (REQUEST, REPLY):
        return None
    if mac[0] & 1 or not any(mac) or not _may_send(ip):
        return None
    return Heard(inet_ntoa(ip), mac.hex(":"), inet_ntoa(target), operation == REQUEST, target_mac.hex(":"))


def is_arp(data: bytes) -> bool:
    """Return whether a frame says that it is ARP, sound or not."""
    tagged = data[_TYPES_AT : _TYPES_AT + 2] == _ETH_VLAN
    at = _TYPES_AT + (_VLAN_TAG if tagged else 0)
    return data[at : at + 2] == _ETH_ARP


def _may_send(ip: bytes) -> bool:
    """Return whether an address is a host's (RFC 1122, section 3.2.1.3) or 0.0.0.0."""
    return ip == b"\0\0\0\0" or (ip[0] not in (0, 127) and ip[0] < 224)


def probe(target: str, mac: str) -> bytes:
    """Return a probe for an address, from 0.0.0.0 at a MAC address (``controller.southbound.hosts.probe_mac``)."""
    return frame(BROADCAST, REQUEST, mac, NOBODY, NOBODY_MAC, target)


def answer(heard: Heard, owner: Location) -> bytes:
    """Return the reply that the owner of the requested address would give."""
    return frame(heard.mac, REPLY, owner.mac, heard.target, heard.mac, heard.ip)


def frame(to: str, operation: int, mac: str, ip: str, target_mac: str, target_ip: str) -> bytes:
    """Return an Ethernet frame with an ARP packet, untagged."""
    body = _BODY.pack(_ETH_ARP, _KIND, operation, _mac(mac), inet_aton(ip), _mac(target_mac), inet_aton(target_ip))
    return (_mac(to) + _mac(mac) + body).ljust(_SHORTEST, b"\0")


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
