"""Sampled TCP segments become the bytes that hosts have sent each other, over whatever connections."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.odometer import Odometers
from controller.learning.sampling.sampled_tallies import SampledTallies
from controller.learning.sightings import tcp_key
from controller.model.packets.tcp_packet import tcp_ends, tcp_packet
from tests.unit.laws import examples
from tests.unit.learning.sflow_packets import flow_sample, record, sflow_datagram, tcp_frame

A, B, C = 0x0A000101, 0x0A000201, 0x0A000301
SEGMENT = 1448


@given(st.integers(0, 2**32 - 1), st.integers(1, 1448), st.sampled_from([b"\x08\x00", b"\x81\x00\x00\x05\x08\x00"]))
def test_a_segment_with_data_tells_how_far_its_connection_has_come(sequence: int, size: int, tags: bytes) -> None:
    packet = tcp_packet(tcp_frame(A, B, 40000, bytes(size), sequence, tags=tags)[:96])
    assert packet is not None
    assert packet.end == (sequence + size) % 2**32
    assert packet.connection == tcp_frame(A, B, 40000, b"")[26:38]


@pytest.mark.parametrize(
    "frame",
    [
        tcp_frame(A, B, 40000, b""),
        tcp_frame(A, B, 40000, b"x")[:50],
        tcp_frame(A, B, 40000, b"x").replace(b"\x80\x18", b"\x80\x02"),
        b"",
    ],
    ids=["acknowledgement", "cut off", "SYN", "empty"],
)
def test_segments_without_data_tell_nothing(frame: bytes) -> None:
    assert tcp_packet(frame) is None


def test_the_ends_of_an_acknowledgement_are_known() -> None:
    assert tcp_ends(tcp_frame(A, B, 40000, b"")) == (A, B)
    assert tcp_ends(b"") is None


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3_000_000)), min_size=1, max_size=40), st.integers(0, 2**32)
)
def test_connections_of_two_hosts_add_up_whatever_was_lost_between_samples(
    sent: list[tuple[int, int]], first: int
) -> None:
    """Each step is a connection that goes on by so many bytes, unseen, and whose next segment is sampled."""
    tallies, at, total = SampledTallies(), dict[int, int](), 0
    for i, (connection, size) in enumerate(sent):
        before = at.get(connection)
        at[connection] = first if before is None else before + size
        total += 0 if before is None else size
        tallies.take_frame(tcp_frame(A, B, 40000 + connection, bytes(SEGMENT), at[connection]), float(i))
    # A segment that is sent again, and one of another pair of hosts.
    tallies.take_frame(tcp_frame(A, B, 40000 + sent[0][0], bytes(SEGMENT), at[sent[0][0]] - 5 * SEGMENT), 90.0)
    tallies.take_frame(tcp_frame(A, C, 40000, bytes(SEGMENT), 17), 91.0)
    (batch,) = tallies.report().batches(np.array([A, B]))
    assert (batch.keys, batch.sampled, batch.unit_bytes) == ((tcp_key(A, B),), True, 1)
    assert batch.sent.tolist()[-1] == total
    assert len(batch.sent) == len(sent)
    assert tallies.report().batches() == []


@given(st.integers(3, 6), st.integers(1, 3), st.integers(100, 200), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(6, 60))
def test_a_ring_of_several_connections_an_edge_is_learned_from_samples(
    hosts: int, connections: int, segments: int, seed: int
) -> None:
    """Bytes within 2 %: of ten iterations, one of about twenty segments is sampled."""
    rng, tallies = np.random.default_rng(seed), SampledTallies()
    size, rows = segments * 100 * SEGMENT, []
    for a in range(hosts):
        for connection in range(connections):
            first = int(rng.integers(0, 2**32))
            for iteration in range(10):
                n = segments * 100 // connections
                picked = np.sort(rng.choice(n, max(n // 20, 1), replace=False))
                begin = 100 + iteration * 1.5 + 0.4
                for nth in picked.tolist():
                    sequence = first + (iteration * n + nth) * SEGMENT
                    frame = tcp_frame(A + a, A + (a + 1) % hosts, 40000 + connection, bytes(SEGMENT), sequence)
                    rows.append((begin + 0.6 * nth / n, frame[:96]))
    for at, frame in sorted(rows, key=lambda row: row[0]):
        tallies.take_datagram(sflow_datagram([flow_sample([record(frame)])]), at)
    odometers = Odometers()
    for batch in tallies.report().batches():
        odometers.add(batch)
    (job,) = infer(odometers, 0.0, rng)
    assert job.period_seconds == pytest.approx(1.5, rel=0.02)
    assert {(key.src - A, key.dst - A) for key in job.qps} == {(a, (a + 1) % hosts) for a in range(hosts)}
    whole = segments * 100 // connections * connections * SEGMENT
    for size in (size for group in job.groups for size in group.bytes):
        assert size == pytest.approx(whole, rel=0.02)
