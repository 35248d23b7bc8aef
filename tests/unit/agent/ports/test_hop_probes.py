"""Laws of probes as packets, and of the messages that quote them."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address, IPv6Address

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.probing import checksum
from agent.ports.hop_probes import LONGEST_SECONDS, ProbePackets
from agent.ports.port_search import HopProbe
from agent.ports.probe_sockets import TIME_EXCEEDED, TIME_EXCEEDED_6, UNREACHABLE, UNREACHABLE_6
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT

SOURCE, ROUTER = IPv4Address("10.0.1.1"), IPv4Address("10.255.0.1")
SOURCE_6, ROUTER_6 = IPv6Address("fd00:0:0:1::1"), IPv6Address("fd00:fab::1")
addresses = st.integers(1, (1 << 32) - 1).map(IPv4Address)
probes = st.builds(HopProbe, addresses, st.integers(1, MAX_PORT), st.integers(1, 255))
probes_6 = st.builds(
    HopProbe, st.integers(1, (1 << 128) - 1).map(IPv6Address), st.integers(1, MAX_PORT), st.integers(1, 255)
)


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


def message_6(packet: bytes, kind: int = TIME_EXCEEDED_6, code: int = 0, quoted: int = 1232) -> bytes:
    """The same of IPv6, with a header as ``ProbeSockets`` gives one."""
    changed = packet[:7] + b"\0" + packet[8:]
    body = struct.pack("!BBHI", kind, code, 0, 0) + changed[:quoted]
    head = struct.pack("!IHBB", 6 << 28, len(body), socket.IPPROTO_ICMPV6, 64)
    return head + ROUTER_6.packed + SOURCE_6.packed + body


@given(probe=probes_6, port=st.integers(1, MAX_PORT), kind=st.sampled_from([TIME_EXCEEDED_6, UNREACHABLE_6]))
def test_a_probe_of_ipv6_is_a_valid_datagram_and_its_message_names_it_once(
    probe: HopProbe, port: int, kind: int
) -> None:
    packets = ProbePackets(SOURCE_6, port)
    packet = packets.packet(probe, 0.0)
    first, size, following, hop = struct.unpack("!IHBB", packet[:8])
    assert (first >> 20, size, following, hop) == (6 << 8, len(packet) - 40, 17, probe.hop)
    assert packet[8:40] == SOURCE_6.packed + probe.dst.packed
    assert struct.unpack("!HHH", packet[40:46]) == (probe.port, port, size)
    assert checksum(packet[8:40] + struct.pack("!IxxxB", size, 17) + packet[40:]) in (0, 0xFFFF)
    answer = packets.answer(message_6(packet, kind))
    assert answer is not None
    assert (answer.probe, answer.router, answer.unreachable) == (probe, ROUTER_6, kind == UNREACHABLE_6)
    assert packets.answer(message_6(packet, kind)) is None


@given(probe=probes_6, data=st.data())
def test_a_message_that_does_not_quote_the_probe_of_ipv6_exactly_is_ignored(
    probe: HopProbe, data: st.DataObject
) -> None:
    packets = ProbePackets(SOURCE_6, ROCE_PORT)
    packet = packets.packet(probe, 0.0)
    # Flow label, addresses, ports and checksum.
    place = data.draw(st.sampled_from([2, 3, *range(8, 44), 46, 47]))
    forged = bytearray(packet)
    forged[place] ^= data.draw(st.integers(1, 255))
    assert packets.answer(message_6(bytes(forged))) is None
    assert packets.answer(message_6(packet, code=1)) is None
    assert packets.answer(message_6(packet, kind=128)) is None
    assert packets.answer(message_6(packet, quoted=47)) is None
    assert packets.answer(message_6(packet, quoted=48)) is not None


@given(data=st.binary(max_size=128))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    for source in (SOURCE, SOURCE_6):
        assert ProbePackets(source, ROCE_PORT).answer(data) is None


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
