"""One switch: what it holds, as the bytes it was sent, and its answers. No sockets here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from controller.southbound.rules.rule import COOKIE_PREFIX
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_reading import RuleReader
from tests import openflow_writer as writer
from tests.openflow_writer import (
    AGGREGATE,
    ANY,
    BARRIER_REPLY,
    BARRIER_REQUEST,
    CONTROLLER,
    DESC,
    ECHO_REPLY,
    ECHO_REQUEST,
    ERROR,
    FEATURES_REPLY,
    FEATURES_REQUEST,
    FLOW,
    FLOW_MOD,
    GET_CONFIG_REPLY,
    GET_CONFIG_REQUEST,
    GROUP,
    GROUP_DESC,
    GROUP_FEATURES,
    GROUP_MOD,
    HELLO,
    IN_PORT,
    METER_FEATURES,
    MULTIPART_REQUEST,
    PACKET_OUT,
    PORT_DESC,
    PORT_STATS,
    ROLE_REPLY,
    ROLE_REQUEST,
    SET_ASYNC,
    SET_CONFIG,
    TABLE,
    message,
    multipart,
)

LLDP, ARP = b"\x88\xcc", b"\x08\x06"
TO_CONTROLLER = struct.pack("!HHI", 0, 16, CONTROLLER)

_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
_HEAD = writer.FLOW_STATS.size
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")


class Entry:
    """A flow entry. ``tail``: its match and instructions; ``size``: bytes of the match; ``stats``: as in a reply."""

    __slots__ = ("cookie", "priority", "size", "stats", "table")

    def __init__(self, table: int, priority: int, cookie: int, tail: bytes, size: int) -> None:
        self.table, self.priority, self.cookie, self.size = table, priority, cookie, size
        # Encoded once: a thousand switches that are read at once would otherwise answer too late.
        self.stats = writer.flow_stats(tail, table=table, priority=priority, cookie=cookie)

    @property
    def tail(self) -> bytes:
        return self.stats[_HEAD:]

    @property
    def match(self) -> bytes:
        return self.stats[_HEAD : _HEAD + self.size]


class RawSwitch:
    """Holds what it is told.

    Args:
        ports: numbers; all are up.
        sends_out: called with a port and a frame that the controller has sent out of it.

    Attributes:
        mods: flow-mods with the controller's cookie and group-mods since the last ``mods = 0``.
        packet_outs: packets that the controller has sent, likewise.
        readings: requests for all rules, or all of the controller's, likewise.
        read_rules: the rules in their replies.
        down: ports that are told as down.
        damaged: whether the first entry of each reply with all rules says that it is one byte long.
        unknown: what was asked and is not answered, by kind.
    """

    def __init__(self, name: str, dpid: int, ports: Iterable[int], sends_out: Callable[[int, bytes], None]) -> None:
        self.name, self.dpid, self.ports = name, dpid, tuple(ports)
        self._sends_out = sends_out
        self.flows: dict[bytes, Entry] = {}
        self.groups: dict[int, bytes] = {}
        self.mods = self.packet_outs = self.readings = self.read_rules = 0
        self.down: set[int] = set()
        self.damaged = False
        self.unknown: dict[str, int] = {}
        self._ours: SwitchRules | None = None
        self._punts: dict[bytes, Entry] = {}
        self._answers: dict[tuple[int, bytes], int | None] = {}

    def forget(self) -> None:
        """Lose all rules and groups."""
        self.flows.clear()
        self.groups.clear()
        self._punts.clear()
        self._answers.clear()
        self._ours = None

    def sends_here(self, port: int, frame: bytes) -> int | None:
        """Return the cookie of the rule that sends a frame from this port to the controller; ``None``: there is none.

        Only rules that send to the controller are looked at, so it is for frames that no others take.
        """
        best: Entry | None = None
        found = self._answers.get((port, frame[:14]) if frame[12:14] == LLDP else (port, frame), 0)
        if found != 0:
            return found
        carried = packet_fields(port, frame)
        for entry in self._punts.values():
            if (best is None or entry.priority > best.priority) and carried.issuperset(fields(entry.match)):
                best = entry
        cookie = None if best is None else best.cookie
        if frame[12:14] == LLDP:
            self._answers[port, frame[:14]] = cookie
        return cookie

    def held(self, reader: RuleReader) -> SwitchRules:
        """Return the controller's rules and groups."""
        if self._ours is None:
            ours = [each.stats for each in self.flows.values() if each.cookie >> 48 == COOKIE_PREFIX]
            rules = reader.rules(multipart(FLOW, 0, ours))
            self._ours = SwitchRules(rules, reader.groups(multipart(GROUP_DESC, 0, self._descriptions())))
        return self._ours

    def content(self) -> tuple[dict[bytes, bytes], dict[int, bytes]]:
        """Return what is held of the controller's, without its epochs: it can be compared."""
        flows = {key: entry.tail for key, entry in self.flows.items() if entry.cookie >> 48 == COOKIE_PREFIX}
        return flows, dict(self.groups)

    # -- messages --------------------------------------------------------------------------------------------

    def receive(self, kind: int, xid: int, data: bytes) -> Iterable[bytes]:
        """Take one whole message; return the answers."""
        if kind == FLOW_MOD:
            return self._flow_mod(xid, data)
        if kind == PACKET_OUT:
            self._packet_out(data)
            return ()
        if kind == GROUP_MOD:
            return self._group_mod(data)
        if kind == BARRIER_REQUEST:
            return (message(BARRIER_REPLY, xid),)
        if kind == MULTIPART_REQUEST:
            return self._multipart(xid, data)
        if kind == ECHO_REQUEST:
            return (message(ECHO_REPLY, xid, data[8:]),)
        if kind == FEATURES_REQUEST:
            return (message(FEATURES_REPLY, xid, writer.features(self.dpid)),)
        if kind == GET_CONFIG_REQUEST:
            return (message(GET_CONFIG_REPLY, xid, writer.config()),)
        if kind == ROLE_REQUEST:
            return (message(ROLE_REPLY, xid, data[8:24]),)
        if kind not in (HELLO, SET_CONFIG, ECHO_REPLY, SET_ASYNC, ERROR):
            return self._refuse(f"type {kind}", xid, data, 1, 1)
        return ()

    def _refuse(self, what: str, xid: int, data: bytes, kind: int, code: int) -> tuple[bytes]:
        self.unknown[what] = self.unknown.get(what, 0) + 1
        return (writer.error(kind, code, xid, data),)

    def _flow_mod(self, xid: int, data: bytes) -> Iterable[bytes]:
        cookie, mask, table, command, _, _, priority, _, out_port, out_group, _ = _FLOW_MOD.unpack_from(data, 8)
        size = (_U16.unpack_from(data, 50)[0] + 7) // 8 * 8
        if cookie >> 48 == COOKIE_PREFIX:
            self.mods += 1
        key = data[24:25] + data[30:32] + data[48 : 48 + size]
        self._ours = None
        if command == 0:
            self._put(key, Entry(table, priority, cookie, data[48:], size))
        elif command in (1, 2):
            for found in [key] if command == 2 else list(self._matching(table, data[48 : 48 + size])):
                old = self.flows.get(found)
                if old is not None and (old.cookie & mask) == (cookie & mask):
                    changed = old.match + data[48 + size :]
                    self._put(found, Entry(old.table, old.priority, old.cookie, changed, old.size))
        elif command in (3, 4):
            for found in [key] if command == 4 else list(self._matching(table, data[48 : 48 + size])):
                old = self.flows.get(found)
                if old is not None and (old.cookie & mask) == (cookie & mask):
                    if out_port not in (0, ANY) or (command == 3 and out_group not in (0, ANY)):
                        return self._refuse("delete by port or group", xid, data, 5, 0)
                    self._drop(found)
        return ()

    def _put(self, key: bytes, entry: Entry) -> None:
        self.flows[key] = entry
        if TO_CONTROLLER in entry.tail:
            self._punts[key] = entry
            self._answers.clear()
        elif self._punts.pop(key, None) is not None:
            self._answers.clear()

    def _drop(self, key: bytes) -> None:
        del self.flows[key]
        if self._punts.pop(key, None) is not None:
            self._answers.clear()

    def _matching(self, table: int, match: bytes) -> Iterator[bytes]:
        """Keys of the entries that have all fields of a match as they stand there."""
        wanted = set(fields(match))
        for key, entry in self.flows.items():
            if table in (entry.table, 0xFF) and (not wanted or wanted.issubset(fields(entry.match))):
                yield key

    def _group_mod(self, data: bytes) -> Iterable[bytes]:
        command, _, number = struct.unpack_from("!HBxI", data, 8)
        self.mods += 1
        self._ours = None
        if command == 2:
            gone = set(self.groups) if number == 0xFFFFFFFC else {number}
            leads = [struct.pack("!HHI", 22, 8, each) for each in gone if each in self.groups]
            for each in gone:
                self.groups.pop(each, None)
            for key in [k for k, entry in self.flows.items() if any(to in entry.tail for to in leads)]:
                self._drop(key)
        else:
            self.groups[number] = data[10:11] + data[16:]
        return ()

    def _packet_out(self, data: bytes) -> None:
        self.packet_outs += 1
        (actions,) = _U16.unpack_from(data, 16)
        at, end = 24, 24 + actions
        frame = data[end:]
        while at + 8 <= end:
            kind, length = struct.unpack_from("!HH", data, at)
            if kind == 0:
                self._sends_out(_U32.unpack_from(data, at + 4)[0], frame)
            at += max(length, 8)

    def _multipart(self, xid: int, data: bytes) -> Iterable[bytes]:
        kind = _U16.unpack_from(data, 8)[0]
        if kind == FLOW:
            found = [entry.stats for entry in self._asked(data)]
            if not any(fields(data[48:])):
                self.readings += 1
                self.read_rules += len(found)
                if self.damaged and found:
                    found[0] = b"\x00\x01" + found[0][2:]
            return multipart(kind, xid, found)
        if kind == GROUP_DESC:
            return multipart(kind, xid, self._descriptions())
        if kind == PORT_DESC:
            return multipart(kind, xid, map(self.port, self.ports))
        if kind == PORT_STATS:
            return multipart(kind, xid, map(writer.port_stats, self.ports))
        if kind == AGGREGATE:
            return multipart(kind, xid, [writer.aggregate(0, 0, sum(1 for _ in self._asked(data)))])
        if kind == GROUP:
            return multipart(kind, xid, self._group_counters())
        if kind == TABLE:
            return multipart(kind, xid, [writer.table_stats(0, len(self.flows))])
        if kind == DESC:
            return multipart(kind, xid, [writer.description("raw switch", self.name)])
        if kind == METER_FEATURES:
            return multipart(kind, xid, [writer.meter_features(0, 0, 0, 0)])
        if kind == GROUP_FEATURES:
            return multipart(kind, xid, [writer.group_features(1 << 24)])
        return self._refuse(f"multipart {kind}", xid, data, 1, 2)

    def _asked(self, data: bytes) -> Iterator[Entry]:
        table, cookie, mask = struct.unpack_from("!B3x4x4x4xQQ", data, 16)
        wanted = set(fields(data[48:]))
        for entry in self.flows.values():
            in_question = table in (entry.table, 0xFF) and not (entry.cookie ^ cookie) & mask
            # Nearly all entries fail the search for the bytes, which is much the cheaper one.
            if in_question and (
                not wanted or (all(each in entry.stats for each in wanted) and wanted.issubset(fields(entry.match)))
            ):
                yield entry

    def _descriptions(self) -> Iterator[bytes]:
        for number, held in self.groups.items():
            yield writer.group_description(number, held[0], held[1:])

    def _group_counters(self) -> Iterator[bytes]:
        for number, held in self.groups.items():
            at, buckets = 1, 0
            while at + 2 <= len(held):
                at += max(_U16.unpack_from(held, at)[0], 16)
                buckets += 1
            yield writer.group_stats(number, buckets)

    def port(self, number: int) -> bytes:
        """Return the description of a port."""
        mac = b"\x02" + self.dpid.to_bytes(3, "big") + number.to_bytes(2, "big")
        down = int(number in self.down)
        return writer.port(number, mac, f"{self.name[:9]}-{number}".encode(), state=down, kbps=10**7)


