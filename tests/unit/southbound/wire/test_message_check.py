"""The length check accepts the messages that the standard allows, and none on which Ryu's parsers hang."""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.southbound.wire import message_check, rule_check
from controller.southbound.wire.length_check import MalformedError
from controller.southbound.wire.message_check import check, offered_versions
from tests import openflow_writer as writer
from tests.fake_switch.decode import PROTOCOL
from tests.unit.fake_switch.talk import switch
from tests.unit.laws import examples
from tests.unit.southbound.openflow_grammar import arbitrary, message, multiparts, mutated, nicira, pad, valid

SECONDS = 5.0
"""Of processor time, for one small message: Ryu takes less than 10 ms where it ends at all."""


class HangsError(BaseException):
    """Not an ``Exception``: nothing on the way may catch it."""


@contextmanager
def bounded() -> Iterator[None]:
    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise HangsError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def parse(data: bytes) -> object:
    head = message_check.header(data)
    return parser.msg_parser(PROTOCOL, head.version, head.type, head.length, head.xid, data)


def accepted(data: bytes) -> bool:
    try:
        check(data)
    except MalformedError as error:
        assert str(error)
        return False
    return True


@settings(max_examples=examples(100, 600))
@given(valid)
def test_messages_by_the_standard_are_accepted(data: bytes) -> None:
    check(data)


@settings(max_examples=examples(75, 450))
@given(multiparts())
def test_ryu_parses_replies_by_the_standard_to_the_end(data: bytes) -> None:
    try:
        with bounded():
            parse(data)
    except (KeyError, struct.error) as error:
        # Match fields of experimenters that it does not know; and it reads an experimenter's reply in steps of 16.
        assert "unknown OXM field" in str(error) or data[8:10] == b"\xff\xff"


@settings(max_examples=examples(100, 3000))
@given(st.one_of(mutated(), arbitrary, st.binary(max_size=64)))
def test_whatever_is_accepted_is_parsed_in_bounded_time(data: bytes) -> None:
    if not accepted(data):
        return
    with bounded():
        if data[1] == message_check.HELLO:
            # Never given to Ryu, which forgets the padding between elements.
            assert all(isinstance(version, int) for version in offered_versions(data))
            return
        try:
            parse(data)
        except Exception as error:  # ends one connection, in one line
            assert not isinstance(error, MemoryError)


def raised(make: bytes, why: str) -> None:
    with pytest.raises(MalformedError, match=why):
        check(make)


ZERO_ACTION = struct.pack("!HHI", 0xFFFF, 0, 0x2320)
MATCH = struct.pack("!HH4x", 1, 4)


def reply(kind: int, body: bytes) -> bytes:
    return message(message_check.MULTIPART_REPLY, struct.pack("!HH4x", kind, 0) + body)


def flow(rest: bytes) -> bytes:
    return reply(1, struct.pack("!H", 56 + len(rest)) + bytes(46) + MATCH + rest)


@pytest.mark.parametrize(
    "data",
    [
        message(0, struct.pack("!HH", 1, 0)),
        reply(1, bytes(56)),
        reply(6, bytes(40)),
        reply(7, bytes(8)),
        reply(7, struct.pack("!HBxI", 24, 1, 1) + bytes(16)),
        reply(9, bytes(40)),
        reply(10, bytes(8)),
        reply(10, struct.pack("!HHI", 24, 1, 1) + bytes(16)),
        reply(12, bytes(64)),
        reply(12, struct.pack("!H", 72) + bytes(62 + 8)),
        flow(bytes(8)),
        flow(struct.pack("!HH4x", 4, 16) + bytes(8)),
        flow(struct.pack("!HH4x", 4, 16) + ZERO_ACTION),
        flow(struct.pack("!HH4x", 4, 40) + nicira(35, bytes(14) + ZERO_ACTION)),
        message(message_check.QUEUE_GET_CONFIG_REPLY, bytes(8 + 16)),
        message(message_check.EXPERIMENTER, struct.pack("!IIIHHHH4x", 0x4F4E4600, 2300, 1, 0, 0, 1, 0)),
    ],
)
def test_an_element_of_length_0_is_refused_wherever_it_stands(data: bytes) -> None:
    """Ryu's parser loops for ever on most of these, and takes hundreds of megabytes a second."""
    raised(data, "length 0|not 8|unknown type 0|bytes")


