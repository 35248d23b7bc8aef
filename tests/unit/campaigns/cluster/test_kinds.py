"""Faults that begin when something is seen: what is seen in the bytes of a connection."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.campaigns.cluster.kinds import message_types

MESSAGES = st.lists(st.tuples(st.integers(0, 29), st.binary(max_size=40)), max_size=8)


def encoded(kind: int, body: bytes) -> bytes:
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body


@given(MESSAGES)
def test_the_types_of_all_messages_are_found(messages: list[tuple[int, bytes]]) -> None:
    chunk = b"".join(encoded(kind, body) for kind, body in messages)
    assert message_types(chunk) == {kind for kind, _ in messages}


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(chunk: bytes) -> None:
    assert len(message_types(chunk)) <= len(chunk) // 8
