"""Rules and groups as the bytes of OpenFlow 1.3 messages, without Ryu's objects.

A controller that fills a large fabric writes millions of rules, most of which many switches have in common. What a
message says of a rule is therefore encoded once and kept (``Encoder``); each message adds its transaction id. The bytes
are those that Ryu writes for the same rule. Section numbers are those of OpenFlow 1.3.5.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple

from controller.southbound.rules.rule import (
    COOKIE_MASK,
    COOKIE_PREFIX,
    ETH_MPLS,
    Action,
    Bucket,
    Bundle,
    Group,
    Match,
    MatchValue,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToController,
    ToGroup,
)

VERSION, FLOW_MOD, GROUP_MOD = 4, 14, 15
ADD, DELETE_STRICT = 0, 4
GROUP_ADD, GROUP_MODIFY, GROUP_DELETE = 0, 1, 2
ANY = 0xFFFFFFFF
"""OFPP_ANY, OFPG_ANY and OFP_NO_BUFFER."""
CONTROLLER = 0xFFFFFFFD
CML_MAX = 0xFFE5
FULL_MASK = 0xFFFFFFFFFFFFFFFF
KINDS = {"select": 1, "failover": 3}
ALL_GROUPS = 0

LABEL_FIELD, DSCP_FIELD, TRAFFIC_CLASS_FIELD, ETH_DST_FIELD = 0x80004404, 0x80001001, 0x80004601, 0x80000606
"""Headers of the match fields ``mpls_label``, ``ip_dscp``, ``mpls_tc`` and ``eth_dst``."""

_HEAD = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
_MATCH = struct.Struct("!HH")
_OUTPUT = struct.Struct("!HHIH6x")
_GROUP_ACTION = struct.Struct("!HHI")
_TYPE_ACTION = struct.Struct("!HHH2x")
_SET_LABEL = struct.Struct("!HHII4x")
_SET_OCTET = struct.Struct("!HHIB7x")
_SET_MAC = struct.Struct("!HHI6s2x")
_MOVE = struct.Struct("!HHIHHHHII")
_LOAD = struct.Struct("!HHIHHIQ")
_RESUBMIT = struct.Struct("!HHIHHB3x")
_BUNDLE = struct.Struct("!HHIHHHHIHHI4x")
_INSTRUCTIONS = struct.Struct("!HH4x")
_GOTO = struct.Struct("!HHB3x")
_METER = struct.Struct("!HHI")
_METADATA = struct.Struct("!HH4xQQ")
_GROUP_MOD = struct.Struct("!HBxI")
_BUCKET = struct.Struct("!HHII4x")

NICIRA = 0x2320
BUNDLE_SUBTYPE, HIGHEST_RANDOM_WEIGHT, SYMMETRIC_L3L4_UDP, IN_PORT_16 = 12, 1, 3, 2
"""Of the action ``bundle`` (Open vSwitch, nicira-ext.h)."""
MOVE_SUBTYPE, LOAD_SUBTYPE, RESUBMIT_SUBTYPE = 6, 7, 14
"""Of the actions that move bits between fields, load bits into a field, and look a packet up again."""
IN_PORT_OF_PACKET, NO_PORT = 0xFFF8, 0
NX_IPV6_DST, NX_IN_PORT = 0x00012810, 0x00000002
"""Headers of fields in these actions, as Open vSwitch itself writes them: IPv6's destination, and the port of entry."""
ID_BITS, IPV6_BITS = 16, 128


BASIC_CLASS = b"\x80\x00"


class MatchField(NamedTuple):
    """A match field of the basic class: its number (section 7.2.3.7), bytes of its value, and the value's kind."""

    number: int
    size: int
    kind: str = "number"


FIELDS = {
    "in_port": MatchField(0, 4),
    "metadata": MatchField(2, 8),
    "eth_dst": MatchField(3, 6, "mac"),
    "eth_src": MatchField(4, 6, "mac"),
    "eth_type": MatchField(5, 2),
    "ip_proto": MatchField(10, 1),
    "ipv4_src": MatchField(11, 4, "ipv4"),
    "ipv4_dst": MatchField(12, 4, "ipv4"),
    "tcp_src": MatchField(13, 2),
    "tcp_dst": MatchField(14, 2),
    "udp_src": MatchField(15, 2),
    "udp_dst": MatchField(16, 2),
    "arp_op": MatchField(21, 2),
    "arp_spa": MatchField(22, 4, "ipv4"),
    "arp_tpa": MatchField(23, 4, "ipv4"),
    "arp_sha": MatchField(24, 6, "mac"),
    "arp_tha": MatchField(25, 6, "mac"),
    "ipv6_dst": MatchField(27, 16, "ipv6"),
    "mpls_label": MatchField(34, 4),
    "mpls_bos": MatchField(36, 1),
}


AS_READ = "field "
"""Begins the name of a match field that is not in ``FIELDS`` (``rule_reading``). Class, number and mask bit follow, in
hexadecimal; its value is in hexadecimal, too. Others may put such rules under our cookie, which have to be removed."""


