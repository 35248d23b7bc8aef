"""Frames of the rogue host, read by Ryu's packet library, and what is noted of them."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from ryu.lib.packet import arp, lldp, packet

from tests.campaigns.attacks import frames
from tests.campaigns.attacks.frames import AttackedHost
from tests.campaigns.attacks.order import AttackOrder, read
from tests.campaigns.attacks.transcript import MOST_BYTES, Transcript

ME = AttackedHost("h8", "10.0.4.2", "02:00:0a:00:04:02", 4, 2)
VICTIMS = [
    AttackedHost("h1", "10.0.1.1", "02:00:0a:00:01:01", 1, 1),
    AttackedHost("h2", "10.0.1.2", "02:00:0a:00:01:02", 1, 2),
]
SEEDS = st.integers(0, 2**64 - 1)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_forged_discovery_packets_name_a_switch_and_a_port_as_ryu_does(dpid: int, port: int) -> None:
    """As ``ryu.topology.switches.LLDPPacket`` writes and reads them."""
    found = packet.Packet(frames.ryu_lldp(ME.hardware, dpid, port)).get_protocol(lldp.lldp)
    chassis, number, *_ = found.tlvs
    assert (chassis.subtype, chassis.chassis_id) == (lldp.ChassisID.SUB_LOCALLY_ASSIGNED, f"dpid:{dpid:016x}".encode())
    assert (number.subtype, number.port_id) == (lldp.PortID.SUB_PORT_COMPONENT, port.to_bytes(4, "big"))


@given(SEEDS)
def test_forged_arp_is_arp_in_the_name_of_another_host(seed: int) -> None:
    made = frames.forged_arp(random.Random(seed), ME, VICTIMS)
    found = packet.Packet(made).get_protocol(arp.arp)
    assert found.src_ip in {ME.ip, *(victim.ip for victim in VICTIMS)}
    assert found.src_mac in {ME.mac, *(victim.mac for victim in VICTIMS)}


def test_forged_arp_often_has_both_addresses_of_its_victim() -> None:
    rng = random.Random(1)
    both = 0
    for _ in range(200):
        found = packet.Packet(frames.forged_arp(rng, ME, VICTIMS)).get_protocol(arp.arp)
        both += any((found.src_ip, found.src_mac) == (victim.ip, victim.mac) for victim in VICTIMS)
    assert both > 50


@given(SEEDS)
def test_other_vendors_lldp_is_valid(seed: int) -> None:
    made = frames.foreign_lldp(random.Random(seed), ME.hardware)
    assert packet.Packet(made).get_protocol(lldp.lldp) is not None


@given(SEEDS)
def test_every_frame_fits_the_hosts_interface(seed: int) -> None:
    rng = random.Random(seed)
    whole = frames.ryu_lldp(ME.hardware, 1, 1)
    for made in (
        frames.odd_frame(rng, ME, VICTIMS),
        frames.malformed_arp(rng, frames.forged_arp(rng, ME, VICTIMS)),
        frames.malformed_lldp(rng, whole),
        frames.random_arp(rng),
        frames.poisonous_arp(rng, ME, VICTIMS),
    ):
        assert 14 <= len(made) <= frames.LONGEST_FRAME + 14


def test_a_transcript_has_every_byte_that_was_sent_and_counts_what_is_beyond_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "transcript.txt"
    with Transcript(path) as transcript:
        for _ in range(3):
            transcript.sent(1, b"\x01\x02")
        transcript.sent(2, bytes(MOST_BYTES))
        transcript.sent(3, b"\xff")
    lines = path.read_text().splitlines()
    assert lines[0].endswith(" 1 0102 *3")
    assert len(lines) == 3
    assert lines[-1] == f"total 5 sends, {MOST_BYTES + 7} bytes"


def test_an_order_is_read_as_it_was_written(tmp_path: Path) -> None:
    order = AttackOrder(
        "forged arp",
        "1/2/forged arp",
        2.0,
        "out.txt",
        ("127.0.0.1", 6653),
        ("127.0.0.1", 8080),
        77,
        "h8-eth0",
        ME,
        tuple(VICTIMS),
        {1: (1, 2, 3), 2**60: (1,)},
        1,
        0,
        ("leaf1-eth3",),
        ("00ff",),
    )
    order.write(tmp_path / "order.json")
    assert read(tmp_path / "order.json") == order
