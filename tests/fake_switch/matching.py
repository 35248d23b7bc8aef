"""Matches as values and masks of bits, by which flow-mods find entries, tell them apart and see overlaps.

(Whether a *packet* matches is the interpreter's business: controller/southbound/rules/interpreter.py.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.rules.rule import Match, MatchValue
from tests.fake_switch.refusal import bad_prerequisite

Bits = tuple[int, int]
"""Value and mask; no bit of the value lies outside the mask."""

Fields = Mapping[str, Bits]

ETH_TYPES = {
    "ipv4_src": (0x0800,),
    "ipv4_dst": (0x0800,),
    "ip_proto": (0x0800, 0x86DD),
    "arp_op": (0x0806,),
    "arp_spa": (0x0806,),
    "arp_tpa": (0x0806,),
    "arp_sha": (0x0806,),
    "arp_tha": (0x0806,),
    "mpls_label": (0x8847, 0x8848),
    "mpls_tc": (0x8847, 0x8848),
    "mpls_bos": (0x8847, 0x8848),
}
IP_PROTOS = {"udp_src": 17, "udp_dst": 17, "tcp_src": 6, "tcp_dst": 6}


def bits_of(match: Iterable[tuple[str, MatchValue]]) -> dict[str, Bits]:
    """Return the bits of each field that is not a complete wildcard.

    Raises:
        Refused: a field without the fields that it depends on (OpenFlow 1.3.5, section 7.2.3.6).
    """
    fields = {}
    for name, value in match:
        bits = _bits(name, value)
        if bits[1]:
            fields[name] = bits
    eth_type, proto = fields.get("eth_type"), fields.get("ip_proto")
    for name in fields:
        if name in ETH_TYPES and (eth_type is None or eth_type[0] not in ETH_TYPES[name]):
            raise bad_prerequisite()
        if name in IP_PROTOS and (proto is None or proto[0] != IP_PROTOS[name]):
            raise bad_prerequisite()
    return fields


def match_of(fields: Fields) -> Match:
    """Return the match with these bits, without masks that are all ones."""
    return tuple(sorted((name, _user(name, bits)) for name, bits in fields.items()))


def covers(wide: Fields, narrow: Fields) -> bool:
    """Whether every packet of ``narrow`` is one of ``wide``, field by field (section 6.4: non-strict commands)."""
    for name, (value, mask) in wide.items():
        if name not in narrow:
            return False
        other, other_mask = narrow[name]
        if mask & ~other_mask or (value ^ other) & mask:
            return False
    return True


def overlap(a: Fields, b: Fields) -> bool:
    """Whether some packet could match both."""
    return all((a[name][0] ^ b[name][0]) & a[name][1] & b[name][1] == 0 for name in a.keys() & b.keys())


@lru_cache(maxsize=100_000)
def _bits(name: str, value: MatchValue) -> Bits:
    _, wanted, mask = ofp.oxm_from_user(name, value)
    full = _all_ones(name)
    mask_bits = full if mask is None else int.from_bytes(mask, "big") & full
    return int.from_bytes(wanted, "big") & mask_bits, mask_bits


@lru_cache(maxsize=100_000)
def _user(name: str, bits: Bits) -> MatchValue:
    number, wanted, _ = ofp.oxm_from_user(name, _TEXT.get(name, 0))
    value, mask = (part.to_bytes(len(wanted), "big") for part in bits)
    user: MatchValue = ofp.oxm_to_user(number, value, None if bits[1] == _all_ones(name) else mask)[1]
    return user


@lru_cache(maxsize=100)
def _all_ones(name: str) -> int:
    """Return the mask of a field without any wildcard bit, no wider than the field."""
    if name in _WIDTHS:
        return (1 << _WIDTHS[name]) - 1
    _, wanted, _ = ofp.oxm_from_user(name, _TEXT.get(name, 0))
    return (1 << 8 * len(wanted)) - 1


_WIDTHS = {"mpls_label": 20, "mpls_bos": 1, "mpls_tc": 3, "vlan_vid": 13}
_TEXT = {
    **dict.fromkeys(("ipv4_src", "ipv4_dst", "arp_spa", "arp_tpa"), "0.0.0.0"),
    **dict.fromkeys(("eth_src", "eth_dst", "arp_sha", "arp_tha"), "00:00:00:00:00:00"),
}
"""A value of those fields whose values are no numbers."""
