"""TCP jobs are learned beside RoCEv2 jobs: each edge and no other, with its bytes, whatever ports connections have."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.learning.infer import infer, minor, seen_qps
from controller.learning.learned_job import LearnedJob
from controller.learning.life import LearnedLife
from controller.learning.odometer import Odometers
from controller.learning.sightings import QpKey, SightingBatch, tcp_key
from controller.model.packets.flow_ports import ALL_TCP, port_code
from tests.unit.laws import examples
from tests.unit.learning.drawn_sightings import Draw, Transfers, edges, exchange, polled_counters, ring, tallies

MB = 1_000_000
HOSTS = range(4)
POLL = 0.05
END = 100.0
"""Seconds at which all jobs have run."""


def over_tcp(transfers: Transfers) -> Transfers:
    """The same transfers by TCP, each between two hosts."""
    return dataclasses.replace(transfers, keys=tuple(tcp_key(key.src, key.dst) for key in transfers.keys))


@dataclasses.dataclass(frozen=True)
class Sent:
    """A job as it was."""

    transfers: Transfers
    draw: Draw

    @property
    def bytes(self) -> dict[QpKey, int]:
        total = np.bincount(self.transfers.qp, self.transfers.bytes, len(self.transfers.keys))
        return dict(zip(self.transfers.keys, total.astype(int).tolist(), strict=True))


@st.composite
def mixes(draw: st.DrawFn) -> list[Sent]:
    """Draw one to three jobs on hosts of their own, and perhaps one of the other protocol on hosts of the first."""
    jobs: list[Sent] = []
    for number in range(draw(st.integers(1, 3))):
        hosts = range(100 * number, 100 * number + draw(st.integers(3, 8)))
        jobs.append(_job(draw, hosts, number, tcp=draw(st.booleans())))
    first = jobs[0]
    if draw(st.booleans()):
        hosts = range(len({key.src for key in first.transfers.keys} | {key.dst for key in first.transfers.keys}))
        tcp = first.transfers.keys[0].protocol != "tcp"
        jobs.append(_job(draw, hosts, 7, tcp=tcp))
    return jobs


def _job(draw: st.DrawFn, hosts: range, number: int, *, tcp: bool) -> Sent:
    period = draw(st.floats(0.8, 3.0))
    begin, active = draw(st.floats(0.1, 0.4)), draw(st.floats(0.2, 0.45))
    size = draw(st.integers(2 * MB, 500 * MB))
    at = (begin * period, (begin + active) * period)
    shape = draw(st.sampled_from(["ring", "backwards", "direct", "pipeline"]))
    if shape == "ring":
        made = ring(hosts, size, *at, first_qp=1000 * number)
    elif shape == "backwards":
        made = edges([(b, a) for a, b in zip(hosts, [*hosts[1:], hosts[0]], strict=True)], size, *at)
    elif shape == "direct":
        made = exchange(hosts, size, *at, first_qp=1000 * number)
    else:
        made = edges(list(pairwise(hosts)), size, *at, first_qp=1000 * number)
    iterations = draw(st.integers(4, 8))
    run = Draw(period, iterations, END - iterations * period, period_jitter=draw(st.floats(0, 0.02)))
    return Sent(over_tcp(made) if tcp else made, run)


def learned_from(jobs: list[Sent], rng: np.random.Generator) -> dict[QpKey, int]:
    odometers = Odometers()
    for job in jobs:
        odometers.add(polled_counters(job.transfers, job.draw, POLL, rng))
    return volumes(infer(odometers, -1.0, rng))


def volumes(jobs: list[LearnedJob]) -> dict[QpKey, int]:
    return {key: size for job in jobs for group in job.groups for key, size in zip(group.qps, group.bytes, strict=True)}


@given(mixes(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(25, 300))
def test_every_edge_of_drawn_mixes_is_learned_and_no_other_with_its_bytes(jobs: list[Sent], seed: int) -> None:
    sent = {key: size for job in jobs for key, size in job.bytes.items()}
    learned = learned_from(jobs, np.random.default_rng(seed))
    assert learned.keys() == sent.keys()
    for key, size in sent.items():
        assert learned[key] == pytest.approx(size, rel=0.02)


@given(mixes(), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(5, 100))
def test_jobs_of_rocev2_are_what_they_are_without_tcp(jobs: list[Sent], seed: int) -> None:
    alone, beside = Odometers(), Odometers()
    for job in sorted(jobs, key=lambda job: job.transfers.keys[0].protocol):
        batch = polled_counters(job.transfers, job.draw, POLL, np.random.default_rng(seed))
        beside.add(batch)
        if job.transfers.keys[0].protocol == "roce":
            alone.add(batch)
    of_all = infer(beside, -1.0, np.random.default_rng(seed))
    assert [job for job in of_all if job.protocol == "roce"] == infer(alone, -1.0, np.random.default_rng(seed))


@pytest.mark.parametrize("pause", [0.0, 4.0, 20.0, 100.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_job_that_starts_again_is_the_same_job_and_known_after_three_iterations(pause: float, seed: int) -> None:
    """Its connections have other ports then, which nobody looks at; a feeder goes on counting, or begins at 0."""
    transfers, rng = over_tcp(ring(range(8), 50 * MB, 0.4, 1.0)), np.random.default_rng(seed)
    odometers, life, names = Odometers(), LearnedLife(), set()
    again = END + pause
    for begin, iterations in ((END - 12 * 1.4, 12), (again, 4)):
        odometers.add(polled_counters(transfers, Draw(1.4, iterations, begin), POLL, rng))
        life.step(infer(odometers, -1.0, rng), begin + iterations * 1.4)
        (job,) = life.jobs.values()
        names.add(job.name)
        assert job.period_seconds == pytest.approx(1.4, rel=0.02)
        assert list(volumes([job]).values()) == [pytest.approx(50 * MB, rel=0.02)] * 8
    assert len(names) == 1


def test_connections_by_which_hosts_are_managed_join_no_jobs() -> None:
    rng = np.random.default_rng(0)
    rings = [over_tcp(ring(range(begin, begin + 4), 50 * MB, 0.4, 1.0)) for begin in (0, 10)]
    odometers = Odometers()
    for number, transfers in enumerate(rings):
        period = 1.4 + number / 2
        odometers.add(polled_counters(transfers, Draw(period, 6, END - 6 * period), POLL, rng))
    # Each host tells host 99 something every second, and host 0 is a coordinator of all.
    others = [(a, b) for a in (*range(4), *range(10, 14)) for b in (99, 0) if a != b]
    odometers.add(
        tallies([(tcp_key(a, b), END - 10 + second, 2000 * second) for second in range(10) for a, b in others])
    )
    seen = seen_qps(odometers, -1.0, frozenset())
    assert int(minor(seen).sum()) == len(others) - 1  # from 0 to itself is none; of 99 nothing is known but this
    jobs = infer(odometers, -1.0, rng)
    assert sorted(len(job.qps) for job in jobs) == [4, 4]


def test_a_job_of_tcp_has_a_document_of_tcp_with_unknown_ports_and_another_name_than_one_of_rocev2() -> None:
    rng, named = np.random.default_rng(0), []
    for transfers in (ring(HOSTS, 50 * MB, 0.4, 1.0), over_tcp(ring(HOSTS, 50 * MB, 0.4, 1.0))):
        odometers = Odometers()
        odometers.add(polled_counters(transfers, Draw(1.4, 6), POLL, rng))
        (job,) = infer(odometers, -1.0, rng)
        named.append(job)
    roce, tcp = (job.document(lambda address: f"h{address}") for job in named)
    assert roce["name"] != tcp["name"]
    assert "protocol" not in roce
    assert (tcp["protocol"], tcp["ports"]) == ("tcp", "unknown")
    assert {tuple(sorted(flow)) for flow in tcp["flows"]} == {("bytes", "collective", "dst", "src")}


@pytest.mark.parametrize(
    ("pushed", "learned"),
    [
        (frozenset(), True),
        (frozenset({(0, 1, 50000)}), True),
        (frozenset({(0, 1, 0)}), True),
        (frozenset({(0, 1, ALL_TCP)}), False),
        (frozenset({(0, 1, port_code("any"))}), False),
    ],
)
def test_connections_of_pushed_jobs_are_not_learned(pushed: frozenset[tuple[int, int, int]], learned: bool) -> None:
    rng, odometers = np.random.default_rng(0), Odometers()
    odometers.add(polled_counters(over_tcp(edges([(0, 1)], 50 * MB, 0.4, 1.0)), Draw(1.4, 6), POLL, rng))
    assert bool(infer(odometers, -1.0, rng, pushed)) is learned


def test_single_sightings_after_long_pauses_tell_of_no_job() -> None:
    bursts = np.concatenate([second + np.arange(10) / 50 for second in range(6)])
    at = np.concatenate([bursts, [30.0, 300.0]])
    # The first sighting of a burst shows that nothing was sent before it.
    sent = np.cumsum(np.append(np.tile(np.arange(10) > 0, 6), [1, 1])).astype(np.int64) * MB
    odometers = Odometers()
    odometers.add(SightingBatch((tcp_key(0, 1),), np.zeros(len(at), np.int32), at, sent))
    # Where marks are drawn between two sightings decides whether a restart shows.
    drawn = [infer(odometers, -1.0, np.random.default_rng(seed)) for seed in range(20)]
    assert [] in drawn
