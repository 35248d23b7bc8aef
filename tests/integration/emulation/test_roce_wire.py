"""Packets of endpoints, decoded by scapy; and endpoints on slow and lossy links."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pytest
from scapy.contrib.roce import AETH, BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller.model.packets.port_numbers import ROCE_PORT
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import PortShare, run_collectives
from emulation.roce.sender import SenderOptions
from emulation.roce.wire import ACKNOWLEDGE, WRITE_FIRST, WRITE_LAST, WRITE_MIDDLE, WRITE_ONLY
from tests.rig.hosts.roce_hosts import PATIENT, ROCE, Cable, cable, roce_server
from tests.rig.http.client import PATIENCE_SECONDS
from tests.roce_routes import numbered_routes

pytestmark = pytest.mark.switches


@pytest.fixture
def wire() -> Iterator[Cable]:
    with cable() as made:
        yield made


def client(wire: Cable, *options: str) -> dict[str, Any]:
    """Write from side 0 to a server on side 1."""
    with roce_server(wire.addresses[1], wire.command(1, [])) as server:
        argv = [*ROCE, "client", wire.addresses[1], "--format", "json", "--retries", str(PATIENT), *options]
        done = subprocess.run(
            wire.command(0, argv), capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
    assert json.loads(server.output)["intact"]  # type: ignore[attr-defined]
    return dict(json.loads(done.stdout))


def spawn_on(wire: Cable) -> Any:
    def spawn(host: str, argv: Sequence[str], *, stdin: int, stdout: int, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
        side = ["a", "b"].index(host)
        return subprocess.Popen(wire.command(side, argv), stdin=stdin, stdout=stdout, stderr=stderr)

    return spawn


def roce_packets(frames: list[bytes]) -> list[Ether]:
    packets = [Ether(frame) for frame in frames]
    return [packet for packet in packets if UDP in packet and packet[UDP].dport == ROCE_PORT]


def test_scapy_reads_a_capture_as_roce_with_a_right_icrc_in_every_packet(wire: Cable) -> None:
    with wire.capture(1) as frames:
        result = client(
            wire, "--bytes", "30001", "--message-bytes", "10000", "--udp-src", "50007,50009", "--rate-mbps", "100"
        )
    packets = roce_packets(frames)
    assert len(packets) > result["packets"]
    for packet in packets:
        assert packet[BTH].icrc == int.from_bytes(packet[BTH].compute_icrc(bytes(packet[BTH])), "big")
        assert (packet[IP].id, str(packet[IP].flags)) == (0, "DF")
        assert packet[UDP].chksum == 0
        assert packet[BTH].version == 0
    requests = [packet for packet in packets if packet[IP].src == wire.addresses[0]]
    assert {packet[UDP].sport for packet in requests} == {50007, 50009}
    acks = [packet for packet in packets if packet[IP].src == wire.addresses[1]]
    assert all(packet[BTH].opcode == ACKNOWLEDGE and AETH in packet for packet in acks)
    assert {packet[UDP].sport for packet in acks} == {ROCE_PORT}


def test_the_packets_of_each_message_are_first_middle_last_or_only_with_consecutive_numbers(wire: Cable) -> None:
    with wire.capture(1) as frames:
        client(wire, "--bytes", "25000", "--message-bytes", "12000", "--mtu", "4096", "--udp-src", "50007")
    requests = [packet for packet in roce_packets(frames) if packet[IP].src == wire.addresses[0]]
    # 12,000 bytes are three packets, the 1,000 that are left are one.
    message = [WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST]
    assert [packet[BTH].opcode for packet in requests] == [*message, *message, WRITE_ONLY]
    first = requests[0][BTH].psn
    assert [packet[BTH].psn for packet in requests] == [(first + i) % 2**24 for i in range(7)]
    assert [bool(packet[BTH].ackreq) for packet in requests] == [False, False, True, False, False, True, True]
    lengths = [
        int.from_bytes(bytes(packet[BTH].payload)[12:16], "big")
        for packet in requests
        if packet[BTH].opcode in (WRITE_FIRST, WRITE_ONLY)
    ]
    assert lengths == [12000, 12000, 1000]
    acks = [packet for packet in roce_packets(frames) if packet[IP].src == wire.addresses[1]]
    assert [packet[AETH].msn for packet in acks] == [1, 2, 3]
    assert {packet[AETH].syndrome for packet in acks} == {0x1F}


def test_a_queue_that_overflows_costs_naks_and_packets_sent_again_but_no_byte(wire: Cable) -> None:
    wire.shape(0, 20, queue_packets=8)
    result = client(wire, "--bytes", "3M", "--rate-mbps", "1000", "--window", "64")
    assert result["sequence_naks"] + result["timeouts"] > 0
    assert result["retransmissions"] > 0
    assert result["bytes"] == 3 << 20
    assert result["packets"] == 3 * 256 + result["retransmissions"]
    assert result["server"]["intact"]
    assert result["server"]["bytes"] == 3 << 20
    assert result["rate_gbps"] < 1.0


def test_a_flow_on_a_slow_cable_uses_the_cable_and_no_more(wire: Cable) -> None:
    wire.shape(0, 20, queue_packets=200)
    result = client(wire, "--bytes", "3M", "--rate-mbps", "20")
    assert 0.002 < result["goodput_gbps"] < 0.020  # wide: what shares the processors may hold up endpoints for long


def test_pieces_of_a_split_flow_carry_their_shares_of_the_bytes(wire: Cable) -> None:
    result = client(
        wire, "--bytes", "1000000", "--udp-src", "50000,50001", "--shares", "0.25,0.75", "--rate-mbps", "100"
    )
    assert [flow["bytes"] for flow in result["flows"]] == [250_000, 750_000]
    assert result["flows"][1]["rate_gbps"] == pytest.approx(3 * result["flows"][0]["rate_gbps"])


def test_an_all_reduce_over_a_cable_that_loses_packets_gives_the_right_sums(wire: Cable) -> None:
    # A window of twice the queue loses packets in most windows, and half of each window arrives.
    for side in (0, 1):
        wire.shape(side, 40, queue_packets=16)
    spec = CollectiveSpec("a", "dp0", ("a", "b"), bytes=1 << 20)
    routes = {**numbered_routes([spec]), ("a", "dp0", "a", "b"): (PortShare(50000, 0.5), PortShare(50001, 0.5))}
    hosts = dict(zip(("a", "b"), wire.addresses, strict=True))
    options = SenderOptions(line_rate=1e9, window=32, retries=PATIENT)
    (result,) = run_collectives(hosts, spawn_on(wire), [spec], routes, options=options, timeout=200)
    assert result.checked
    assert result.wrong == ()
    assert result.retransmissions > 0
    assert result.bytes == 2 * (1 << 20)


def test_the_packets_of_a_queue_pair_have_its_dscp_and_a_right_icrc(wire: Cable) -> None:
    spec = CollectiveSpec("a", "dp0", ("a", "b"), bytes=1 << 16)
    routes = {
        **numbered_routes([spec]),
        ("a", "dp0", "a", "b"): (PortShare(50000, 0.5, dscp=24), PortShare(50001, 0.5)),
    }
    hosts = dict(zip(("a", "b"), wire.addresses, strict=True))
    options = SenderOptions(line_rate=1e8, retries=PATIENT)
    with wire.capture(1) as frames:
        (result,) = run_collectives(hosts, spawn_on(wire), [spec], routes, options=options, timeout=200)
    assert result.checked
    requests = [packet for packet in roce_packets(frames) if packet[IP].src == wire.addresses[0]]
    marked = {(packet[UDP].sport, packet[IP].tos >> 2) for packet in requests if packet[UDP].sport != ROCE_PORT}
    assert marked == {(50000, 24), (50001, 0)}
    for packet in requests:
        assert packet[BTH].icrc == int.from_bytes(packet[BTH].compute_icrc(bytes(packet[BTH])), "big")


def test_packets_too_large_for_the_interface_are_one_line_and_exit_code_2() -> None:
    with cable(mtu=1500) as wire, roce_server(wire.addresses[1], wire.command(1, [])):
        argv = wire.command(0, [*ROCE, "client", wire.addresses[1], "--bytes", "1M"])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "mtu" in done.stderr
        small = subprocess.run(
            [*argv, "--mtu", "1024"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )
        assert small.returncode == 0, small.stderr