class UnknownFormError(ValueError):
    """A rule with a field or an action that is not encoded here."""


def value_bytes(field: MatchField, value: int | str) -> bytes:
    """Return one value of a match field."""
    if field.kind == "number":
        return int(value).to_bytes(field.size, "big")
    if field.kind == "ipv6":
        return IPv6Address(value).packed
    return IPv4Address(value).packed if field.kind == "ipv4" else bytes.fromhex(str(value).replace(":", ""))


@lru_cache(maxsize=64 * 1024)
def field_bytes(name: str, value: MatchValue) -> bytes:
    """Return one match field with its header (section 7.2.3.2).

    Raises:
        UnknownFormError: the field is not in ``FIELDS``, and was not read from a switch.
    """
    field = FIELDS.get(name)
    if field is None and name.startswith(AS_READ):
        read = bytes.fromhex(str(value))
        return bytes.fromhex(name.removeprefix(AS_READ)) + bytes((len(read),)) + read
    if field is None:
        raise UnknownFormError(f"match field {name}")
    values = value if isinstance(value, tuple) else (value,)
    body = b"".join(value_bytes(field, each) for each in values)
    return struct.pack("!HBB", 0x8000, field.number << 1 | (len(values) > 1), len(body)) + body


def match_bytes(match: Match) -> bytes:
    """Return a match, its fields ascending by number, padded to 8 bytes (section 7.2.3)."""
    fields = sorted((field_bytes(*each) for each in match), key=_number)
    body = b"".join(fields)
    size = _MATCH.size + len(body)
    return _MATCH.pack(1, size) + body + bytes(-size % 8)


def _number(field: bytes) -> tuple[bool, int]:
    return field[:2] != BASIC_CLASS, field[2] >> 1


def action_bytes(action: Action) -> bytes:
    """Return one action (section 7.2.5).

    Raises:
        UnknownFormError: it is none of those of ``rules.py``.
    """
    if isinstance(action, Output):
        return _OUTPUT.pack(0, 16, action.port, CML_MAX)
    if isinstance(action, ToGroup):
        return _GROUP_ACTION.pack(22, 8, action.group)
    if isinstance(action, ToController):
        return _OUTPUT.pack(0, 16, CONTROLLER, action.max_len)
    if isinstance(action, PopMpls):
        return _TYPE_ACTION.pack(20, 8, action.eth_type)
    if isinstance(action, PushMpls):
        return _TYPE_ACTION.pack(19, 8, ETH_MPLS) + _SET_LABEL.pack(25, 16, LABEL_FIELD, action.label)
    if isinstance(action, SetDscp):
        return _SET_OCTET.pack(25, _SET_OCTET.size, DSCP_FIELD, action.code_point)
    if isinstance(action, SetTrafficClass):
        return _SET_OCTET.pack(25, _SET_OCTET.size, TRAFFIC_CLASS_FIELD, action.number)
    if isinstance(action, SetEthDst):
        mac = bytes.fromhex(action.mac.replace(":", ""))
        return _SET_MAC.pack(25, _SET_MAC.size, ETH_DST_FIELD, mac)
    if isinstance(action, ShiftIds):
        moved = IPV6_BITS - action.block_bits - ID_BITS
        return move_bytes(moved) + load_bytes(ID_BITS, NX_IPV6_DST) + load_bytes(ID_BITS, NX_IN_PORT)
    if isinstance(action, Resubmit):
        return _RESUBMIT.pack(0xFFFF, _RESUBMIT.size, NICIRA, RESUBMIT_SUBTYPE, IN_PORT_OF_PACKET, action.table)
    if isinstance(action, Bundle):
        ports = struct.pack(f"!{len(action.ports)}H", *action.ports)
        pad = -len(ports) % 8
        head = _BUNDLE.pack(
            0xFFFF,
            _BUNDLE.size + len(ports) + pad,
            NICIRA,
            BUNDLE_SUBTYPE,
            HIGHEST_RANDOM_WEIGHT,
            SYMMETRIC_L3L4_UDP,
            0,
            IN_PORT_16,
            len(action.ports),
            0,
            0,
        )
        return head + ports + bytes(pad)
    raise UnknownFormError(f"action {action!r}")


def move_bytes(bits: int) -> bytes:
    """Return the action that moves the lowest bits of IPv6's destination up by the bits of an id."""
    head = (0xFFFF, _MOVE.size, NICIRA, MOVE_SUBTYPE)
    return _MOVE.pack(*head, bits, 0, ID_BITS, NX_IPV6_DST, NX_IPV6_DST)


def load_bytes(bits: int, field: int) -> bytes:
    """Return the action that loads zeros into the lowest bits of a field."""
    return _LOAD.pack(0xFFFF, _LOAD.size, NICIRA, LOAD_SUBTYPE, bits - 1, field, 0)


