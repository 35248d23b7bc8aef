"""ARP frames: encoded frames can be decoded, and malformed ones are dropped."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller import ryu_compat

ryu_compat.prepare()

from ryu.lib.packet import arp as ryus  # noqa: E402 (Ryu first)
from ryu.lib.packet import packet  # noqa: E402

from controller.model.network_state import Location, PortId  # noqa: E402
from controller.southbound.hosts.probe_mac import WINDOW, ProbeMac  # noqa: E402
from controller.southbound.openflow.observing import arp  # noqa: E402

macs = st.binary(min_size=6, max_size=6).map(lambda b: bytes([b[0] & 0xFE | 2, *b[1:]]).hex(":"))
addresses = st.tuples(st.integers(1, 126), *[st.integers(0, 255)] * 3).map(lambda p: ".".join(map(str, p)))
TAG = b"\x81\x00\x00\x07"


@given(st.sampled_from([arp.REQUEST, arp.REPLY]), macs, addresses, macs, addresses, st.booleans())
def test_a_frame_says_what_it_was_made_of_tagged_or_not_and_ryu_reads_the_same(
    operation: int, mac: str, ip: str, target_mac: str, target: str, tagged: bool
) -> None:
    frame = arp.frame(arp.BROADCAST, operation, mac, ip, target_mac, target)
    theirs = packet.Packet(frame).get_protocol(ryus.arp)
    assert (theirs.opcode, theirs.src_mac, theirs.src_ip, theirs.dst_mac, theirs.dst_ip) == (
        operation,
        mac,
        ip,
        target_mac,
        target,
    )
    if tagged:
        frame = frame[:12] + TAG + frame[12:]
    assert arp.is_arp(frame)
    assert arp.parse(frame) == arp.Heard(ip, mac, target, operation == arp.REQUEST, target_mac)


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_dropped(raw: bytes) -> None:
    arp.parse(raw)
    arp.parse(bytes(12) + b"\x08\x06" + raw)
    arp.is_arp(raw)


SOUND = arp.frame(arp.BROADCAST, arp.REQUEST, "02:00:00:00:01:01", "10.0.1.1", arp.NOBODY_MAC, "10.0.1.2")


@given(st.data())
def test_a_sound_frame_with_some_bytes_changed_is_read_or_dropped_and_nothing_is_logged(data: st.DataObject) -> None:
    caplog = logging.getLogger()
    frame = bytearray(SOUND)
    for at in data.draw(st.lists(st.integers(12, len(frame) - 1), max_size=5)):
        frame[at] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caplog, "handle", lambda record: pytest.fail(record.getMessage()))
        arp.parse(bytes(frame[: data.draw(st.integers(0, len(frame)))]))


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (14, b"\x00\x06"),  # not over Ethernet
        (16, b"\x86\xdd"),  # not for IPv4
        (18, b"\x08"),
        (19, b"\x10"),
        (20, b"\x00\x09"),  # neither request nor reply
        (22, b"\xff\xff\xff\xff\xff\xff"),
        (22, b"\x00\x00\x00\x00\x00\x00"),
        (28, b"\xe0\x00\x00\x01"),
        (28, b"\x7f\x00\x00\x01"),
        (28, b"\xff\xff\xff\xff"),
    ],
)
def test_what_no_host_can_say_is_dropped_and_known_as_arp(at: int, value: bytes) -> None:
    frame = SOUND[:at] + value + SOUND[at + len(value) :]
    assert arp.parse(frame) is None
    assert arp.is_arp(frame)
    assert arp.parse(SOUND) is not None


def test_an_answer_goes_to_the_asker_and_a_probe_has_no_sender_address() -> None:
    asked = arp.parse(SOUND)
    assert asked is not None
    answer = arp.parse(arp.answer(asked, Location("02:00:00:00:01:02", PortId(1, 2))))
    assert answer == arp.Heard("10.0.1.2", "02:00:00:00:01:02", "10.0.1.1", False, "02:00:00:00:01:01")
    probe = arp.parse(arp.probe("10.0.1.1", "0e:15:00:00:00:01"))
    assert probe == arp.Heard("0.0.0.0", "0e:15:00:00:00:01", "10.0.1.1", True)


@given(addresses, st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1), st.floats(0, 1e6), macs)
def test_only_an_answer_to_a_probe_of_this_port_and_address_proves_anything(
    ip: str, dpid: int, port: int, now: float, mac: str
) -> None:
    macs, at = ProbeMac(b"secret"), PortId(dpid, port)
    asked = macs.of(ip, at, now)
    assert int(asked[:2], 16) & 3 == 2
    assert macs.proves(asked, ip, at, now)
    assert macs.proves(asked, ip, at, now + WINDOW * 0.99)
    assert not macs.proves(asked, ip, at, now + 2 * WINDOW)
    assert not macs.proves(asked, ip, PortId(dpid ^ 1, port), now)
    assert not macs.proves(asked, "10.255.255.1" if ip != "10.255.255.1" else "10.255.255.2", at, now)
    assert not macs.proves(mac, ip, at, now) or mac == asked
    assert not ProbeMac().proves(asked, ip, at, now)
