"""One connection: what comes is cut into the messages that were sent, and nothing that comes does more than end it."""

from __future__ import annotations

import logging
import struct
import time
from typing import Any

from controller import ryu_compat

ryu_compat.prepare()

import pytest  # noqa: E402 (Ryu first)
import ryu.base.app_manager  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from ryu.controller import ofp_event  # noqa: E402
from ryu.controller.handler import (  # noqa: E402
    CONFIG_DISPATCHER,
    DEAD_DISPATCHER,
    HANDSHAKE_DISPATCHER,
    MAIN_DISPATCHER,
)
from ryu.lib import hub  # noqa: E402
from ryu.ofproto import ofproto_protocol  # noqa: E402
from ryu.ofproto import ofproto_v1_3 as ofp  # noqa: E402

from controller.southbound.limits.packet_budget import BACKLOG, GUARANTEED, PORT  # noqa: E402
from controller.southbound.openflow.connections import connection as connections  # noqa: E402
from controller.southbound.openflow.connections import packet_in  # noqa: E402
from controller.southbound.openflow.connections.connection import FIRST_XID, MOST_PORTS, SwitchConnection  # noqa: E402
from controller.southbound.openflow.connections.connection_context import ConnectionContext  # noqa: E402
from controller.southbound.openflow.connections.packet_in import PacketIn  # noqa: E402
from controller.southbound.wire.message_check import header  # noqa: E402
from tests import openflow_writer as writer  # noqa: E402
from tests.fake_switch import encode  # noqa: E402
from tests.rig.switches.rogue import packet_in as packet_in_message  # noqa: E402
from tests.rig.switches.rogue import ports  # noqa: E402
from tests.unit.laws import examples  # noqa: E402
from tests.unit.southbound.openflow_grammar import message, mutated, valid  # noqa: E402

FRAME = bytes(60)
together = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(50, 300))


class Brick:
    """Ryu's dispatcher, as far as a connection needs it; it keeps what applications would be told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.observers = {getattr(ofp_event, name): {"app": set()} for name in connections._EVENTS.values()}
        self.event_handlers: dict[Any, Any] = {}

    def send_event_to_observers(self, event: Any, _state: str) -> None:
        if hasattr(event, "msg"):
            self.told.append(event.msg)

    def get_handlers(self, _event: Any) -> list[Any]:
        return []


class Wire:
    """A socket on which all that will ever come has come."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks, self.sent = chunks, b""

    def recv(self, _size: int) -> bytes:
        return self._chunks.pop(0) if self._chunks else b""

    def sendall(self, data: bytes) -> None:
        self.sent += data

    def _nothing(self, *_: object) -> None:
        pass

    setsockopt = settimeout = shutdown = close = _nothing


@pytest.fixture
def brick(monkeypatch: pytest.MonkeyPatch) -> Brick:
    made = Brick()
    monkeypatch.setattr(ofproto_protocol, "_supported_versions", {ofp.OFP_VERSION})
    monkeypatch.setattr(ryu.base.app_manager, "lookup_service_brick", lambda _name: made)
    # Rests of others are no matter here.
    monkeypatch.setattr(hub, "sleep", lambda _seconds=0: None)
    return made


def context() -> ConnectionContext:
    return ConnectionContext(name=hex, changed=lambda: None, clock=time.perf_counter)


def reading(chunks: list[bytes], state: str = MAIN_DISPATCHER) -> SwitchConnection:
    made = SwitchConnection(context(), Wire(chunks), ("10.0.0.9", 1))
    made.id, made.state = 7, state
    made.ports = dict.fromkeys(range(1, 65))
    return made


def cut(data: bytes, at: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in at} | {len(data)})
    return [piece for piece in (data[a:b] for a, b in zip([0, *ends], ends, strict=False)) if piece]


@together
@given(st.lists(valid.filter(lambda data: data[0] == 4), min_size=1, max_size=6), st.lists(st.integers(1, 600)))
def test_however_the_bytes_are_cut_the_same_messages_come_in_the_same_order(
    brick: Brick, monkeypatch: pytest.MonkeyPatch, sent: list[bytes], at: list[int]
) -> None:
    got: list[bytes] = []
    one = reading(cut(b"".join(sent), at))
    monkeypatch.setattr(one, "_receive", lambda _kind, _xid, data: got.append(data))
    one._recv_loop()
    echoes = (ofp.OFPT_ECHO_REQUEST, ofp.OFPT_ECHO_REPLY)
    assert got == [data for data in sent if data[1] not in echoes]
    assert one.echoed == sum(data[1] == ofp.OFPT_ECHO_REPLY for data in sent)
    assert one.unfinished_since is None


