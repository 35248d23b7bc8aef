"""Flow statistics and group descriptions, as the bytes of OpenFlow 1.3 replies, to rules and groups.

It reads what ``rule_bytes`` writes, with the same result as Ryu's parser where the rules are ours. Rules that many
switches have in common are decoded once: the bytes are the key of what was read before. Pure, and may run off the event
loop. Bytes that are no such reply, or are cut, raise ``ValueError``: a switch may send anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from operator import itemgetter
from typing import Any

from controller.southbound.rules.rule import (
    ETH_MPLS,
    GROUP_BASE,
    GROUP_MASK,
    Bucket,
    Bundle,
    Group,
    MatchValue,
    Output,
    PopMpls,
    PushMpls,
    Resubmit,
    Rule,
    RuleKey,
    SetDscp,
    SetEthDst,
    SetTrafficClass,
    ShiftIds,
    ToController,
    ToGroup,
)
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.entry_hashes import UNKNOWN, EntryHashes, are_equal, of_part
from controller.southbound.wire.rule_bytes import (
    AS_READ,
    BASIC_CLASS,
    BUNDLE_SUBTYPE,
    CONTROLLER,
    DSCP_FIELD,
    ETH_DST_FIELD,
    FIELDS,
    ID_BITS,
    IN_PORT_OF_PACKET,
    IPV6_BITS,
    NICIRA,
    RESUBMIT_SUBTYPE,
    TRAFFIC_CLASS_FIELD,
    action_bytes,
)

MULTIPART_REPLY, FLOW_STATS, GROUP_DESC = 19, 1, 7
KEPT, KEPT_BYTES = 200_000, 512
"""Entries that are remembered, and the bytes of one; beyond, all are forgotten and read again."""

MOST_RULES = 1_000_000
"""Of one switch: the objects that they become are several times as large as their bytes."""

_RESUBMIT_HEAD = struct.pack("!IHH", NICIRA, RESUBMIT_SUBTYPE, IN_PORT_OF_PACKET)

SET_FIELD_BODY = 12
"""Bytes of an action that sets a field of up to four bytes, behind its type and length."""

ANY = 0xFFFFFFFF
KINDS = {1: "select", 3: "failover"}

_HEADER = struct.Struct("!BBHIHH4x")
_FLOW_MATCH = 48
_FLOW = struct.Struct("!HBx8xH")
_PAIR = struct.Struct("!HH")
_GROUP = struct.Struct("!HBxI")
_BUCKET = struct.Struct("!HxxII4x")
_NAMES = {field.number: (name, field) for name, field in FIELDS.items()}
_MULTI_BYTE_CUT = "an entry of a statistics reply is truncated"


class RuleReader:
    """Decodes replies; remembers the decoded entries.

    Rules come and go for as long as a controller runs, so whoever keeps a reader calls ``age`` now and then.
    """

    def __init__(self) -> None:
        """Begin with empty caches."""
        # Those read since the last call of ``age``, and those before that were not.
        self._rules: dict[bytes, tuple[RuleKey, Rule]] = {}
        self._earlier: dict[bytes, tuple[RuleKey, Rule]] = {}
        self._fields: dict[bytes, tuple[str, MatchValue]] = {}
        self._hashes = EntryHashes()

    def age(self) -> None:
        """Forget what was not read since the last call; another thread may be reading meanwhile."""
        # Both are replaced, not changed: a reading that is under way goes on with the earlier ones.
        self._earlier, self._rules = self._rules, {}
        self._fields = {}

    def rules_like(self, parts: Sequence[bytes], likely: SwitchRules) -> Mapping[RuleKey, Rule]:
        """Return what ``rules`` returns, sooner if most of it is ``likely``: such rules are not decoded.

        It is the mapping of ``likely`` itself where the switch holds exactly these rules.

        Raises:
            ValueError: as ``rules``.
        """
        try:
            read = [of_part(part) for part in parts]
        except ValueError:
            return self.rules(parts)
        expected = self._hashes.of_rules(likely.rules.values())
        check_number(sum(len(hashes) for hashes, _, _ in read))
        for part in parts:
            check_kind(part, FLOW_STATS)
        if are_equal([hashes for hashes, _, _ in read], expected):
            return likely.rules
        known = dict(zip(expected.tolist(), likely.rules.items(), strict=True))
        known.pop(UNKNOWN, None)
        rules = {}
        for part, columns in zip(parts, read, strict=True):
            for hashed, at, end in zip(*(column.tolist() for column in columns), strict=True):
                key, rule = known.get(hashed) or self._pair(part, at, end)
                rules[key] = rule
        return rules

    def rules(self, parts: Iterable[bytes]) -> dict[RuleKey, Rule]:
        """Return the rules of a reply to a request for flow statistics, given as whole messages.

        A rule in a form that the controller never writes comes back with actions that equal none of its own.

        Raises:
            ValueError: it is none, or cut.
        """
        rules = {}
        for part in parts:
            for at, end in entries(part, FLOW_STATS, _FLOW_MATCH + 8):
                key, rule = self._pair(part, at, end)
                rules[key] = rule
            check_number(len(rules))
        return rules

    def rule(self, part: bytes, at: int, end: int) -> Rule:
        """Return the rule of one entry of such a reply.

        Raises:
            ValueError: it is cut.
        """
        return self._pair(part, at, end)[1]

    def _pair(self, part: bytes, at: int, end: int) -> tuple[RuleKey, Rule]:
        # Table, priority, match and instructions; durations, counters and cookie are left out.
        name = part[at + 2 : at + 3] + part[at + 12 : at + 14] + part[at + _FLOW_MATCH : end]
        return self._rules.get(name) or self._known_before(name) or self._remember(name, part, at, end)

    def _known_before(self, name: bytes) -> tuple[RuleKey, Rule] | None:
        pair = self._earlier.get(name)
        if pair is not None:
            self._rules[name] = pair
        return pair

    def groups(self, parts: Iterable[bytes]) -> dict[int, Group]:
        """Return the groups of ours of a reply to a request for group descriptions.

        Raises:
            ValueError: it is none, or cut.
        """
        groups = {}
        for part in parts:
            for at, end in entries(part, GROUP_DESC, _GROUP.size):
                _, kind, number = _GROUP.unpack_from(part, at)
                if number & GROUP_MASK == GROUP_BASE:
                    buckets = tuple(_buckets(part[at + _GROUP.size : end]))
                    groups[number] = Group(number, KINDS.get(kind, str(kind)), buckets)
        return groups

    def _remember(self, name: bytes, part: bytes, at: int, end: int) -> tuple[RuleKey, Rule]:
        if len(self._rules) >= KEPT:
            self._rules.clear()
            self._fields.clear()
        _, table, priority = _FLOW.unpack_from(part, at)
        kind, length = _PAIR.unpack_from(part, at + _FLOW_MATCH)
        after = at + _FLOW_MATCH + (length + 7) // 8 * 8
        if kind != 1 or length < _PAIR.size or after > end:
            raise ValueError("the match of a rule is truncated")
        match = self._match(part[at + _FLOW_MATCH + _PAIR.size : at + _FLOW_MATCH + length])
        rule = Rule(table, priority, match, *_instructions(part[after:end]))
        pair = rule.key, rule
        if len(name) <= KEPT_BYTES:
            self._rules[name] = pair
        return pair

    def _match(self, fields: bytes) -> tuple[tuple[str, MatchValue], ...]:
        match, at, known = [], 0, self._fields
        while at < len(fields):
            end = at + 4 + fields[at + 3] if at + 4 <= len(fields) else len(fields) + 1
            if end > len(fields):
                raise ValueError("the match of a rule is truncated")
            written = fields[at:end]
            if len(known) >= KEPT:
                known.clear()
            if written not in known:
                known[written] = _field(written)
            match.append(known[written])
            at = end
        # By names alone: a switch may name a field twice, with values that have no order.
        return tuple(sorted(match, key=itemgetter(0)))


def check_number(rules: int) -> None:
    """Raise ``ValueError`` where a switch reports more rules than ``MOST_RULES``."""
    if rules > MOST_RULES:
        raise ValueError(f"it reports more than {MOST_RULES} rules")


def check_kind(part: bytes, kind: int) -> None:
    """Raise ``ValueError`` where a message is no statistics reply of a kind."""
    if len(part) < _HEADER.size:
        raise ValueError("a statistics reply is truncated")
    _, message, length, _, multipart, _ = _HEADER.unpack_from(part)
    if message != MULTIPART_REPLY or multipart != kind or length != len(part):
        raise ValueError(f"statistics of kind {multipart} instead of {kind}")


def entries(part: bytes, kind: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each entry of one part of a statistics reply.

    Raises:
        ValueError: it is of another kind, or an entry has an impossible length.
    """
    check_kind(part, kind)
    at, whole = _HEADER.size, len(part)
    while at < whole:
        if at + least > whole:
            raise ValueError(_MULTI_BYTE_CUT)
        end = at + (part[at] << 8 | part[at + 1])
        if end < at + least or end > whole:
            raise ValueError(f"the entry at byte {at} of a statistics reply has the impossible length {end - at}")
        yield at, end
        at = end