def test_lengths_that_point_outside_are_refused() -> None:
    raised(flow(struct.pack("!HH4x", 4, 64)), "length 64 instead of 8 to 8")
    raised(reply(1, struct.pack("!H", 4096) + bytes(54)), "4096")
    raised(reply(13, bytes(63)), "whole number of ports of 64 bytes")
    raised(message(message_check.PACKET_IN, bytes(16) + struct.pack("!HH", 1, 400) + bytes(20)), "400")
    raised(b"\4\2\0\7", "4 bytes are less than a header")
    raised(b"\4\2\0\7\0\0\0\1", "its header says 7 bytes, it has 8")
    raised(message(99, b""), "do not send")
    raised(message(2, b"", version=1), "version 1 instead of 4")


def test_actions_are_nested_only_so_deep() -> None:
    """A message of 64 KiB could hold thousands of levels, and a recursive parser ends in the middle of them."""

    def nest(levels: int) -> bytes:
        inside = struct.pack("!HHIH6x", 0, 16, 1, 0)
        for _ in range(levels):
            inside = nicira(35, struct.pack("!HIHB3xH", 1, 0, 5, 255, 0) + inside)
        return flow(struct.pack("!HH4x", 4, 8 + len(inside)) + inside)

    check(nest(rule_check.MOST_NESTED))
    raised(nest(rule_check.MOST_NESTED + 1), "nested")
    raised(nest(1000), "nested")


def test_sizes_of_match_fields_are_those_of_ryu() -> None:
    ours = dict(enumerate(rule_check.OXM_SIZES))
    theirs = {field.oxm_field: field.type.size for field in ofp.oxm_types if field.oxm_type >> 7 == 0x8000}
    assert {number: size for number, size in theirs.items() if number in ours} == ours


def test_versions_are_those_of_the_bitmap_or_all_up_to_the_header() -> None:
    assert offered_versions(writer.hello()) == {4}
    assert offered_versions(message(0, b"", version=5)) == {1, 2, 3, 4, 5}
    strange = pad(struct.pack("!HH3s", 77, 7, b"abc"))
    two_words = struct.pack("!HHII", 1, 12, 1 << 31 | 1 << 4, 1)
    assert offered_versions(message(0, strange + pad(two_words), version=6)) == {4, 31, 32}


def test_everything_that_a_fake_switch_says_is_accepted() -> None:
    fake = switch()
    requests = [
        parser.OFPFeaturesRequest(PROTOCOL),
        parser.OFPGetConfigRequest(PROTOCOL),
        parser.OFPBarrierRequest(PROTOCOL),
        parser.OFPEchoRequest(PROTOCOL, b"data"),
        parser.OFPRoleRequest(PROTOCOL, ofp.OFPCR_ROLE_EQUAL, 0),
        parser.OFPDescStatsRequest(PROTOCOL, 0),
        parser.OFPPortDescStatsRequest(PROTOCOL, 0),
        parser.OFPGroupMod(
            PROTOCOL,
            ofp.OFPGC_ADD,
            ofp.OFPGT_SELECT,
            9,
            [parser.OFPBucket(weight=1, actions=[parser.OFPActionOutput(2)])],
        ),
        parser.OFPFlowMod(
            PROTOCOL,
            match=parser.OFPMatch(eth_type=0x800, ipv4_src=("10.0.0.0", "255.0.0.0")),
            flags=ofp.OFPFF_SEND_FLOW_REM,
            instructions=[parser.OFPInstructionActions(ofp.OFPIT_APPLY_ACTIONS, [parser.OFPActionGroup(9)])],
        ),
        parser.OFPFlowStatsRequest(PROTOCOL),
        parser.OFPAggregateStatsRequest(
            PROTOCOL, 0, ofp.OFPTT_ALL, ofp.OFPP_ANY, ofp.OFPG_ANY, 0, 0, parser.OFPMatch()
        ),
        parser.OFPTableStatsRequest(PROTOCOL, 0),
        parser.OFPPortStatsRequest(PROTOCOL, 0, ofp.OFPP_ANY),
        parser.OFPGroupStatsRequest(PROTOCOL, 0, ofp.OFPG_ALL),
        parser.OFPGroupDescStatsRequest(PROTOCOL, 0),
        parser.OFPFlowMod(
            PROTOCOL, command=ofp.OFPFC_DELETE, table_id=ofp.OFPTT_ALL, out_port=ofp.OFPP_ANY, out_group=ofp.OFPG_ANY
        ),
        parser.OFPFlowMod(PROTOCOL, table_id=77, instructions=[parser.OFPInstructionGotoTable(3)]),
    ]
    check(writer.hello())
    kinds = set()
    for request in requests:
        request.xid, request.buf = 5, bytearray()
        request.serialize()
        for answer in fake.receive(bytes(request.buf)):
            check(answer)
            kinds.add(answer[1])
    assert kinds >= {1, 3, 6, 8, 11, 19, 21, 25}
