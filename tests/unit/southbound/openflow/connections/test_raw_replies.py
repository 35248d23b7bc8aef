"""Answers that are taken as bytes: whole, past Ryu's parser, and never mixed up with others."""

from __future__ import annotations

from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
from eventlet import spawn_after  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402
from ryu.ofproto import ofproto_v1_3_parser as parser  # noqa: E402

from controller.southbound.openflow.connections import raw_replies  # noqa: E402
from controller.southbound.openflow.enforcing import messages, request_channel  # noqa: E402
from controller.southbound.openflow.enforcing.request_channel import NotSupported, RequestChannel, SwitchGone  # noqa: E402
from tests import openflow_writer as writer  # noqa: E402
from tests.fake_switch import encode  # noqa: E402
from tests.fake_switch.refusal import Refused  # noqa: E402


class Connection:
    """A datapath whose switch answers with what it is given; the receive loop is a few lines here."""

    ofproto, ofproto_parser = ofp, parser
    intended = True

    def __init__(self) -> None:
        self.xid = 0
        self.exchange = RequestChannel(self, timeout=60)
        self.answers: list[list[bytes]] = []
        self.unasked = 0

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
        if kind == ofp.OFPT_MULTIPART_REPLY:
            self.unasked += not raw_replies.receive(self, xid, data)
        elif raw_replies.expected(self, xid):
            message = parser.msg_parser(self, data[0], kind, length, xid, data)
            if isinstance(message, parser.OFPErrorMsg):
                self.exchange.failed(message)
            else:
                self.exchange.replied(message)
        else:
            self.unasked += 1

    def ask(self) -> list[bytes]:
        return self.exchange.ask_raw(messages.count_ports(self))


def parts(xid: int, *bodies: bytes) -> list[bytes]:
    return list(writer.multipart(ofp.OFPMP_PORT_STATS, xid, bodies, part_bytes=1))


ENTRY = bytes(ofp.OFP_PORT_STATS_SIZE)


def receive_often(connection: Connection, part: bytes) -> None:
    for _ in range(1000):
        assert raw_replies.receive(connection, 5, part)


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=6))
def test_all_parts_come_as_they_were_and_none_of_them_is_parsed(bodies: list[bytes]) -> None:
    connection = Connection()
    connection.answers = [parts(1, *bodies)]
    assert connection.ask() == parts(1, *bodies)
    assert connection.unasked == 0


def test_what_comes_too_late_or_after_an_error_is_dropped_unread_and_the_next_question_is_answered() -> None:
    connection = Connection()
    first, last = parts(1, ENTRY, ENTRY)
    connection.answers = [[first]]
    connection.exchange.timeout = 0.01
    with pytest.raises(SwitchGone, match="no answer"):
        connection.ask()
    connection.exchange.timeout = 60
    connection.receive(last)
    assert connection.unasked == 1
    connection.answers = [
        [encode.error(Refused(ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_MULTIPART), 2, b"")],
        parts(3, ENTRY),
    ]
    with pytest.raises(NotSupported):
        connection.ask()
    assert connection.ask() == parts(3, ENTRY)


def test_unsolicited_answers_are_dropped_and_other_connections_are_not_affected() -> None:
    one, other = Connection(), Connection()
    one.answers = [[*parts(7, ENTRY), *parts(1, ENTRY)]]
    assert one.ask() == parts(1, ENTRY)
    assert one.unasked == 1
    # The same number is another question there.
    (part,) = parts(1, ENTRY)
    other.receive(part)
    assert other.unasked == 1


def test_a_reply_without_end_is_refused_at_the_bound_and_what_it_took_is_free_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(raw_replies, "MOST_BYTES", 100_000)
    connection, taken = Connection(), list[bytes]()
    (part,) = parts(5, bytes(112 * 100))
    endless = part[:10] + b"\0\1" + part[12:]
    for _ in range(3):
        raw_replies.take(connection, 5, lambda part, more: taken.append(part))
        with pytest.raises(raw_replies.TooMuchError, match="longer than"):
            receive_often(connection, endless)
        assert sum(map(len, taken)) <= 100_000
        raw_replies.leave(connection, 5)
        taken.clear()
    assert raw_replies._bytes_in_all == 0