@together
@given(
    st.lists(st.one_of(mutated(), valid, st.binary(max_size=80)), max_size=5),
    st.lists(st.integers(1, 400), max_size=5),
    st.sampled_from((HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER)),
)
def test_whatever_comes_ends_the_connection_at_most(brick: Brick, sent: list[bytes], at: list[int], state: str) -> None:
    one = reading(cut(b"".join(sent), at), state)
    one._recv_loop()
    assert sum(one.context.ends.values()) == (one.state == DEAD_DISPATCHER)


def test_the_hello_is_text_to_mininet_which_reads_it_when_it_checks_that_a_controller_listens(brick: Brick) -> None:
    sent: list[bytes] = []
    one = reading([])
    one._recv_loop = lambda: sent.append(one._outbox.take()[0])  # type: ignore[method-assign]
    one.serve()
    assert sent == [message(ofp.OFPT_HELLO, b"", FIRST_XID)]
    # A byte 1 starts the number of a process there, and 127 ends a command's output.
    assert max(sent[0]) < 127
    assert 1 not in sent[0]


def test_an_echo_is_answered_ahead_of_packets_that_came_before_it_and_of_all_that_waits_to_be_sent(
    brick: Brick,
) -> None:
    seen: list[bytes] = []
    one = reading([packet_in_message(1, FRAME) * 100 + message(ofp.OFPT_ECHO_REQUEST, b"alive?", 9)])
    one._outbox.put(b"what waits")
    packet_in.handle_with(lambda *_: bool(seen.append(one._outbox.take()[0])) if not seen else True)
    try:
        one._recv_loop()
    finally:
        packet_in.handle_with(None)
    assert seen == [message(ofp.OFPT_ECHO_REPLY, b"alive?", 9) + b"what waits"]


def test_a_flood_from_one_port_leaves_another_port_its_packets(brick: Brick) -> None:
    heard: list[int] = []

    def hear(_datapath: object, packet: PacketIn) -> bool:
        heard.append(packet.in_port)
        return True

    flood, uplink = packet_in_message(1, FRAME), packet_in_message(2, FRAME)
    one = reading([flood * 500 + uplink + flood * 100])
    packet_in.handle_with(hear)
    try:
        one._recv_loop()
    finally:
        packet_in.handle_with(None)
    assert heard.count(2) == 1
    assert heard.count(1) <= BACKLOG * (GUARANTEED + PORT) < 600
    assert one.context.dropped[7] == 600 - heard.count(1)


def test_all_ports_of_a_switch_that_is_not_intended_share_the_packets_of_one(brick: Brick) -> None:
    heard: list[int] = []

    def hear(_datapath: object, packet: PacketIn) -> bool:
        heard.append(packet.in_port)
        return True

    for intended in (True, False):
        heard.clear()
        one = reading([b"".join(packet_in_message(port, FRAME) for port in range(1, 501))])
        one.ports, one.intended = dict.fromkeys(range(1, 501)), intended
        packet_in.handle_with(hear)
        try:
            one._recv_loop()
        finally:
            packet_in.handle_with(None)
        assert len(heard) == (500 if intended else BACKLOG * (GUARANTEED + PORT))


