"""What the fluid model says of packets, against packets: drawn collectives, alone and beside others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.job import CollectiveCall, Job
from controller.model.units import GBIT
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.packets.host_steps import as_hosts_go_on, goes_on_when_posted, taken_by_acknowledgements
from emulation.packets.referee import Bout, referee
from emulation.packets.settings import ACK_BYTES, PacketSettings
from tests.unit.emulation.evaluation.small import scenario
from tests.unit.emulation.packets.runs import by_policy, on_path, packets, ring, simulated


def paced_bouts(fabric: dict[str, Any], hosts: list[str], rows: list[dict[str, Any]], pieces: int = 1) -> list[Bout]:
    """Return the bouts of jobs under ``fair`` with paces; each row is a collective of consecutive hosts."""
    jobs, first = [], 0
    for number, row in enumerate(rows):
        size = row.pop("size")
        own = hosts[first : first + size]
        first += size
        call = {"name": "c", "ranks": list(range(size)), **row}
        jobs.append({"job": {"name": f"j{number}", "hosts": own, "collectives": [call]}, "pieces": pieces})
    made = scenario(fabric=fabric, cases=[{"jobs": jobs}], policies=["fair"], epochs=1)
    bouts = next(referee(made, PacketSettings(), sprayings=[]))
    return [bout for bout in bouts if bout.contender.paced]


def packet_seconds() -> float:
    """Return the seconds of a full packet at the 100 Gbit/s of these fabrics."""
    return PacketSettings().packet_bytes * GBIT / 100.0


def drawn_hosts(count: int, seed: int) -> list[str]:
    """Return the names of the hosts in a drawn order."""
    return [f"h{host + 1}" for host in np.random.default_rng(seed).permutation(count)]


@settings(max_examples=12)
@given(
    kind=st.sampled_from(
        [
            ("all_reduce", "ring"),
            ("all_reduce", "halving_doubling"),
            ("broadcast", "chain"),
            ("broadcast", "tree"),
            ("reduce", "chain"),
        ]
    ),
    size=st.integers(2, 12),
    piece=st.integers(100_000, 500_000),
    pieces=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_a_job_alone_takes_what_the_fluid_model_says_of_its_packets(
    kind: tuple[str, str], size: int, piece: int, pieces: int, seed: int
) -> None:
    """Links are hardly shared, so all that a message takes longer than its bytes are its packets."""
    op, algorithm = kind
    fabric = {"clos": {"spines": 4, "leaves": 3, "hosts_per_leaf": 4}}
    row = {"op": op, "algorithm": algorithm, "bytes": piece * pieces, "size": size}
    (bout,) = paced_bouts(fabric, drawn_hosts(12, seed), [row], pieces)
    # Hosts begin up to 0.3 us apart. While the first window lasts, acknowledgements may wait for a packet at each link.
    waits = 3e-7 + 4 * packet_seconds()
    assert abs(bout.slowest.packets - bout.slowest.expected) <= 0.02 * bout.slowest.expected + waits


@settings(max_examples=8)
@given(many=st.integers(800_000, 6_000_000), spines=st.sampled_from([1, 2]), seed=st.integers(0, 10**6))
def test_rings_that_share_links_take_what_the_fluid_model_says_of_their_packets(
    many: int, spines: int, seed: int
) -> None:
    fabric = {"clos": {"spines": spines, "leaves": 3, "hosts_per_leaf": 4}}
    rows = [{"op": "all_reduce", "algorithm": "ring", "bytes": many, "size": 6} for _ in range(2)]
    (bout,) = paced_bouts(fabric, drawn_hosts(12, seed), rows)
    assert abs(bout.deviation) <= 0.02


@pytest.mark.parametrize("triggers", [["arrival", "failure"], ["arrival", "end", "failure"]])
def test_both_simulators_plan_at_the_same_events(triggers: list[str]) -> None:
    """Five rings of two hosts over two uplinks, of which the short ones leave the others room."""
    jobs = [
        {
            "job": {
                "name": f"j{i}",
                "hosts": [f"h{1 + i}", f"h{6 + i}"],
                "collectives": [{"name": "c", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1], "bytes": many}],
            }
        }
        for i, many in enumerate((2_000_000, 2_000_000, 8_000_000, 8_000_000, 8_000_000))
    ]
    fabric = {"clos": {"spines": 2, "leaves": 2, "hosts_per_leaf": 5}}
    made = scenario(fabric=fabric, cases=[{"jobs": jobs}], policies=["fair"], epochs=1, triggers=triggers)
    bouts = next(referee(made, PacketSettings(), sprayings=[]))
    (paced,) = [bout for bout in bouts if bout.contender.paced]
    assert abs(paced.deviation) <= 0.02


@settings(max_examples=10)
@given(size=st.integers(1, 400_000), pieces=st.integers(2, 6), pace=st.sampled_from([0.0, 20.0]))
@example(size=20_481, pieces=6, pace=0.0)
def test_a_host_sends_the_pieces_of_a_message_one_after_the_other_without_waiting(
    size: int, pieces: int, pace: float
) -> None:
    """Two hosts: the receiver has all pieces as early as one message of as many packets."""
    fabric = clos(1, 2, 2)
    call = CollectiveCall("c", "broadcast", (0, 1), size * pieces, "chain")
    jobs = simulated_jobs(fabric, [TimedJob(Job("a", hosts=("h1", "h3"), collectives=(call,)), pieces=pieces)])
    assert goes_on_when_posted(jobs[0].traffic, jobs[0].schedule).all()
    chosen = PacketSettings(record_transfers=True)
    results = packets(fabric, jobs, on_path(0), settings=chosen, pace_gbps=pace)
    count = -(-size // chosen.packets.mtu)
    headers = chosen.packet_bytes - chosen.packets.mtu
    wire = pieces * (size + count * headers) * GBIT / (pace or 100.0)
    under_way = chosen.latency_seconds(fabric, 4)
    # Windows of hosts without a pace count packets, also the short one at the end of each piece.
    short = 0.0 if pace else pieces * (count * chosen.packets.mtu - size) * GBIT / 100.0
    assert results.ended <= wire + under_way + short + 5e-7
    # Never faster than the pace: the last packet leaves when the pace of all before it has passed.
    last = min(size, chosen.packets.mtu) + headers
    assert results.ended >= wire - last * GBIT / (pace or 100.0)


def test_a_group_of_several_hosts_waits_until_the_one_before_has_arrived() -> None:
    """The last halving and the first doubling are sent by the same hosts to the same, but need what those sent."""
    fabric = clos(2, 2, 2)
    names = tuple(f"h{host}" for host in range(1, 5))
    call = CollectiveCall("c", "all_reduce", (0, 1, 2, 3), 400_000, "halving_doubling")
    (job,) = simulated(fabric, [Job("a", hosts=names, collectives=(call,))])
    assert not goes_on_when_posted(job.traffic, job.schedule).any()


@settings(max_examples=6)
@given(idle=st.booleans(), pace=st.floats(5.0, 40.0))
def test_a_host_makes_up_for_nothing_after_it_had_nothing_to_send(idle: bool, pace: float) -> None:
    fabric = clos(1, 2, 2)
    (job,) = simulated(fabric, [ring("a", ["h1", "h3"], 160_000)], compute=1e-3 if idle else 0.0, epochs=2)
    results = packets(fabric, [job], on_path(0), pace_gbps=pace)
    chosen = PacketSettings()
    for _, _, _, began, ended in results.transfers.tolist():
        # 80 kB are 20 packets: the last one leaves after the pace of 19.
        assert ended - began >= 19 * chosen.packet_bytes * GBIT / pace * (1 - 1e-6)


def test_steps_keep_bytes_and_flows() -> None:
    fabric = clos(2, 2, 2)
    (job,) = simulated(fabric, [ring("a", ["h1", "h3", "h2", "h4"], 400_000)])
    chosen = PacketSettings()
    rows = Assignment.single(np.zeros(job.traffic.n_flows, dtype=np.int32))
    made = as_hosts_go_on(fabric, job, chosen, rows, np.full(rows.n_rows, 25.0)).schedule
    sent = np.bincount(job.schedule.flow, job.schedule.bytes * job.schedule.repeat[job.schedule.group])
    count = np.ceil(job.schedule.bytes / chosen.packets.mtu) * job.schedule.repeat[job.schedule.group]
    headers = np.bincount(job.schedule.flow, count) * (chosen.packet_bytes - chosen.packets.mtu)
    assert np.bincount(made.flow, made.bytes) == pytest.approx(sent + headers)


@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), many=st.integers(400_000, 2_000_000))
def test_acknowledgements_take_from_links_what_the_packet_engine_counts(seed: int, many: int) -> None:
    fabric = clos(2, 3, 2)
    jobs = simulated(fabric, [ring("a", drawn_hosts(6, seed), many)])
    planner = by_policy("fair")
    plan = planner(fabric, jobs[0].traffic, None).assignment
    chosen = PacketSettings()
    taken = taken_by_acknowledgements(fabric, jobs, chosen, [plan])
    data = np.zeros(fabric.n_links)
    schedule, traffic = jobs[0].schedule, jobs[0].traffic
    for flow, path in zip(plan.flow.tolist(), plan.path.tolist(), strict=True):
        size = float(schedule.bytes[flow])
        wire = size + np.ceil(size / chosen.packets.mtu) * (chosen.packet_bytes - chosen.packets.mtu)
        links = fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path)
        data[list(links)] += wire * int(schedule.repeat[0])
    carried = packets(fabric, jobs, planner).link_bytes
    busy = (data > 0) & (taken > 0) & (taken < ACK_BYTES / (chosen.ack_every * chosen.packet_bytes))
    assert taken[busy] == pytest.approx((carried - data)[busy] / carried[busy], rel=0.1)
