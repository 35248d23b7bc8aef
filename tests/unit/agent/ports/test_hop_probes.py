"""Laws of probes as packets, and of the messages that quote them."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.probing import checksum
from agent.ports.hop_probes import LONGEST_SECONDS, ProbePackets
from agent.ports.port_search import HopProbe
from agent.ports.probe_sockets import TIME_EXCEEDED, UNREACHABLE
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT

SOURCE, ROUTER = IPv4Address("10.0.1.1"), IPv4Address("10.255.0.1")
addresses = st.integers(1, (1 << 32) - 1).map(IPv4Address)
probes = st.builds(HopProbe, addresses, st.integers(1, MAX_PORT), st.integers(1, 255))


def message(packet: bytes, kind: int = TIME_EXCEEDED, code: int = 0, quoted: int = 28) -> bytes:
    """A router's message about a packet, whose time to live has ended, with its own IP header."""
    changed = packet[:8] + b"\0" + packet[9:]
    body = struct.pack("!BBHI", kind, code, 0, 0) + changed[:quoted]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 60, socket.IPPROTO_ICMP, 0)
    return head + ROUTER.packed + SOURCE.packed + body


@given(probe=probes, port=st.integers(1, MAX_PORT), kind=st.sampled_from([TIME_EXCEEDED, UNREACHABLE]))
def test_a_probe_is_a_valid_datagram_and_its_message_names_it_once(probe: HopProbe, port: int, kind: int) -> None:
    packets = ProbePackets(SOURCE, port)
    packet = packets.packet(probe, 0.0)
    assert (packet[12:16], packet[16:20], packet[8], packet[9]) == (SOURCE.packed, probe.dst.packed, probe.hop, 17)
    assert struct.unpack("!HHH", packet[20:26]) == (probe.port, port, len(packet) - 20)
    pseudo = packet[12:20] + struct.pack("!BBH", 0, 17, len(packet) - 20)
    assert checksum(pseudo + packet[20:]) in (0, 0xFFFF)
    answer = packets.answer(message(packet, kind))
    assert answer is not None
    assert (answer.probe, answer.router, answer.unreachable) == (probe, ROUTER, kind == UNREACHABLE)
    assert packets.answer(message(packet, kind)) is None


@given(probe=probes, data=st.data())
def test_a_message_that_does_not_quote_the_probe_exactly_is_ignored(probe: HopProbe, data: st.DataObject) -> None:
    packets = ProbePackets(SOURCE, ROCE_PORT)
    packet = packets.packet(probe, 0.0)
    # Identification, addresses, ports and checksum; what routers change on the way may differ.
    place = data.draw(st.sampled_from([4, 5, *range(12, 24), 26, 27]))
    forged = bytearray(packet)
    forged[place] ^= data.draw(st.integers(1, 255))
    assert packets.answer(message(bytes(forged))) is None
    assert packets.answer(message(packet, code=1)) is None
    assert packets.answer(message(packet, kind=0)) is None
    assert packets.answer(message(packet, quoted=27)) is None
    assert packets.answer(message(packet)) is not None


@given(data=st.binary(max_size=64))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    assert ProbePackets(SOURCE, ROCE_PORT).answer(data) is None


def test_two_probes_alike_are_two() -> None:
    packets, probe = ProbePackets(SOURCE, ROCE_PORT), HopProbe(IPv4Address("10.0.2.1"), 50000, 2)
    first, second = packets.packet(probe, 0.0), packets.packet(probe, 0.0)
    assert first != second
    assert packets.answer(message(second)) is not None
    assert packets.answer(message(first)) is not None


def test_a_message_that_comes_much_too_late_is_ignored() -> None:
    packets, probe = ProbePackets(SOURCE, ROCE_PORT), HopProbe(IPv4Address("10.0.2.1"), 50000, 2)
    late = packets.packet(probe, 0.0)
    packets.packet(probe, 2 * LONGEST_SECONDS)
    assert packets.answer(message(late)) is None
