"""Frames of link discovery: LLDP (IEEE 802.1AB-2016, clause 8), authenticated as made by this controller.

Besides the three mandatory TLVs a frame has one organisationally specific TLV with a stamp (when the probe was sent)
and a message authentication code over switch, port and stamp. The key is drawn when the controller starts and never
leaves it, so no other program can make a frame, nor make an old one look new. ``link_evidence`` detects
frames that come back more often than they were sent, or by another port.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import struct
from typing import NamedTuple

ETHERTYPE = 0x88CC
NEAREST_BRIDGE = "01:80:c2:00:00:0e"
"""Destination address that no bridge forwards (IEEE 802.1AB-2016, table 7-1)."""

KEY_BYTES = 32
_BLOCK_BYTES = 64
MAC_BYTES = 16
"""HMAC-SHA-256 (RFC 2104), truncated to half its length (RFC 4868, section 2.3)."""

SOURCE = bytes.fromhex("02000000fa16")
"""Source address of our frames: locally administered."""
OUI = bytes.fromhex("02fa15")
"""Organisation of our TLV: locally administered, so that no vendor's is the same."""

TTL_SECONDS = 120
_LOCAL = 7
"""Subtype of chassis id and port id: a name that the sender chooses."""


def _tlv(kind: int, length: int) -> bytes:
    return struct.pack("!H", kind << 9 | length)


_ETHERNET = bytes.fromhex(NEAREST_BRIDGE.replace(":", "")) + SOURCE + ETHERTYPE.to_bytes(2, "big")
_CHASSIS = _tlv(1, 22) + bytes((_LOCAL,)) + b"dpid:"
_PORT = _tlv(2, 9) + bytes((_LOCAL,))
_TTL = _tlv(3, 2) + TTL_SECONDS.to_bytes(2, "big")
_SAID = struct.Struct("!QIQ")
"""Datapath id, port, stamp."""
_OURS = _tlv(127, len(OUI) + 1 + _SAID.size + MAC_BYTES) + OUI + b"\x01"
_END = _tlv(0, 0)

_TYPE_AT = 12
_TLVS_AT = len(_ETHERNET)
_OURS_AT = _TLVS_AT + len(_CHASSIS) + 16 + len(_PORT) + 8 + len(_TTL)
_SAID_AT = _OURS_AT + len(_OURS)
_MAC_AT = _SAID_AT + _SAID.size
_END_AT = _MAC_AT + MAC_BYTES
FRAME_BYTES = _END_AT + len(_END)

_STAMP = struct.Struct("!Q")
_ETHERTYPE = ETHERTYPE.to_bytes(2, "big")


class LldpProbe(NamedTuple):
    """The content of an authentic frame: its switch and port of origin, and its time (an integer that grows)."""

    dpid: int
    port: int
    stamp: int


def is_lldp(frame: bytes) -> bool:
    """Return whether an Ethernet frame (without VLAN tag) carries LLDP."""
    return frame[_TYPE_AT:_TLVS_AT] == _ETHERTYPE


def looks_like_ours(frame: bytes) -> bool:
    """Return whether an LLDP frame names a datapath id or our organisation, authentic or not.

    Network cards and other vendors' switches send LLDP of their own, which does neither.
    """
    return b"dpid:" in frame[_TLVS_AT : _TLVS_AT + 64] or OUI in frame[_TLVS_AT:]


def head(dpid: int, port: int) -> bytes:
    """Return the part of a port's frames that never changes: all that comes before the stamp."""
    return b"".join(
        (
            _ETHERNET,
            _CHASSIS,
            b"%016x" % dpid,
            _PORT,
            b"%08x" % port,
            _TTL,
            _OURS,
            _SAID.pack(dpid, port, 0)[:-8],
        )
    )


class Seal:
    """Makes and checks frames with one key."""

    def __init__(self, key: bytes | None = None) -> None:
        """Set the key: ``KEY_BYTES`` bytes; ``None``: a random one."""
        padded = (secrets.token_bytes(KEY_BYTES) if key is None else key).ljust(_BLOCK_BYTES, b"\0")
        # HMAC with the key's part done once (RFC 2104, section 4): ``hmac.digest`` takes four times as long.
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def frame(self, head: bytes, stamp: int) -> bytes:
        """Return a whole frame (``FRAME_BYTES`` bytes) of a port.

        Args:
            head: the port's ``head``.
            stamp: 0 to 2**64 - 1.
        """
        signed = head + _STAMP.pack(stamp)
        return signed + self._code(signed) + _END

    def read(self, frame: bytes) -> LldpProbe | None:
        """Return the content of a frame; ``None`` unless it was made with this key (the code covers all before it)."""
        if len(frame) < FRAME_BYTES or frame[_OURS_AT:_SAID_AT] != _OURS:
            return None
        if not hmac.compare_digest(self._code(frame[:_MAC_AT]), frame[_MAC_AT:_END_AT]):
            return None
        return LldpProbe._make(_SAID.unpack_from(frame, _SAID_AT))

    def _code(self, signed: bytes) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(signed)
        outer.update(inner.digest())
        return outer.digest()[:MAC_BYTES]
