"""The few messages that a connection itself sends, as bytes (section numbers are those of OpenFlow 1.3.5)."""

from __future__ import annotations

import struct
from collections.abc import Collection

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.wire import message_check as check

ERROR_DATA_BYTES = 64
"""Of a broken message that the switch is sent back (section 7.4.4)."""

_HEADER = struct.Struct("!BBHI")
_ERROR = struct.Struct("!BBHIHH")


def echo_request(xid: int) -> bytes:
    """Encode an echo request (section 7.5.2)."""
    return _HEADER.pack(check.VERSION, check.ECHO_REQUEST, _HEADER.size, xid)


def broken(message: bytes) -> bytes:
    """Encode the error that reports a broken message of the switch."""
    return _error(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_LEN, message[:ERROR_DATA_BYTES], message)


def incompatible(hello: bytes, text: str) -> bytes:
    """Encode the error that reports that the switch offers no version that is spoken here."""
    return _error(ofp.OFPET_HELLO_FAILED, ofp.OFPHFC_INCOMPATIBLE, text.encode(), hello)


def versions(offered: Collection[int]) -> str:
    """Format the eight lowest versions for people: ``1.0, 1.3``."""
    return ", ".join(map(_version, sorted(offered)[:8])) or "of no version"


def _version(number: int) -> str:
    return f"1.{number - 1}" if 0 < number < 7 else f"version {number}"


def _error(kind: int, code: int, data: bytes, answers: bytes) -> bytes:
    """Encode an error (section 7.4.4) that answers a message, which may be shorter than its header."""
    xid = check.header(answers).xid if len(answers) >= check.HEADER_SIZE else 0
    return _ERROR.pack(check.VERSION, check.ERROR, _ERROR.size + len(data), xid, kind, code) + data
