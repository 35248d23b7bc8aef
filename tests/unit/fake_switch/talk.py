"""Answers of a fake switch, as Ryu's objects."""

from __future__ import annotations

from typing import Any

from ryu.ofproto import ofproto_v1_3_parser as parser

from tests.fake_switch.decode import PROTOCOL, header
from tests.fake_switch.ports import Port
from tests.fake_switch.switch import FakeSwitch


def switch(**options: Any) -> FakeSwitch:
    """Return a switch with ports 1, 2 and 3."""
    ports = (Port(number, f"p{number}", f"02:00:00:00:00:{number:02x}", 10.0) for number in (1, 2, 3))
    return FakeSwitch(7, "seven", ports, **options)


def say(to: FakeSwitch, message: Any, xid: int = 5) -> list[Any]:
    """Send a message (Ryu's object); every answer must carry its transaction id, or none."""
    message.xid, message.buf = xid, bytearray()
    message.serialize()
    answers = []
    for data in to.receive(bytes(message.buf)):
        head = header(data)
        assert head.length == len(data)
        assert head.xid in (xid, 0)
        answers.append(parser.msg_parser(PROTOCOL, head.version, head.type, head.length, head.xid, data))
    return answers


def refusal(answers: list[Any]) -> tuple[int, int] | None:
    """Type and code of the one error among them, if there is one."""
    errors = [(answer.type, answer.code) for answer in answers if isinstance(answer, parser.OFPErrorMsg)]
    assert len(errors) <= 1
    return errors[0] if errors else None