def packet_fields(port: int, frame: bytes) -> set[bytes]:
    """Return the match fields that a frame meets, as far as controllers send such frames to themselves."""
    found = {
        IN_PORT + _U32.pack(port),
        b"\x80\x00\x06\x06" + frame[:6],
        b"\x80\x00\x08\x06" + frame[6:12],
        b"\x80\x00\x0a\x02" + frame[12:14],
    }
    if frame[12:14] == ARP:
        places = ((0x2A, 20, 22), (0x30, 22, 28), (0x2C, 28, 32), (0x32, 32, 38), (0x2E, 38, 42))
        found |= {bytes((0x80, 0, number, end - at)) + frame[at:end] for number, at, end in places}
    return found


def arp_answer(frame: bytes, ip: bytes, mac: bytes) -> bytes | None:
    """Return the reply of a host to an ARP request for its address (RFC 826); ``None``: it is none."""
    if frame[12:14] != ARP or frame[20:22] != b"\x00\x01" or frame[38:42] != ip:
        return None
    asker = frame[22:32]
    return asker[:6] + mac + frame[12:20] + b"\x00\x02" + mac + ip + asker + bytes(18)


def fields(match: bytes) -> Iterator[bytes]:
    """Yield the fields of a match, each with its header."""
    at, end = 4, _U16.unpack_from(match, 2)[0]
    while at + 4 <= end:
        size = 4 + match[at + 3]
        yield match[at : at + size]
        at += size
