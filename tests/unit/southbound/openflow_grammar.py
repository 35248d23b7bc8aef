"""Random OpenFlow 1.3 messages of every type that a switch sends, built from the standard's structures, and mutations.

Written from the standard's structure definitions and not from the tables of ``message_check``, which it checks.
"""

from __future__ import annotations

import struct

from hypothesis import strategies as st

SIZES = {3: 6, 4: 6, 5: 2, 10: 1, 11: 4, 12: 4, 15: 2, 16: 2, 23: 4, 2: 8, 0: 4, 34: 4, 36: 1}
"""Bytes of some match fields of the basic class."""

FEW = 4
"""Most parts of a list."""


def pad(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def message(kind: int, body: bytes, xid: int = 1, version: int = 4) -> bytes:
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


@st.composite
def oxm(draw: st.DrawFn) -> bytes:
    if draw(st.integers(0, 9)) == 0:
        value = draw(st.binary(min_size=2, max_size=8))
        return struct.pack("!HBBI", 0xFFFF, 5 << 1, 4 + len(value), 0x4F4E4600) + value
    number = draw(st.sampled_from(sorted(SIZES)))
    masked = draw(st.booleans())
    size = SIZES[number] << masked
    value = draw(st.binary(min_size=size, max_size=size))
    return struct.pack("!HBB", 0x8000, number << 1 | masked, size) + value


@st.composite
def matches(draw: st.DrawFn) -> bytes:
    fields = b"".join(draw(st.lists(oxm(), max_size=FEW)))
    return pad(struct.pack("!HH", 1, 4 + len(fields)) + fields)


def fixed_action(kind: int) -> st.SearchStrategy[bytes]:
    size = 16 if kind == 0 else 8
    return st.binary(min_size=size - 4, max_size=size - 4).map(lambda rest: struct.pack("!HH", kind, size) + rest)


@st.composite
def set_fields(draw: st.DrawFn) -> bytes:
    number = draw(st.sampled_from(sorted(SIZES)))
    value = draw(st.binary(min_size=SIZES[number], max_size=SIZES[number]))
    inside = struct.pack("!HBB", 0x8000, number << 1, len(value)) + value
    return struct.pack("!HH", 25, (4 + len(inside) + 7) // 8 * 8) + inside + bytes(-(4 + len(inside)) % 8)


@st.composite
def bundles(draw: st.DrawFn) -> bytes:
    """Open vSwitch's bundle action."""
    ports = draw(st.lists(st.integers(1, 64), min_size=1, max_size=6))
    body = struct.pack("!HHHHIHHI4x", 12, 1, 3, 0, 2, len(ports), 0, 0)
    ends = b"".join(struct.pack("!H", port) for port in ports)
    whole = struct.pack("!I", 0x2320) + body + ends
    size = (4 + len(whole) + 7) // 8 * 8
    return struct.pack("!HH", 0xFFFF, size) + whole + bytes(size - 4 - len(whole))


def nicira(subtype: int, body: bytes) -> bytes:
    whole = struct.pack("!IH", 0x2320, subtype) + body
    size = (4 + len(whole) + 7) // 8 * 8
    return struct.pack("!HH", 0xFFFF, size) + whole + bytes(size - 4 - len(whole))


plain_actions = st.one_of(
    *(fixed_action(kind) for kind in (0, 0, 12, 15, 17, 18, 19, 20, 21, 22, 23, 24, 26, 27)), set_fields()
)
some_plain = st.lists(plain_actions, max_size=FEW).map(b"".join)
tracked = some_plain.map(lambda inside: nicira(35, struct.pack("!HIHB3xH", 1, 0, 5, 255, 0) + inside))
resubmits = st.integers(0, 0xFFFF).map(lambda port: nicira(14, struct.pack("!HB3x", port, 3)))
others_actions = st.binary(max_size=12).map(
    lambda rest: struct.pack("!HHI", 0xFFFF, (8 + len(rest) + 7) // 8 * 8, 7) + pad(rest)
)
actions = st.lists(st.one_of(plain_actions, bundles(), tracked, resubmits, others_actions), max_size=FEW).map(b"".join)


@st.composite
def instructions(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from((1, 2, 3, 4, 5, 6)))
    body = draw(st.binary(min_size=4, max_size=4))
    if kind == 2:
        body += draw(st.binary(min_size=16, max_size=16))
    elif kind in (3, 4, 5):
        body += draw(actions)
    return struct.pack("!HH", kind, 4 + len(body)) + body


@st.composite
def flows(draw: st.DrawFn) -> bytes:
    rest = draw(matches()) + b"".join(draw(st.lists(instructions(), max_size=FEW)))
    head = draw(st.binary(min_size=46, max_size=46))
    return struct.pack("!H", 48 + len(rest)) + head + rest


@st.composite
def buckets(draw: st.DrawFn) -> bytes:
    inside = draw(actions)
    return struct.pack("!H", 16 + len(inside)) + draw(st.binary(min_size=14, max_size=14)) + inside


@st.composite
def group_descriptions(draw: st.DrawFn) -> bytes:
    inside = b"".join(draw(st.lists(buckets(), max_size=FEW)))
    return struct.pack("!HBxI", 8 + len(inside), 1, 7) + inside


def counted(head: str, size: int) -> st.SearchStrategy[bytes]:
    """Entries of ``size`` bytes that hold 16 bytes for each bucket or band."""
    return st.integers(0, 4).map(
        lambda n: (struct.pack("!H2x", size + 16 * n) if head == "H" else struct.pack("!IH", 1, size + 16 * n)).ljust(
            size + 16 * n, b"\1"
        )
    )


@st.composite
def meter_configs(draw: st.DrawFn) -> bytes:
    kinds = draw(st.lists(st.sampled_from((1, 2, 0xFFFF)), max_size=FEW))
    bands = b"".join(struct.pack("!HHIII", kind, 16, 1, 2, 0) for kind in kinds)
    return struct.pack("!HHI", 8 + len(bands), 1, 2) + bands


@st.composite
def table_features(draw: st.DrawFn) -> bytes:
    inside = b""
    for kind in draw(st.lists(st.sampled_from((0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13, 14, 15, 0xFFFE)), max_size=FEW)):
        if kind in (2, 3):
            body = draw(st.binary(max_size=5))
        elif kind in (8, 10, 12, 13, 14, 15):
            numbers = draw(st.lists(st.integers(0, 39), max_size=FEW))
            body = b"".join(struct.pack("!HBB", 0x8000, number << 1, 4) for number in numbers)
        elif kind == 0xFFFE:
            body = struct.pack("!II", 1, 2) + draw(st.sampled_from((b"", b"1234")))
        else:
            body = b"".join(struct.pack("!HH", n, 4) for n in draw(st.lists(st.integers(1, 6), max_size=FEW)))
        inside += pad(struct.pack("!HH", kind, 4 + len(body)) + body)
    return struct.pack("!H", 64 + len(inside)) + bytes(62) + inside


@st.composite
def queues(draw: st.DrawFn) -> bytes:
    inside = b""
    for kind in draw(st.lists(st.sampled_from((1, 2, 0xFFFF)), max_size=FEW)):
        body = draw(st.sampled_from((b"", b"12345678"))) if kind == 0xFFFF else b""
        inside += struct.pack("!HH4xHHI", kind, 16 + len(body), 5, 0, 0) + body
    return struct.pack("!IIH6x", 1, 2, 16 + len(inside)) + inside


def listed(entries: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.lists(entries, max_size=FEW).map(b"".join)


def sized(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


MULTIPART_BODIES = {
    0: sized(1056),
    1: listed(flows()),
    2: sized(24),
    3: listed(sized(24)),
    4: listed(sized(112)),
    5: listed(sized(40)),
    6: listed(counted("H", 40)),
    7: listed(group_descriptions()),
    8: sized(40),
    9: listed(counted("I", 40)),
    10: listed(meter_configs()),
    11: sized(16),
    12: listed(table_features()),
    13: listed(sized(64)),
    0xFFFF: st.binary(min_size=8, max_size=64),
}


@st.composite
def multiparts(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from(sorted(MULTIPART_BODIES)))
    flags = draw(st.integers(0, 1))
    return message(19, struct.pack("!HH4x", kind, flags) + draw(MULTIPART_BODIES[kind]))


@st.composite
def hellos(draw: st.DrawFn) -> bytes:
    body = b""
    for kind in draw(st.lists(st.integers(1, 3), max_size=FEW)):
        rest = draw(st.sampled_from((4, 8, 12))) if kind == 1 else draw(st.integers(0, 20))
        body += pad(struct.pack("!HH", kind, 4 + rest) + draw(sized(rest)))
    return message(0, body, version=draw(st.integers(1, 6)))


@st.composite
def errors(draw: st.DrawFn) -> bytes:
    kind = draw(st.sampled_from((0, 1, 5, 13)))
    return message(1, struct.pack("!HH", kind, draw(st.integers(0, 9))) + draw(st.binary(max_size=80)))


@st.composite
def packet_ins(draw: st.DrawFn) -> bytes:
    return message(10, draw(sized(16)) + draw(matches()) + b"\0\0" + draw(st.binary(max_size=80)))


valid = st.one_of(
    hellos(),
    errors(),
    st.tuples(st.sampled_from((2, 3)), st.binary(max_size=40)).map(lambda pair: message(*pair)),
    st.binary(max_size=40).map(lambda rest: message(4, struct.pack("!II", 5, 6) + rest)),
    sized(24).map(lambda body: message(6, body)),
    sized(4).map(lambda body: message(8, body)),
    packet_ins(),
    st.tuples(sized(40), matches()).map(lambda pair: message(11, pair[0] + pair[1])),
    st.tuples(st.integers(0, 2), sized(71)).map(lambda pair: message(12, bytes([pair[0]]) + pair[1])),
    multiparts(),
    multiparts(),
    multiparts(),
    st.just(message(21, b"")),
    listed(queues()).map(lambda body: message(23, bytes(8) + body)),
    sized(16).map(lambda body: message(25, body)),
    sized(24).map(lambda body: message(27, body)),
)
"""A whole message that follows the standard."""


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A message of which bytes were changed, cut off or added; its header says its true length, mostly."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(8, max(8, len(data) - 1)))
        how = draw(st.integers(0, 4))
        if how <= 1 and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif how == 2 and at + 1 < len(data):
            # Lengths stand at even offsets: small values there are what loops for ever.
            at &= ~1
            data[at : at + 2] = struct.pack("!H", draw(st.sampled_from((0, 1, 4, 7, 8, 0xFFFF, len(data)))))
        elif how == 3:
            del data[at:]
        else:
            data += draw(st.binary(max_size=24))
    if draw(st.integers(0, 9)):
        data[2:4] = struct.pack("!H", len(data))
    return bytes(data)


KINDS = (0, 1, 2, 3, 4, 6, 8, 10, 11, 12, 19, 19, 19, 21, 23, 25, 27, 99)
arbitrary = st.builds(message, st.sampled_from(KINDS), st.binary(max_size=200))
"""Random bytes behind the header of some type."""