def test_ports_beyond_the_bound_are_cut_off_a_description_and_dropped_as_changes(
    brick: Brick, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = b"".join(
        writer.multipart(ofp.OFPMP_PORT_DESC, 1, map(encode.port, ports(MOST_PORTS + 300)), part_bytes=60_000)
    )
    one = reading([described], CONFIG_DISPATCHER)
    one.ports = {}
    store = brick.send_event_to_observers

    def keep(event: Any, state: str) -> None:
        store(event, state)
        one.ports.update({port.port_no: port for port in getattr(getattr(event, "msg", None), "body", ())})

    monkeypatch.setattr(brick, "send_event_to_observers", keep)
    one._recv_loop()
    assert set(one.ports) == set(range(1, MOST_PORTS + 1))
    assert len(one.context.notices.texts()) == 1
    brick.told.clear()
    one.state = MAIN_DISPATCHER
    last = ports(MOST_PORTS + 1)[-1]
    for reason, port in ((ofp.OFPPR_ADD, last), (ofp.OFPPR_DELETE, last), (ofp.OFPPR_MODIFY, ports(1)[0])):
        one._receive(ofp.OFPT_PORT_STATUS, 0, encode.port_status(reason, port))
    assert [told.desc.port_no for told in brick.told] == [1]


def test_unsolicited_answers_are_dropped_and_a_second_hello_or_features_changes_nothing(
    brick: Brick,
) -> None:
    features = encode.features(1, 99, 8)
    unasked = [writer.hello(), features, b"".join(writer.multipart(ofp.OFPMP_FLOW, 5, (), part_bytes=9))]
    one = reading([b"".join(unasked)])
    one._recv_loop()
    assert brick.told == []
    again = reading([features], CONFIG_DISPATCHER)
    again._recv_loop()
    assert brick.told == []


@pytest.mark.parametrize("kind", [ofp.OFPT_PACKET_OUT, ofp.OFPT_METER_MOD, 30, 99, 255])
def test_messages_of_types_that_switches_do_not_send_are_dropped_and_the_connection_stays(
    brick: Brick, caplog: pytest.LogCaptureFixture, kind: int
) -> None:
    answer = encode.port_status(ofp.OFPPR_MODIFY, ports(1)[0])
    with caplog.at_level(logging.WARNING, "fairspine.southbound"):
        one = reading([message(kind, b"anything", 5), answer])
        one._recv_loop()
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith(f"sends message type {kind}, which are dropped")
    assert [event.desc.port_no for event in brick.told] == [1]


def test_a_switch_of_another_version_gets_an_error_and_the_log_has_one_line(
    brick: Brick, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.WARNING, "fairspine.southbound"):
        one = reading([message(0, b"", version=1)], HANDSHAKE_DISPATCHER)
        one.id = None
        said: list[bytes] = []
        monkeypatch.setattr(one._outbox, "offer", lambda data, ahead=False: not said.append(data))
        one._recv_loop()
    (error,) = said
    assert header(error).type == ofp.OFPT_ERROR
    assert struct.unpack_from("!HH", error, 8) == (ofp.OFPET_HELLO_FAILED, ofp.OFPHFC_INCOMPATIBLE)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == "the connection from 10.0.0.9 is closed: it supports OpenFlow 1.0, not 1.3"


@pytest.mark.parametrize(
    "broken",
    [
        message(ofp.OFPT_BARRIER_REPLY, b"too long", 77),
        message(ofp.OFPT_PORT_STATUS, bytes(90), 77),
        message(ofp.OFPT_BARRIER_REPLY, b"", 77, version=2),
        struct.pack("!BBHI", 4, ofp.OFPT_BARRIER_REPLY, 3, 77),
    ],
    ids=["short", "long", "other version", "impossible length"],
)
def test_an_error_answers_the_message_that_is_broken_and_not_those_before_it(
    brick: Brick, broken: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = message(ofp.OFPT_ECHO_REPLY, b"well", 5) + message(ofp.OFPT_BARRIER_REPLY, b"", 6)
    after = message(ofp.OFPT_BARRIER_REPLY, b"", 8)
    one = reading([before + broken + after])
    said: list[bytes] = []
    monkeypatch.setattr(one._outbox, "offer", lambda data, ahead=False: not said.append(data))
    one._recv_loop()
    (error,) = said
    assert header(error) == (4, ofp.OFPT_ERROR, len(error), 77)
    assert struct.unpack_from("!HH", error, 8) == (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_BAD_LEN)
    assert error[12:] == broken[:64]


def test_a_failure_of_ryus_parser_is_one_line_without_a_traceback(
    brick: Brick, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = struct.pack("!HBBIB3x", 0xFFFF, 5 << 1, 5, 0x4F4E4600, 1)
    removed = message(ofp.OFPT_FLOW_REMOVED, bytes(40) + struct.pack("!HH", 1, 13) + unknown)
    with caplog.at_level(logging.WARNING):
        one = reading([removed * 3])
        one._recv_loop()
    assert one.state == DEAD_DISPATCHER
    (line,) = [record.getMessage() for record in caplog.records]
    assert "FLOW_REMOVED: cannot be parsed: KeyError" in line
    assert all(record.exc_info is None for record in caplog.records)
