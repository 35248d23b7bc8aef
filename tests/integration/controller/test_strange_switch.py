"""A switch that is not in the fabric file does not delay others, even if it refuses or ignores requests."""

from __future__ import annotations

import struct
import threading

from ryu.ofproto import ofproto_v1_3 as ofp

from controller.southbound.rules.priorities import FLOW
from controller.southbound.rules.rule import COOKIE_PREFIX
from tests import openflow_writer as writer
from tests.fake_switch import encode
from tests.fake_switch.decode import header
from tests.fake_switch.refusal import table_full
from tests.rig.both_kinds import Setup
from tests.rig.checks.refusals import FABRIC, LARGE, SMALL, plan, settled, with_job
from tests.rig.switches.rogue import Rogue
from tests.rig.waiting import eventually, wait_for_pings

PART_SECONDS = 0.5
"""Between two parts of a reply without end; the controller waits 5 s for each."""


def asks_for_rules(message: bytes) -> bool:
    """Whether a message requests flow statistics."""
    return header(message).type == ofp.OFPT_MULTIPART_REQUEST and message[8:10] == b"\0\1"


def test_a_reply_that_never_ends_holds_up_no_other_switch(setup: Setup) -> None:
    fakes, controller, address = with_job(setup, FABRIC, "small", SMALL)
    asked: list[int] = []
    over = threading.Event()

    def answers(message: bytes) -> bytes | None:
        if asks_for_rules(message):
            asked.append(header(message).xid)
            return b""
        return None

    def drip(rogue: Rogue) -> None:
        while not over.wait(PART_SECONDS):
            part = struct.pack("!HH4x", ofp.OFPMP_FLOW, ofp.OFPMPF_REPLY_MORE)
            rogue.send(writer.message(ofp.OFPT_MULTIPART_REPLY, asked[0], part))

    with Rogue(address, answers=answers) as rogue:
        rogue.join()
        eventually(lambda: bool(asked), "its rules are asked for")
        dripping = threading.Thread(target=drip, args=(rogue,))
        dripping.start()
        try:
            fakes.set_cable("leaf1-spine1", up=False)
            wait_for_pings(fakes)
            assert controller.put("/v1/jobs/large", LARGE).status == 201
            settled(controller)
        finally:
            over.set()
            dripping.join()
        assert not rogue.ended


def test_a_switch_that_refuses_to_give_up_a_planned_rule_keeps_no_plan_from_the_others(setup: Setup) -> None:
    _, controller, address = with_job(setup, FABRIC, "small", SMALL)
    refusals: list[int] = []

    def answers(message: bytes) -> bytes | None:
        head = header(message)
        if asks_for_rules(message):
            match = struct.pack("!HH4x", 1, 4)
            entry = struct.pack("!HBxIIHHHH4xQQQ", 56, 0, 0, 0, FLOW, 0, 0, 0, COOKIE_PREFIX << 48, 0, 0) + match
            return b"".join(writer.multipart(ofp.OFPMP_FLOW, head.xid, [entry], part_bytes=32_000))
        if head.type == ofp.OFPT_FLOW_MOD:
            refusals.append(head.xid)
            return encode.error(table_full(), head.xid, message)
        return None

    with Rogue(address, answers=answers) as rogue:
        rogue.join()
        eventually(lambda: bool(refusals), "the rule is removed")
        before = len(refusals)
        assert controller.put("/v1/jobs/large", LARGE).status == 201
        settled(controller)
        eventually(lambda: len(refusals) > before, "the removal is tried again")
        settled(controller)
        assert plan(controller)["refused"] is None
        assert not rogue.ended
