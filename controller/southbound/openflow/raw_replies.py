"""Statistics replies that are taken as the bytes they came in, before Ryu makes objects of them.

Ryu parses every message on the event loop, entry by entry in Python: the counters of 10,000 rules would hold it for
seconds (docs/telemetry.md has figures). Who asks for counters takes the parts of the reply here and decodes them
elsewhere (``controller.telemetry.decoding``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ryu.ofproto import ofproto_parser
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

Take = Callable[[bytes, bool], None]
"""Called with one part of a reply (a whole message), and whether more follow."""

FORGOTTEN = 64
"""Requests of a connection whose late replies are still thrown away unread."""

_FLAGS_AT = 10
"""Offset of a multipart reply's flags (OpenFlow 1.3.5, section 7.3.5)."""


class _Asked:
    """What one connection has asked for, by transaction id."""

    def __init__(self) -> None:
        self.taken_by: dict[int, Take] = {}
        self.late: deque[int] = deque(maxlen=FORGOTTEN)


_asked: WeakKeyDictionary[Any, _Asked] = WeakKeyDictionary()


def take(datapath: Any, xid: int, taken_by: Take) -> None:
    """Have the parts of a reply given to ``taken_by``, until ``leave``."""
    _asked.setdefault(datapath, _Asked()).taken_by[xid] = taken_by


def leave(datapath: Any, xid: int) -> None:
    """Nobody waits for that reply any more; what still comes of it is dropped, unread."""
    asked = _asked.setdefault(datapath, _Asked())
    if asked.taken_by.pop(xid, None) is not None:
        asked.late.append(xid)


@ofproto_parser.register_msg_parser(ofp.OFP_VERSION)
def parse(datapath: Any, version: int, msg_type: int, msg_len: int, xid: int, data: Any) -> Any:
    """Called by Ryu with each OpenFlow 1.3 message in place of its own parser; ``None``: it is dealt with."""
    if msg_type == ofp.OFPT_MULTIPART_REPLY and (asked := _asked.get(datapath)) is not None:
        taken_by = asked.taken_by.get(xid)
        if taken_by is not None:
            more = bool(int.from_bytes(data[_FLAGS_AT : _FLAGS_AT + 2], "big") & ofp.OFPMPF_REPLY_MORE)
            taken_by(bytes(data[:msg_len]), more)
            return None
        if xid in asked.late:
            return None
    return parser.msg_parser(datapath, version, msg_type, msg_len, xid, data)