def _field(written: bytes) -> tuple[str, MatchValue]:
    """Return one match field; one that the controller never writes as a name with its bytes."""
    known = _NAMES.get(written[2] >> 1) if written[:2] == BASIC_CLASS else None
    masked = written[2] & 1
    if known is None or len(written) - 4 != known[1].size * (1 + masked):
        return AS_READ + written[:3].hex(), written[4:].hex()
    name, field = known
    values = tuple(_value(field.kind, written[at : at + field.size]) for at in range(4, len(written), field.size))
    return (name, values) if masked else (name, values[0])  # type: ignore[return-value]


def _value(kind: str, data: bytes) -> int | str:
    if kind == "number":
        return int.from_bytes(data, "big")
    if kind == "ipv6":
        return str(IPv6Address(data))
    return str(IPv4Address(data)) if kind == "ipv4" else ":".join(f"{octet:02x}" for octet in data)


def _instructions(data: bytes) -> tuple[tuple[Any, ...], int | None, int | None, int | None]:
    """Return actions, table, metadata and meter; an instruction that the controller never writes is an action here."""
    actions: tuple[Any, ...] = ()
    goto = metadata = meter = None
    others: list[Any] = []
    for kind, body in _tlvs(data, 8):
        if kind == 4:
            actions = _actions(body[4:])
        elif kind == 2:
            value, mask = struct.unpack_from("!QQ", body, 4) if len(body) >= 20 else (None, None)
            metadata = value
            if mask != 0xFFFFFFFFFFFFFFFF:
                others.append(f"metadata {body.hex()}")
        elif kind == 1:
            goto = body[0]
        elif kind == 6:
            meter = int.from_bytes(body[:4], "big")
        else:
            others.append(f"instruction {kind} {body.hex()}")
    return (*actions, *others), goto, metadata, meter


