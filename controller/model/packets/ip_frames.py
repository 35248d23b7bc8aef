"""Where the IPv4 header of a frame begins, behind Ethernet, VLAN tags (IEEE 802.1Q) and MPLS labels (RFC 3032)."""

from __future__ import annotations

_VLAN_TAGS = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_MPLS, _IPV4 = b"\x88\x47", b"\x08\x00"
_MOST_LABELS = 8


def ipv4_at(frame: bytes, least: int) -> int | None:
    """Return where the IPv4 header of a packet begins that is no later fragment.

    Args:
        frame: the first bytes of a frame.
        least: so many bytes from there on must be in them.

    Returns:
        ``None``: it is something else, or has IP options, which fabrics do not send. IPv6 is not learned.
    """
    at = 12
    while frame[at : at + 2] in _VLAN_TAGS and at < 20:
        at += 4
    kind = frame[at : at + 2]
    at += 2
    if kind == _MPLS:
        for _ in range(_MOST_LABELS):
            bottom = frame[at + 2 : at + 3]
            at += 4
            if not bottom or bottom[0] & 1:
                break
    elif kind != _IPV4:
        return None
    if len(frame) < at + least or frame[at] != 0x45 or frame[at + 6] & 0x3F or frame[at + 7]:
        return None
    return at
