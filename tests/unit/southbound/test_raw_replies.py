"""Answers that are taken as bytes: whole, past Ryu's parser, and never mixed up with others."""

from __future__ import annotations

from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from eventlet import spawn_after  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ryu.ofproto import ofproto_parser  # noqa: E402
from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402
from ryu.ofproto import ofproto_v1_3_parser as parser  # noqa: E402

from controller.southbound.openflow import messages  # noqa: E402
from controller.southbound.openflow.exchange import Exchange, NotSupported, SwitchGone  # noqa: E402
from tests.fake_switch import encode  # noqa: E402
from tests.fake_switch.refusal import Refused  # noqa: E402


class Connection:
    """A datapath whose switch answers with what it is given; Ryu's receive loop is one line here."""

    ofproto, ofproto_parser = ofp, parser

    def __init__(self) -> None:
        self.xid = 0
        self.exchange = Exchange(self, timeout=0.05)
        self.answers: list[list[bytes]] = []
        self.parsed: list[Any] = []

    def set_xid(self, message: Any) -> int:
        self.xid += 1
        message.set_xid(self.xid)
        return self.xid

    def send(self, data: bytes) -> bool:
        for part in self.answers.pop(0) if self.answers else ():
            spawn_after(0, self.receive, part)
        return True

    def receive(self, data: bytes) -> None:
        kind, length, xid = data[1], len(data), int.from_bytes(data[4:8], "big")
        message = ofproto_parser.msg(self, data[0], kind, length, xid, bytearray(data))
        if message is None:
            return
        self.parsed.append(message)
        if isinstance(message, parser.OFPErrorMsg):
            self.exchange.failed(message)
        else:
            self.exchange.replied(message)

    def ask(self) -> list[bytes]:
        return self.exchange.ask_raw(messages.count_ports(self))


def parts(xid: int, *bodies: bytes) -> list[bytes]:
    return list(encode.multipart(ofp.OFPMP_PORT_STATS, xid, bodies, part_bytes=1))


ENTRY = bytes(ofp.OFP_PORT_STATS_SIZE)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6))
def test_all_parts_come_as_they_were_and_ryu_parses_none_of_them(bodies: list[bytes]) -> None:
    connection = Connection()
    connection.answers = [parts(1, *bodies)]
    assert connection.ask() == parts(1, *bodies)
    assert connection.parsed == []


def test_what_comes_too_late_or_after_an_error_is_dropped_unread_and_the_next_question_is_answered() -> None:
    connection = Connection()
    first, last = parts(1, ENTRY, ENTRY)
    connection.answers = [[first]]
    with pytest.raises(SwitchGone, match="no answer"):
        connection.ask()
    connection.receive(last)
    assert connection.parsed == []
    connection.answers = [
        [encode.error(Refused(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_MULTIPART), 2, b"")],
        parts(3, ENTRY),
    ]
    with pytest.raises(NotSupported):
        connection.ask()
    assert connection.ask() == parts(3, ENTRY)


def test_other_answers_reach_ryu_and_other_connections_are_not_touched() -> None:
    one, other = Connection(), Connection()
    one.answers = [[*parts(7, ENTRY), *parts(1, ENTRY)]]
    assert one.ask() == parts(1, ENTRY)
    assert [message.xid for message in one.parsed] == [7]
    # The same number is another question there.
    (part,) = parts(1, ENTRY)
    other.receive(part)
    assert [message.xid for message in other.parsed] == [1]
