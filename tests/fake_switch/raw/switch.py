"""One switch: what it holds, as the bytes it was sent, and its answers. No sockets here."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator

from controller.southbound.rules.rule import COOKIE_PREFIX
from controller.southbound.rules.rule_set import SwitchRules
from controller.southbound.wire.rule_reading import RuleReader

HEAD = struct.Struct("!BBHI")
VERSION, NO_BUFFER, CONTROLLER, ANY = 4, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFF
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 3, 5, 6
GET_CONFIG_REQUEST, GET_CONFIG_REPLY, SET_CONFIG, PACKET_IN, PORT_STATUS = 7, 8, 9, 10, 12
PACKET_OUT, FLOW_MOD, GROUP_MOD, MULTIPART_REQUEST, MULTIPART_REPLY = 13, 14, 15, 18, 19
BARRIER_REQUEST, BARRIER_REPLY, ROLE_REQUEST, ROLE_REPLY, SET_ASYNC, METER_MOD = 20, 21, 24, 25, 28, 29
DESC, FLOW, AGGREGATE, TABLE, PORT_STATS, GROUP, GROUP_DESC, GROUP_FEATURES, PORT_DESC = 0, 1, 2, 3, 4, 6, 7, 8, 13
METER_FEATURES = 11

N_TABLES = 254
PART_BYTES = 60_000
MORE = 1
LLDP, ARP = b"\x88\xcc", b"\x08\x06"
TO_CONTROLLER = struct.pack("!HHI", 0, 16, CONTROLLER)
IN_PORT = b"\x80\x00\x00\x04"

_FLOW_MOD = struct.Struct("!QQBBHHHIIIH2x")
_FLOW_STATS = struct.Struct("!HBxIIHHHH4xQQQ")
_HEAD = _FLOW_STATS.size
_PORT = struct.Struct("!I4x6s2x16sIIIIIIII")
_PORT_STATS = struct.Struct("!I4x12QII")
_U16 = struct.Struct("!H")
_U32 = struct.Struct("!I")


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    """Return a message of any type."""
    return HEAD.pack(VERSION, kind, 8 + len(body), xid) + body


class Entry:
    """A flow entry. ``tail``: its match and instructions; ``size``: bytes of the match; ``stats``: as in a reply."""

    __slots__ = ("cookie", "priority", "size", "stats", "table")

    def __init__(self, table: int, priority: int, cookie: int, tail: bytes, size: int) -> None:
        self.table, self.priority, self.cookie, self.size = table, priority, cookie, size
        # Encoded once: a thousand switches that are read at once would otherwise answer too late.
        self.stats = _FLOW_STATS.pack(_HEAD + len(tail), table, 0, 0, priority, 0, 0, 0, cookie, 0, 0) + tail

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
            return (message(FEATURES_REPLY, xid, struct.pack("!QIBB2xII", self.dpid, 0, N_TABLES, 0, 0x4F, 0)),)
        if kind == GET_CONFIG_REQUEST:
            return (message(GET_CONFIG_REPLY, xid, struct.pack("!HH", 0, 128)),)
        if kind == ROLE_REQUEST:
            return (message(ROLE_REPLY, xid, data[8:24]),)
        if kind not in (HELLO, SET_CONFIG, ECHO_REPLY, SET_ASYNC, ERROR):
            return self._refuse(f"type {kind}", xid, data, 1, 1)
        return ()

    def _refuse(self, what: str, xid: int, data: bytes, kind: int, code: int) -> tuple[bytes]:
        self.unknown[what] = self.unknown.get(what, 0) + 1
        return (message(ERROR, xid, struct.pack("!HH", kind, code) + data[:64]),)

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
            return multipart(kind, xid, (_PORT_STATS.pack(port, *(0,) * 12, 0, 0) for port in self.ports))
        if kind == AGGREGATE:
            body = struct.pack("!QQI4x", 0, 0, sum(1 for _ in self._asked(data)))
            return multipart(kind, xid, [body])
        if kind == GROUP:
            return multipart(kind, xid, self._group_counters())
        if kind == TABLE:
            return multipart(kind, xid, [struct.pack("!B3xIQQ", 0, len(self.flows), 0, 0)])
        if kind == DESC:
            texts = (b"fairspine tests", b"none", b"raw switch", b"", self.name.encode())
            return multipart(kind, xid, [struct.pack("!256s256s256s32s256s", *texts)])
        if kind == METER_FEATURES:
            return multipart(kind, xid, [bytes(16)])
        if kind == GROUP_FEATURES:
            return multipart(kind, xid, [struct.pack("!10I", 0xF, 0, *(1 << 24,) * 4, *(0xFFFFFFFF,) * 4)])
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
            yield struct.pack("!HBxI", 8 + len(held) - 1, held[0], number) + held[1:]

    def _group_counters(self) -> Iterator[bytes]:
        for number, held in self.groups.items():
            at, buckets = 1, 0
            while at + 2 <= len(held):
                at += max(_U16.unpack_from(held, at)[0], 16)
                buckets += 1
            yield struct.pack("!H2xII4xQQII", 40 + 16 * buckets, number, 0, 0, 0, 0, 0) + bytes(16 * buckets)

    def port(self, number: int) -> bytes:
        """Return the description of a port."""
        mac = b"\x02" + self.dpid.to_bytes(3, "big") + number.to_bytes(2, "big")
        down = int(number in self.down)
        return _PORT.pack(number, mac, f"{self.name[:9]}-{number}".encode(), 0, down, 0, 0, 0, 0, 10**7, 10**7)


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


def multipart(kind: int, xid: int, entries: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the parts of a statistics reply; one part at least."""
    part: list[bytes] = []
    size = 0
    for entry in entries:
        if part and size + len(entry) > PART_BYTES:
            yield message(MULTIPART_REPLY, xid, struct.pack("!HH4x", kind, MORE) + b"".join(part))
            part, size = [], 0
        part.append(entry)
        size += len(entry)
    yield message(MULTIPART_REPLY, xid, struct.pack("!HH4x", kind, 0) + b"".join(part))


def packet_in(port: int, cookie: int, frame: bytes) -> bytes:
    """Return a packet that a rule has sent to the controller."""
    match = struct.pack("!HH", 1, 12) + IN_PORT + _U32.pack(port) + bytes(4)
    head = struct.pack("!IHBBQ", NO_BUFFER, len(frame), 1, 0, cookie)
    return message(PACKET_IN, 0, head + match + bytes(2) + frame)
