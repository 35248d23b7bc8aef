"""Laws of probes with the ports of a connection, and of the messages that quote them."""

from __future__ import annotations

import socket
import struct
from ipaddress import IPv4Address

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.probing import checksum
from agent.ports.probe_sockets import TIME_EXCEEDED, UNREACHABLE
from agent.tcp.tcp_probes import PortPair, TcpProbe, TcpProbePackets
from controller.model.packets.port_numbers import MAX_PORT

SOURCE, ROUTER = IPv4Address("10.0.1.1"), IPv4Address("10.255.0.1")
ports = st.integers(1, MAX_PORT)
probes = st.builds(
    TcpProbe, st.integers(1, (1 << 32) - 1).map(IPv4Address), st.builds(PortPair, ports, ports), st.integers(1, 255)
)


def message(packet: bytes, kind: int = TIME_EXCEEDED, code: int = 0, quoted: int = 28) -> bytes:
    """A router's message about a packet, whose time to live has ended, with its own IP header."""
    changed = packet[:8] + b"\0" + packet[9:]
    body = struct.pack("!BBHI", kind, code, 0, 0) + changed[:quoted]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 60, socket.IPPROTO_ICMP, 0)
    return head + ROUTER.packed + SOURCE.packed + body


@given(probe=probes, kind=st.sampled_from([TIME_EXCEEDED, UNREACHABLE]))
def test_a_probe_is_a_valid_segment_and_its_message_names_it_once(probe: TcpProbe, kind: int) -> None:
    packets = TcpProbePackets(SOURCE)
    packet = packets.packet(probe)
    assert (packet[12:16], packet[16:20], packet[8], packet[9]) == (SOURCE.packed, probe.dst.packed, probe.hop, 6)
    assert struct.unpack("!H", packet[2:4]) == (len(packet),)
    assert struct.unpack("!HH", packet[20:24]) == probe.ports
    pseudo = packet[12:20] + struct.pack("!BBH", 0, 6, len(packet) - 20)
    assert checksum(pseudo + packet[20:]) in (0, 0xFFFF)
    answer = packets.answer(message(packet, kind))
    assert answer == (probe, ROUTER, kind == UNREACHABLE)
    assert packets.answer(message(packet, kind)) is None


@given(probe=probes, data=st.data())
def test_a_message_that_does_not_quote_the_probe_exactly_is_ignored(probe: TcpProbe, data: st.DataObject) -> None:
    packets = TcpProbePackets(SOURCE)
    packet = packets.packet(probe)
    # Identification, addresses, ports and sequence number; what routers change on the way may differ.
    place = data.draw(st.sampled_from([4, 5, *range(12, 28)]))
    forged = bytearray(packet)
    forged[place] ^= data.draw(st.integers(1, 255))
    assert packets.answer(message(bytes(forged))) is None
    assert packets.answer(message(packet, code=1)) is None
    assert packets.answer(message(packet, kind=0)) is None
    assert packets.answer(message(packet, quoted=27)) is None
    assert packets.answer(message(packet)) is not None


@given(data=st.binary(max_size=64))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    packets = TcpProbePackets(SOURCE)
    assert packets.answer(data) is None
    assert packets.answer(message(data)) is None
