"""Packet sequence numbers: 24 bits on the wire, unbounded integers inside.

Inside, packets are counted from the first one of a queue pair, so nothing ever wraps. On the wire only the low
24 bits travel (InfiniBand Architecture, volume 1, 9.7.1). A number is unambiguous as long as it is within half the
space of one that both ends know, which is why a window must stay below 2^23 packets.
"""

from __future__ import annotations

PSN_MODULUS = 1 << 24
PSN_MASK = PSN_MODULUS - 1
MAX_WINDOW = 1 << 23


def psn_offset(psn: int, reference: int) -> int:
    """Return the distance of ``psn`` ahead of ``reference`` (both 24-bit): -2^23 to 2^23 - 1."""
    return ((psn - reference + MAX_WINDOW) & PSN_MASK) - MAX_WINDOW
