"""Replies taken as raw bytes, before Ryu makes objects of them, and the replies that are expected.

Ryu parses every message on the event loop, entry by entry in Python: the counters of 10,000 rules would hold it for
seconds (docs/reference/telemetry.md has figures), and a switch that answers without end would fill the memory with
objects, 33 bytes for each byte that it sends. So all multipart replies are taken here; replies without a request are
dropped unread. The bytes of replies are bounded, per switch and in all.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ryu.lib import hub
from ryu.ofproto import ofproto_v1_3 as ofp

Take = Callable[[bytes, bool], None]
"""Called with one part of a reply (a whole message), and whether more follow."""

MOST_BYTES = 256 << 20
"""Of the replies to one connection's outstanding requests: more than a million rules of planned flows."""

STRANGER_BYTES = 4 << 20
"""The same for a switch that is not part of the intended fabric: some 30,000 rules of planned flows, to be removed."""

MOST_BYTES_IN_ALL = 768 << 20
"""The same of all connections together."""

PART_BYTES = 128
"""Memory of a part besides its bytes, so that many small parts are counted fully."""

LARGE = 32 << 20
"""Size of a reply in bytes after which free memory is returned to the system, which the C library does not do."""

TRIM_SECONDS = 2.0

_FLAGS_AT = 10
"""Offset of a multipart reply's flags (OpenFlow 1.3.5, section 7.3.5)."""


class TooMuchError(Exception):
    """A reply is longer than any that makes sense. The text gives its length, for people."""


class _Request:
    def __init__(self, taken_by: Take) -> None:
        self.taken_by, self.bytes = taken_by, 0


class _Asked:
    """The open requests of one connection, by transaction id."""

    def __init__(self) -> None:
        self.requests: dict[int, _Request] = {}
        self.bytes = 0
        self.answers: Callable[[int], bool] | None = None


_asked: WeakKeyDictionary[Any, _Asked] = WeakKeyDictionary()
_bytes_in_all = 0


def take(datapath: Any, xid: int, taken_by: Take) -> None:
    """Have the parts of a reply given to ``taken_by``, until ``leave``."""
    _asked.setdefault(datapath, _Asked()).requests[xid] = _Request(taken_by)


def leave(datapath: Any, xid: int) -> None:
    """Stop waiting for a reply; further parts of it are dropped unread."""
    global _bytes_in_all
    asked = _asked.get(datapath)
    request = None if asked is None else asked.requests.pop(xid, None)
    if asked is not None and request is not None:
        asked.bytes -= request.bytes
        _bytes_in_all -= request.bytes
        if request.bytes > LARGE:
            hub.spawn_after(TRIM_SECONDS, _trim)


def expect(datapath: Any, answers: Callable[[int], bool]) -> None:
    """Set the function that returns whether an error or a barrier reply with a transaction id is waited for."""
    _asked.setdefault(datapath, _Asked()).answers = answers


def expected(datapath: Any, xid: int) -> bool:
    """Return whether an error or a barrier reply with this transaction id is waited for."""
    asked = _asked.get(datapath)
    return asked is not None and asked.answers is not None and asked.answers(xid)


def _trim() -> None:
    with contextlib.suppress(AttributeError):  # there is none but in the GNU C library
        ctypes.CDLL(None).malloc_trim(0)


def receive(datapath: Any, xid: int, message: bytes) -> bool:
    """Pass one multipart reply to its request; return whether there is one.

    Raises:
        TooMuchError: all parts together are more than they may be.
    """
    global _bytes_in_all
    asked = _asked.get(datapath)
    request = None if asked is None else asked.requests.get(xid)
    if asked is None or request is None:
        return False
    size = len(message) + PART_BYTES
    request.bytes += size
    asked.bytes += size
    _bytes_in_all += size
    most = MOST_BYTES if datapath.intended else STRANGER_BYTES
    if asked.bytes > most:
        raise TooMuchError(f"its replies are longer than {most >> 20} MiB")
    if _bytes_in_all > MOST_BYTES_IN_ALL and asked.bytes == max(each.bytes for each in _asked.values()):
        raise TooMuchError(
            f"the replies of all switches together are longer than {MOST_BYTES_IN_ALL >> 20} MiB, and those of this "
            "switch are "
            f"the longest ({asked.bytes >> 20} MiB)"
        )
    more = bool(int.from_bytes(message[_FLAGS_AT : _FLAGS_AT + 2], "big") & ofp.OFPMPF_REPLY_MORE)
    request.taken_by(message, more)
    return True