def _tlvs(data: bytes, least: int) -> Iterator[tuple[int, bytes]]:
    """Yield the type and the rest of each instruction or action."""
    at = 0
    while at < len(data):
        kind, length = _PAIR.unpack_from(data, at) if at + least <= len(data) else (0, 0)
        if length < least or at + length > len(data):
            raise ValueError("an instruction or action of a rule is truncated")
        yield kind, data[at + _PAIR.size : at + length]
        at += length


def _actions(data: bytes) -> tuple[Any, ...]:
    """Return actions; an MPLS header together with the label that is set on it next, and those of ``ShiftIds``."""
    actions: list[Any] = []
    pushed = False
    last: tuple[bytes, ...] = ()
    for kind, body in _tlvs(data, 8):
        label = kind == 25 and body[:4] == b"\x80\x00\x44\x04" and len(body) >= 8
        if pushed and label:
            actions[-1] = PushMpls(int.from_bytes(body[4:8], "big"))
        else:
            actions.append(_action(kind, body))
        pushed = kind == 19 and int.from_bytes(body[:2], "big") == ETH_MPLS
        last = (*last[-2:], body) if kind == 0xFFFF else ()
        if last in _SHIFTS:
            actions[-3:] = [_SHIFTS[last]]
            last = ()
    return tuple(actions)


_SHIFTS = {
    tuple(body for _, body in _tlvs(action_bytes(shift), 8)): shift
    for shift in (ShiftIds(bits) for bits in range(0, IPV6_BITS - ID_BITS, ID_BITS))
}
"""What is read of this action, which is three on the wire."""


def _action(kind: int, body: bytes) -> Any:
    """Return one action; one that the controller never writes as text, which equals none of its own."""
    if kind == 0 and len(body) == 12:
        port = int.from_bytes(body[:4], "big")
        return ToController(int.from_bytes(body[4:6], "big")) if port == CONTROLLER else Output(port)
    if kind == 22:
        return ToGroup(int.from_bytes(body[:4], "big"))
    if kind == 20:
        return PopMpls(int.from_bytes(body[:2], "big"))
    if kind == 25 and len(body) == SET_FIELD_BODY:
        field = int.from_bytes(body[:4], "big")
        if field == DSCP_FIELD:
            return SetDscp(body[4])
        if field == TRAFFIC_CLASS_FIELD:
            return SetTrafficClass(body[4])
        if field == ETH_DST_FIELD:
            return SetEthDst(body[4:10].hex(":"))
    if kind == 0xFFFF and body[:8] == _RESUBMIT_HEAD and len(body) == len(_RESUBMIT_HEAD) + 4:
        return Resubmit(body[8])
    if kind == 0xFFFF and len(body) >= 28 and body[:6] == struct.pack("!IH", NICIRA, BUNDLE_SUBTYPE):
        (count,) = struct.unpack_from("!H", body, 16)
        if 28 + 2 * count <= len(body):
            return Bundle(struct.unpack_from(f"!{count}H", body, 28))
    return f"action {kind} {body.hex()}"


def _buckets(data: bytes) -> Iterator[Bucket]:
    at = 0
    while at < len(data):
        length, port, group = _BUCKET.unpack_from(data, at) if at + _BUCKET.size <= len(data) else (0, 0, 0)
        if length < _BUCKET.size or at + length > len(data):
            raise ValueError("a bucket of a group is truncated")
        yield Bucket(
            _actions(data[at + _BUCKET.size : at + length]),
            None if port == ANY else port,
            None if group == ANY else group,
        )
        at += length