def instruction_bytes(rule: Rule) -> bytes:
    """Return the instructions of a rule (section 7.2.4)."""
    # A meter comes before all other instructions (section 5.9).
    encoded = b"" if rule.meter is None else _METER.pack(6, _METER.size, rule.meter)
    if rule.actions:
        actions = b"".join(map(action_bytes, rule.actions))
        encoded += _INSTRUCTIONS.pack(4, _INSTRUCTIONS.size + len(actions)) + actions
    if rule.metadata is not None:
        encoded += _METADATA.pack(2, _METADATA.size, rule.metadata, FULL_MASK)
    if rule.goto is not None:
        encoded += _GOTO.pack(1, _GOTO.size, rule.goto)
    return encoded


def bucket_bytes(bucket: Bucket, kind: str) -> bytes:
    """Return one bucket of a group (section 7.3.4.2)."""
    actions = b"".join(map(action_bytes, bucket.actions))
    ports = (ANY if watched is None else watched for watched in (bucket.watch_port, bucket.watch_group))
    return _BUCKET.pack(_BUCKET.size + len(actions), int(kind == "select"), *ports) + actions


class Template(NamedTuple):
    """A message without its transaction id: the bytes before it (4) and after it."""

    head: bytes
    rest: bytes

    def message(self, xid: int) -> bytes:
        """Return the whole message."""
        return self.head + xid.to_bytes(4, "big") + self.rest


def template(kind: int, body: bytes) -> Template:
    """Return a message of a type (``OFPT_*``)."""
    return Template(_HEAD.pack(VERSION, kind, _HEAD.size + len(body), 0)[:4], body)


def put_rule(rule: Rule, epoch: int) -> Template:
    """Return the message that adds a rule, or replaces the one with the same table, priority and match."""
    head = _FLOW_MOD.pack(COOKIE_PREFIX << 48 | epoch, 0, rule.table, ADD, 0, 0, rule.priority, ANY, 0, 0, 0)
    return template(FLOW_MOD, head + match_bytes(rule.match) + instruction_bytes(rule))


def put_passing_rule(rule: Rule, cookie: int, *, idle: int = 0, hard: int = 0) -> Template:
    """Return the message that adds a rule with this cookie, which the switch removes by itself after a time.

    Args:
        rule: the rule.
        cookie: all of it.
        idle: seconds without a packet, 0: they do not matter.
        hard: seconds, whatever it forwards, 0: they do not matter.
    """
    head = _FLOW_MOD.pack(cookie, 0, rule.table, ADD, idle, hard, rule.priority, ANY, 0, 0, 0)
    return template(FLOW_MOD, head + match_bytes(rule.match) + instruction_bytes(rule))


def remove_rule(rule: Rule) -> Template:
    """Return the message that removes exactly this rule, if it is ours."""
    head = _FLOW_MOD.pack(
        COOKIE_PREFIX << 48, COOKIE_MASK, rule.table, DELETE_STRICT, 0, 0, rule.priority, ANY, ANY, ANY, 0
    )
    return template(FLOW_MOD, head + match_bytes(rule.match))


def put_group(group: Group, *, replaces: bool = False) -> Template:
    """Return the message that makes a group, or (``replaces``) gives the one that has its id this content."""
    if group.kind not in KINDS:
        raise UnknownFormError(f"group of kind {group.kind}")
    buckets = b"".join(bucket_bytes(bucket, group.kind) for bucket in group.buckets)
    command = GROUP_MODIFY if replaces else GROUP_ADD
    return template(GROUP_MOD, _GROUP_MOD.pack(command, KINDS[group.kind], group.id) + buckets)


def remove_group(group: Group) -> Template:
    """Return the message that removes a group."""
    return template(GROUP_MOD, _GROUP_MOD.pack(GROUP_DELETE, KINDS.get(group.kind, ALL_GROUPS), group.id))


KEPT = 100_000
"""Rules whose bytes are kept; beyond, all are forgotten and encoded again."""


class Encoder:
    """Encodes rules and remembers their bytes by object: compilers hand out one object for a rule of many switches."""

    def __init__(self) -> None:
        """Begin with empty caches."""
        # One value, replaced as a whole: several threads may encode for different epochs.
        self._kept: tuple[int, dict[int, tuple[Rule, Template]]] = (-1, {})

    def known(self, epoch: int) -> Mapping[int, tuple[Rule, Template]]:
        """Return what ``put`` has returned for an epoch, by the ``id`` of the rule; for the newest epoch alone."""
        newest, known = self._kept
        return known if epoch == newest else {}

    def put(self, rule: Rule, epoch: int) -> Template:
        """Return the message that adds a rule, or replaces the one with the same table, priority and match.

        Raises:
            UnknownFormError: it has a field or an action that is not encoded here.
        """
        newest, known = self._kept
        if epoch != newest or len(known) >= KEPT:
            known = {}
            self._kept = epoch, known
        kept = known.get(id(rule))
        if kept is not None:
            return kept[1]
        # With the rule itself, so that no other object gets its id.
        encoded = put_rule(rule, epoch)
        known[id(rule)] = rule, encoded
        return encoded
