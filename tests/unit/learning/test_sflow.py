"""sFlow datagrams become sightings, whatever else arrives; hostile ones change nothing."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer
from controller.learning.odometer import Odometers
from controller.learning.sampling.sampled_tallies import SampledTallies
from controller.learning.sampling.sflow import SflowError, parse_datagram
from controller.learning.sampling.sflow_access import AgentFilter, parse_agents, parse_listen
from controller.learning.sightings import QpKey
from controller.model.errors import InputError
from controller.model.packets.roce_packet import PATH_MTUS, roce_packet
from emulation.roce.wire import FIRST_PACKETS, LAST_PACKETS, WRITE_LAST, WRITE_MIDDLE, WRITE_ONLY
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, ring, sampled_packets
from tests.unit.learning.sflow_packets import (
    ack_frame,
    counter_sample,
    datagram_to,
    datagrams_of,
    flow_sample,
    record,
    sflow_datagram,
    write_frame,
)

KEYS = st.builds(
    QpKey, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.integers(0, 2**24 - 1)
)
TAGS = {
    "none": b"\x08\x00",
    "a VLAN tag": b"\x81\x00\x00\x05\x08\x00",
    "two VLAN tags": b"\x88\xa8\x00\x05\x81\x00\x00\x06\x08\x00",
    "one label": b"\x88\x47" + struct.pack("!I", 16005 << 12 | 0x140),
    "two labels": b"\x88\x47" + struct.pack("!II", 16005 << 12 | 0x40, 16006 << 12 | 0x140),
}
ONE = QpKey(1, 2, 50000, 17)


@given(
    KEYS,
    st.integers(0, 2**24 - 1),
    st.sampled_from((*FIRST_PACKETS, WRITE_MIDDLE, *LAST_PACKETS)),
    st.integers(0, 4096),
    st.sampled_from(sorted(TAGS)),
    st.booleans(),
    st.booleans(),
)
def test_each_packet_of_a_write_is_read_from_its_first_bytes(
    key: QpKey, psn: int, opcode: int, size: int, tags: str, expanded: bool, ipv6: bool
) -> None:
    frame = write_frame(key, psn, size, opcode, tags=TAGS[tags])
    agent = bytes(16 if ipv6 else 4)
    data = sflow_datagram(
        [counter_sample(), flow_sample([record(frame, 74)], source=9, drops=4, expanded=expanded)],
        sequence=77,
        agent=agent,
        sub_agent=3,
    )
    datagram = parse_datagram(data)
    assert (datagram.agent, datagram.sub_agent, datagram.sequence) == (agent, 3, 77)
    (sample,) = datagram.samples
    assert (sample.source, sample.drops) == (9, 4)
    packet = roce_packet(sample.frame)
    assert packet is not None
    assert (packet.psn, packet.payload) == (psn, size)
    tallies = SampledTallies()
    tallies.take_datagram(data, 5.0)
    (batch,) = tallies.report().batches()
    assert (batch.keys, batch.sent.tolist(), batch.at.tolist(), batch.sampled) == ((key,), [psn], [5.0], True)


@pytest.mark.parametrize(
    "frame",
    [
        ack_frame(ONE, 3),
        datagram_to(ONE, bytes(40), port=53),
        write_frame(ONE, 3)[:50],
        datagram_to(ONE, b"\x11" + bytes(39)),
        datagram_to(ONE, b"\x81" + bytes(39)),
        datagram_to(ONE, b"\x0d" + bytes(39)),
        datagram_to(ONE, b"\x06" + bytes(20)),
        b"\x00" * 12 + b"\x86\xdd" + bytes(60),
        b"",
    ],
    ids=["acknowledgement", "other port", "cut off", "opcode", "congestion", "read response", "short", "IPv6", "empty"],
)
def test_packets_that_carry_no_data_in_their_direction_are_passed_over(frame: bytes) -> None:
    assert roce_packet(frame) is None


@given(st.data())
@settings(max_examples=examples(150, 900), deadline=None)
def test_damaged_datagrams_are_counted_and_raise_nothing_else(data: st.DataObject) -> None:
    whole = sflow_datagram(
        [flow_sample([record(write_frame(ONE, 3))]), counter_sample(), flow_sample([record(write_frame(ONE, 4))])]
    )
    kind = data.draw(st.sampled_from(["cut", "changed", "random"]))
    if kind == "cut":
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
        with pytest.raises(SflowError):
            parse_datagram(damaged)
    elif kind == "changed":
        places = data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=8))
        changed = bytearray(whole)
        for at, value in places:
            changed[at] = value
        damaged = bytes(changed)
    else:
        damaged = data.draw(st.binary(max_size=200))
    tallies = SampledTallies()
    tallies.take_datagram(damaged, 0.0)
    report = tallies.report()
    assert report.counts.datagrams == 1
    if report.counts.malformed:
        assert not len(report.qp)
    report.batches()


@given(st.binary(max_size=120))
@settings(max_examples=examples(150, 900))
def test_any_bytes_are_a_packet_or_none(frame: bytes) -> None:
    packet = roce_packet(frame)
    assert packet is None or 0 <= packet.payload < 1 << 16


def test_a_flood_fills_no_memory_and_is_counted() -> None:
    tallies = SampledTallies(most=100)
    for i in range(150):
        tallies.take_frame(write_frame(QpKey(1, 2, i, i), 0, 256), float(i))
    report = tallies.report()
    assert (len(report.qp), report.counts.samples, report.counts.dropped) == (100, 150, 50)
    assert tallies.report().counts.samples == 0


def test_lost_datagrams_and_dropped_samples_are_counted_by_their_gaps() -> None:
    tallies = SampledTallies()
    for sequence, drops in ((5, 10), (6, 12), (9, 12), (0, 0)):  # the last one: the agent has begun anew
        tallies.take_datagram(sflow_datagram([flow_sample([], drops=drops)], sequence=sequence), 0.0)
        tallies.take_datagram(
            sflow_datagram([flow_sample([record(b"")], drops=drops)], sequence=sequence, sub_agent=2), 0.0
        )
    counts = tallies.report().counts
    assert (counts.lost, counts.dropped_by_switches) == (4, 2)


@pytest.mark.parametrize("mtu", PATH_MTUS)
def test_the_path_mtu_is_that_of_full_packets_also_where_only_a_last_one_was_seen(mtu: int) -> None:
    tallies = SampledTallies()
    tallies.take_frame(write_frame(ONE, 0, mtu), 0.0)
    assert [batch.unit_bytes for batch in tallies.report().batches()] == [mtu]
    other = QpKey(3, 4, 50000, 17)
    tallies.take_frame(write_frame(ONE, 1, 100, WRITE_LAST), 0.0)
    tallies.take_frame(write_frame(other, 1, 100, WRITE_ONLY), 0.0)
    assert [batch.unit_bytes for batch in tallies.report().batches()] == [mtu]


def test_qps_of_other_hosts_and_other_path_mtus_are_kept_apart() -> None:
    tallies = SampledTallies()
    for key, mtu in ((QpKey(1, 2, 5, 6), 4096), (QpKey(2, 1, 5, 7), 1024), (QpKey(1, 9, 5, 8), 4096)):
        for psn in (10, 11):
            tallies.take_frame(write_frame(key, psn, mtu), 1.0)
    small, large = tallies.report().batches(np.array([1, 2], dtype=np.int64))
    assert (small.keys, small.unit_bytes, small.sent.tolist()) == ((QpKey(2, 1, 5, 7),), 1024, [10, 11])
    assert (large.keys, large.unit_bytes, large.sent.tolist()) == ((QpKey(1, 2, 5, 6),), 4096, [10, 11])


def test_a_ring_is_learned_from_datagrams() -> None:
    transfers = ring(range(16), 1_000_000_000, 0.4, 0.8)
    batch = sampled_packets(transfers, Draw(0.8, 8, sampling=20_000, loss=0.1), np.random.default_rng(1))
    tallies, odometers = SampledTallies(), Odometers()
    for at, data in datagrams_of(batch):
        tallies.take_datagram(data, at)
    for part in tallies.report().batches():
        odometers.add(part)
    (job,) = infer(odometers, -1.0, np.random.default_rng(0))
    assert job.qps == frozenset(transfers.keys)
    assert job.period_seconds == pytest.approx(0.8, rel=0.02)
    assert [group.shape for group in job.groups] == ["ring"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("192.0.2.1", ("192.0.2.1", 6343)),
        ("192.0.2.1:99", ("192.0.2.1", 99)),
        ("::1", ("::1", 6343)),
        ("[::1]:99", ("::1", 99)),
    ],
)
def test_an_address_may_have_a_port(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen(text) == expected


@pytest.mark.parametrize("text", ["", "leaf1", "192.0.2.1:0", "192.0.2.1:x", "192.0.2.1:65536", "192.0.2"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InputError) as found:
        parse_listen(text)
    assert (found.value.field, found.value.value) == ("sflow_listen", text)


def test_only_the_listed_agents_are_allowed() -> None:
    agents = AgentFilter(parse_agents("192.0.2.7, 198.51.100.0/24,2001:db8::/64"))
    allowed = ("192.0.2.7", "198.51.100.9", "2001:db8::5", "::ffff:192.0.2.7", "2001:db8::1%eth0")
    assert [agents.allows(each) for each in allowed] == [True] * len(allowed)
    assert not any(map(agents.allows, ("192.0.2.8", "198.51.101.1", "2001:db9::1", "::ffff:192.0.2.8")))
    assert not AgentFilter(parse_agents("")).allows("192.0.2.7")
    with pytest.raises(InputError) as found:
        parse_agents("192.0.2.7, leaf1")
    assert (found.value.field, found.value.value) == ("sflow_agents", "leaf1")
