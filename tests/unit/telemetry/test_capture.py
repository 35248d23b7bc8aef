"""Captures: RoCE packets are found in any encapsulation, and paths are derived from them."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.packets.port_numbers import MAX_PORT, ROCE_PORT
from controller.telemetry.by_capture import cable_of, with_captures
from controller.telemetry.capture import Counts, TcpTuple, Tuple, flow_of, read_capture

a_file = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def frame(
    src: str,
    dst: str,
    port: int,
    *,
    to: int = ROCE_PORT,
    proto: int = 17,
    labels: int = 0,
    vlans: int = 0,
    options: int = 0,
    fragment: int = 0,
) -> bytes:
    address = [bytes(map(int, each.split("."))) for each in (src, dst)]
    ip = struct.pack("!BBHHHBBH", 0x45 + options, 0, 40, 0, fragment, 64, proto, 0) + b"".join(address)
    data = ip + bytes(4 * options) + struct.pack("!HHHH", port, to, 20, 0) + bytes(12)
    kind = 0x8847 if labels else 0x0800
    stack = b"".join(struct.pack("!I", 16000 + n << 12 | (n == labels - 1) << 8 | 64) for n in range(labels))
    return bytes(12) + b"\x81\x00\x00\x05" * vlans + struct.pack("!H", kind) + stack + data


def pcap(frames: list[bytes], order: str = "<", magic: int = 0xA1B2C3D4, kind: int = 1) -> bytes:
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 64 * 1024, kind)
    return head + b"".join(struct.pack(f"{order}IIII", 1, 2, len(each), len(each)) + each for each in frames)


octets = st.tuples(*[st.integers(0, 255)] * 4).map(lambda four: ".".join(map(str, four)))


@given(octets, octets, st.integers(0, MAX_PORT), st.integers(0, 3), st.integers(0, 2), st.integers(0, 10))
def test_a_roce_packet_is_known_under_any_labels_tags_and_options(
    src: str, dst: str, port: int, labels: int, vlans: int, options: int
) -> None:
    packet = frame(src, dst, port, labels=labels, vlans=vlans, options=options)
    assert flow_of(packet) == Tuple(src, dst, port)


def test_what_is_no_roce_packet_is_left_out() -> None:
    src, dst = "10.0.1.1", "10.0.2.1"
    for other in (
        frame(src, dst, 1, to=53),
        frame(src, dst, 1, proto=1),
        frame(src, dst, 1, fragment=0x0010),
        bytes(12) + b"\x08\x06" + bytes(28),
        b"",
    ):
        assert flow_of(other) is None
    assert flow_of(frame(src, dst, 1, fragment=0x2000)) == Tuple(src, dst, 1)


def test_a_packet_of_tcp_has_the_ports_of_both_ends() -> None:
    assert flow_of(frame("10.0.1.1", "10.0.2.1", 40000, to=5001, proto=6)) == TcpTuple(
        "10.0.1.1", "10.0.2.1", 40000, 5001
    )


@given(st.permutations(range(3)), st.integers(1, 9), st.integers(1, 9))
def test_packets_of_tcp_are_of_the_flow_that_states_most_of_their_ports(paths: list[int], some: int, more: int) -> None:
    """Of two hosts: connections to port 5001, those from port 5002, and all others, each on a path of its own."""
    fabric = clos(3, 2, 1)
    (a, b), looked = (host.ip for host in fabric.hosts), {cable: Counts() for cable in fabric.cable_names}
    ports = [(None, 5001), (5002, None), (None, None)]
    captured = [(40000, 5001), (5002, 40000), (40000, 5003)]
    for path, connection in zip(paths, captured, strict=True):
        for link in fabric.flow_links(0, 1, path)[1:3]:
            cable = fabric.cable_names[(link - fabric.first_cable_link) // 2]
            looked[cable] += Counts({TcpTuple(a, b, *connection): some, TcpTuple(b, a, *connection[::-1]): more})
    flows = [
        flow("h1", "h2", None, None) | {"protocol": "tcp", "src_port": src_port, "dst_port": dst_port}
        for src_port, dst_port in ports
    ]
    seen = with_captures(fabric, [*flows, flow("h1", "h2", None, None) | {"protocol": "udp"}], looked)
    assert [row["real"] for row in seen[:3]] == [
        [fabric.link_ids[link] for link in fabric.flow_links(0, 1, path)] for path in paths
    ]
    assert {row["sure"] for row in seen[:3]} == {1.0}
    assert seen[3]["real"] is None


@given(st.binary(max_size=120))
def test_no_packet_breaks_the_reader(data: bytes) -> None:
    flow_of(data)
    flow_of(frame("1.2.3.4", "5.6.7.8", 9, labels=2)[: len(data)])


@a_file
@given(st.lists(st.integers(1, 3), max_size=10), st.sampled_from("<>"), st.sampled_from([0xA1B2C3D4, 0xA1B23C4D]))
def test_packets_are_counted_by_flow_in_files_of_either_byte_order(
    tmp_path: Path, ports: list[int], order: str, magic: int
) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([frame("10.0.1.1", "10.0.2.1", port) for port in ports], order, magic))
    assert read_capture(path) == Counter(Tuple("10.0.1.1", "10.0.2.1", port) for port in ports)


@a_file
@given(st.data())
def test_a_file_that_is_cut_anywhere_is_read_or_refused_with_its_name(tmp_path: Path, data: st.DataObject) -> None:
    whole = pcap([frame("10.0.1.1", "10.0.2.1", port) for port in (1, 2)])
    path = tmp_path / "a.pcap"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        assert set(read_capture(path).values()) <= {1}
    except InputError as error:
        assert error.source == str(path)
        assert str(error).count("\n") == 0


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x0a\x0d\x0d\x0a" + bytes(40), "is pcapng"),
        (b"no capture at all, but long enough", "is not a pcap file"),
        (pcap([], kind=101), "link type: 101: is not a capture of Ethernet"),
        (pcap([])[:24] + struct.pack("<IIII", 0, 0, 1 << 30, 0), "packet 1: 1073741824: is longer than any packet"),
    ],
)
def test_other_files_are_refused_for_what_they_are(tmp_path: Path, content: bytes, what: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_capture(path)
    assert str(error.value).startswith(f"{path}: {what}")


def flow(src: str, dst: str, port: int | None, planned: list[str] | None) -> dict[str, Any]:
    how: dict[str, Any] = {"how": "none", "sure": 0.0, "differs": False, "why": "hashed", "real": None}
    return {"id": "x", "src": src, "dst": dst, "udp_src": port, "planned": planned, **how}


@given(st.data())
def test_a_flow_is_on_the_path_on_which_it_was_seen_whichever_ends_were_captured(data: st.DataObject) -> None:
    fabric = clos(3, 3, 2, parallel=data.draw(st.integers(1, 2)))
    src, dst = data.draw(st.sampled_from([(0, 2), (1, 4), (5, 0)]))
    path = data.draw(st.integers(0, fabric.n_paths - 1))
    links = fabric.flow_links(src, dst, path)
    cables = [fabric.cable_names[(link - fabric.first_cable_link) // 2] for link in links[1:3]]
    looked: dict[str, Counts] = {cable: Counter() for cable in fabric.cable_names}
    packet = Tuple(fabric.hosts[src].ip, fabric.hosts[dst].ip, 50000)
    for cable in cables:
        looked[cable][packet] = 7
    planned = [fabric.link_ids[link] for link in fabric.flow_links(src, dst, 0)]
    names = (fabric.host_names[src], fabric.host_names[dst])
    one = flow(*names, 50000, planned)
    (seen,) = with_captures(fabric, [one], looked)
    assert seen["real"] == [fabric.link_ids[link] for link in links]
    assert (seen["how"], seen["sure"], seen["differs"]) == ("capture", 1.0, path != 0)
    assert bool(seen["why"]) == seen["differs"]
    # The first uplink alone says the same; one that the flow is not on says nothing.
    (seen,) = with_captures(fabric, [one], {cables[0]: looked[cables[0]]})
    assert seen["real"] == [fabric.link_ids[link] for link in links]
    others = {cable: counted for cable, counted in looked.items() if cable not in cables}
    assert with_captures(fabric, [one, flow(*names, None, None)], others) == [one, flow(*names, None, None)]


def test_a_flow_that_has_moved_is_on_most_of_its_packets_links_and_no_surer_than_that() -> None:
    fabric = clos(2, 2, 1)
    packet = Tuple("10.0.1.1", "10.0.2.1", 50000)
    seen: dict[str, Counts] = {"leaf1-spine1": Counter({packet: 1}), "leaf1-spine2": Counter({packet: 3})}
    (told,) = with_captures(fabric, [flow("h1", "h2", 50000, None)], seen)
    assert (told["real"][1], told["sure"], told["differs"]) == ("leaf1->spine2", 0.75, False)


def test_captures_are_named_by_cables_or_links_between_switches() -> None:
    fabric = clos(2, 2, 1)
    assert {cable_of(fabric, name) for name in ("leaf1-spine2", "leaf1->spine2", "spine2->leaf1")} == {"leaf1-spine2"}
    for name in ("h1->leaf1", "leaf1", "spine9->leaf1"):
        with pytest.raises(InputError):
            cable_of(fabric, name)