def test_where_all_replies_together_are_too_long_the_longest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_replies, "MOST_BYTES_IN_ALL", 200_000)
    small, large = Connection(), Connection()
    for connection in (small, large):
        raw_replies.take(connection, 5, lambda part, more: None)
    (part,) = parts(5, bytes(112 * 100))
    for _ in range(3):
        assert raw_replies.receive(small, 5, part)
    with pytest.raises(raw_replies.TooMuchError, match="all switches together"):
        receive_often(large, part)
    assert raw_replies.receive(small, 5, part)
    for connection in (small, large):
        raw_replies.leave(connection, 5)
    assert raw_replies._bytes_in_all == 0


def test_a_repeated_error_counts_once_and_errors_without_a_request_are_not_expected() -> None:
    connection = Connection()
    message = messages.barrier(connection)
    connection.exchange._sent[connection.set_xid(message)] = "cause"
    error = encode.error(Refused(ofp.OFPET_FLOW_MOD_FAILED, ofp.OFPFMFC_TABLE_FULL), 1, b"")
    for _ in range(1000):
        connection.receive(error)
    connection.answers = [[writer.message(ofp.OFPT_BARRIER_REPLY, 2)]]
    assert [refused.cause for refused in connection.exchange.settle()] == ["cause"]
    connection.receive(error)
    assert connection.unasked == 1


def test_a_reply_that_never_ends_leaves_none_of_its_parts_in_memory() -> None:
    """Even while the failure's traceback is kept: it holds the frames that had them."""
    connection = Connection()
    part = b"\x04\x13" + (16 + 4096).to_bytes(2, "big") + (1).to_bytes(4, "big")
    part += ofp.OFPMP_PORT_STATS.to_bytes(2, "big") + ofp.OFPMPF_REPLY_MORE.to_bytes(2, "big") + bytes(4 + 4096)
    connection.answers.append([part])
    connection.exchange.timeout = 0.01
    with pytest.raises(SwitchGone) as failed:
        connection.ask()
    held = [
        value
        for entry in failed.traceback
        for value in entry.frame.f_locals.values()
        if isinstance(value, list) and any(isinstance(each, bytes) and len(each) > 4096 for each in value)
    ]
    assert connection.unasked == 0
    assert all(value is connection.answers for value in held), held


def test_a_switch_that_is_not_intended_may_answer_less() -> None:
    for intended in (True, False):
        connection = Connection()
        connection.intended = intended
        raw_replies.take(connection, 5, lambda part, more: None)
        (part,) = parts(5, bytes(112 * 500))
        fits = raw_replies.STRANGER_BYTES // (len(part) + raw_replies.PART_BYTES)
        for _ in range(fits):
            assert raw_replies.receive(connection, 5, part)
        if intended:
            assert raw_replies.receive(connection, 5, part)
        else:
            with pytest.raises(raw_replies.TooMuchError, match="longer than 4 MiB"):
                raw_replies.receive(connection, 5, part)
        raw_replies.leave(connection, 5)


def test_a_reply_in_parts_without_end_is_waited_for_no_longer_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_channel, "LONGEST_REPLY", 0.2)
    connection = Connection()
    sent: list[int] = []

    def send(_data: bytes) -> bool:
        (part,) = parts(connection.xid, bytes(112))
        again(part[:10] + b"\0\1" + part[12:])
        return True

    def again(part: bytes) -> None:
        sent.append(len(part))
        connection.receive(part)
        if len(sent) < 100:
            spawn_after(0.02, again, part)

    monkeypatch.setattr(connection, "send", send)
    with pytest.raises(SwitchGone, match="no complete answer"):
        connection.ask()
    assert 2 < len(sent) < 100
