"""Samples say at which switches flows were seen, whatever their packets carry."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.learning.sampling.sampled_tallies import SampledTallies
from controller.learning.sampling.seen_flows import NOTHING_SEEN, SeenAt, SeenFlow
from controller.learning.sampling.sflow import FlowSample
from controller.learning.sightings import QpKey
from tests.unit.learning.sflow_packets import (
    datagram_to,
    flow_sample,
    record,
    sflow_datagram,
    tcp_frame,
    write_frame,
)

KEYS = st.builds(QpKey, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.just(17))
AGENTS = st.integers(1, 3).map(lambda n: bytes((10, 0, 0, n)))


@given(st.lists(st.tuples(KEYS, AGENTS, st.booleans(), st.booleans()), max_size=8))
def test_probes_and_packets_of_flows_are_seen_where_they_were_sampled_and_last(
    packets: list[tuple[QpKey, bytes, bool, bool]],
) -> None:
    tallies = SampledTallies(where=True)
    expected = {}
    for n, (key, agent, probe, expanded) in enumerate(packets):
        frame = datagram_to(key, bytes(8)) if probe else write_frame(key, n)
        data = sflow_datagram([flow_sample([record(frame, 74)], expanded=expanded)], sequence=n, agent=agent)
        tallies.take_datagram(data, float(n))
        expected[SeenFlow(f"10.0.0.{agent[3]}", key.src, key.dst, key.udp_src)] = float(n)
    report = tallies.report()
    assert report.seen.at == expected
    assert report.seen.one_in == (1000 if packets else 0)
    assert tallies.report().seen == NOTHING_SEEN


def test_other_packets_say_nothing_and_nothing_is_kept_where_it_is_not_wanted() -> None:
    key = QpKey(1, 2, 50000, 17)
    seen, plain = SampledTallies(where=True), SampledTallies()
    other = [tcp_frame(1, 2, 50000, b"x"), datagram_to(key, bytes(8), port=53), b"", write_frame(key, 1)[:30]]
    seen.take_datagram(sflow_datagram([flow_sample([record(frame)]) for frame in other]), 0.0)
    plain.take_datagram(sflow_datagram([flow_sample([record(write_frame(key, 1))])], agent=bytes(16)), 0.0)
    assert seen.report().seen.at == {}
    assert plain.report().seen == NOTHING_SEEN
    by_ipv6 = SampledTallies(where=True)
    by_ipv6.take_datagram(sflow_datagram([flow_sample([record(write_frame(key, 1))])], agent=bytes(15) + b"\x01"), 0.0)
    assert [*by_ipv6.report().seen.at] == [SeenFlow("::1", 1, 2, 50000)]


def test_memory_is_bounded() -> None:
    seen = SeenAt(most=3)
    for port in range(5):
        seen.take(b"\x0a\0\0\x01", FlowSample(1, 10, 0, datagram_to(QpKey(1, 2, port, 17), bytes(8))), 1.0)
    # Those that are kept still get newer.
    seen.take(b"\x0a\0\0\x01", FlowSample(1, 10, 0, datagram_to(QpKey(1, 2, 2, 17), bytes(8))), 9.0)
    assert sorted(seen.report().at.values()) == [1.0, 1.0, 9.0]
