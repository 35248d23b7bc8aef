"""Laws of the packet engine, on the compiled program."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.paces import PacketSize
from controller.model.units import GBIT
from controller.workload.job_file import parse_job
from emulation.errors import LabError
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import LinkChange
from emulation.packets.engine import PacketResults
from emulation.packets.input_file import PacketSpread
from emulation.packets.program import VARIABLE
from emulation.packets.settings import CongestionControl, EventCore, PacketSettings, Recovery
from tests.unit.emulation.packets.runs import by_policy, on_path, packets, ring, sends, simulated

SPRAYINGS = [spread for spread in PacketSpread if spread is not PacketSpread.PINNED]


def fabric_of(layers: int, gbps: float = 100.0) -> Fabric:
    """Return a small fabric of two or three layers; hosts h1 and h5 are as far apart as can be."""
    if layers == 2:
        return clos(2, 2, 4, host_gbps=gbps, uplink_gbps=gbps)
    return pod_clos(2, 2, 2, 2, 2)


def rings(seed: int, spines: int = 2) -> tuple[Fabric, tuple[SimulatedJob, ...]]:
    """Return three rings of four on drawn hosts of four leaves."""
    fabric = clos(spines, 4, 3)
    order = np.random.default_rng(seed).permutation(12).tolist()
    jobs = [ring(f"j{j}", [f"h{h + 1}" for h in order[4 * j : 4 * j + 4]], 400_000 + 90_000 * j) for j in range(3)]
    return fabric, simulated(fabric, jobs)


def payload(jobs: Sequence[SimulatedJob]) -> int:
    """Return the bytes that all jobs send."""
    return sum(
        int((np.round(job.schedule.bytes) * job.schedule.repeat[job.schedule.group]).sum()) * job.epochs for job in jobs
    )


def ended(results: PacketResults) -> dict[str, float]:
    """Return when each job ended."""
    return {epoch.job: epoch.ended for epoch in results.epochs}


@settings(max_examples=12)
@given(
    size=st.integers(1_000, 3_000_000),
    mtu=st.sampled_from([1024, 4096, 9000]),
    layers=st.sampled_from([2, 3]),
    spread=st.sampled_from(list(PacketSpread)),
    recovery=st.sampled_from(list(Recovery)),
)
def test_a_lone_flow_takes_its_bytes_over_the_rate_and_the_latency(
    size: int, mtu: int, layers: int, spread: PacketSpread, recovery: Recovery
) -> None:
    # Sprayed packets overtake each other.
    assume(spread is PacketSpread.PINNED or recovery is not Recovery.GO_BACK_N)
    fabric = fabric_of(layers)
    far = fabric.host_names[-1]
    jobs = simulated(fabric, [sends("a", "h1", far, size)])
    chosen = PacketSettings(packets=PacketSize(mtu), recovery=recovery)
    planner = by_policy("fair") if spread is PacketSpread.PINNED else None
    results = packets(fabric, jobs, planner, settings=chosen, spread=spread)
    count = -(-size // mtu)
    wire = size + count * (chosen.packet_bytes - mtu)
    # Of the last packet, which waits for no other: one packet of its size for each link after the first.
    last = size - (count - 1) * mtu + chosen.packet_bytes - mtu
    links = 2 * len(fabric.layers)
    between = chosen.packet_bytes if count > 1 else last
    shortest = (wire + (links - 1) * last) * GBIT / 100 + links * chosen.cable_seconds
    longest = (wire + (links - 1) * between) * GBIT / 100 + links * chosen.cable_seconds
    took = ended(results)["a"]
    assert shortest * (1 - 1e-9) <= took <= longest * 1.01 + 4e-7
    assert results.sent.sum() == count
    assert results.sent_again.sum() == 0


@settings(max_examples=15)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from(list(PacketSpread)),
    recovery=st.sampled_from(list(Recovery)),
    control=st.sampled_from(list(CongestionControl)),
    queue=st.sampled_from([0.15, 1.0]),
)
def test_every_byte_arrives_once(
    seed: int, spread: PacketSpread, recovery: Recovery, control: CongestionControl, queue: float
) -> None:
    fabric, jobs = rings(seed, spines=1 + seed % 2)
    chosen = PacketSettings(recovery=recovery, control=control, queue=queue)
    planner = by_policy("ecmp", seed) if spread is PacketSpread.PINNED else None
    results = packets(fabric, jobs, planner, settings=chosen, spread=spread, seed=seed)
    assert not results.stalled
    assert results.delivered_bytes.sum() == payload(jobs)
    per_flow = np.concatenate(
        [np.bincount(job.schedule.flow, job.schedule.bytes * job.schedule.repeat[0]) for job in jobs]
    )
    assert np.array_equal(np.sort(results.flow), np.arange(len(per_flow)))
    assert results.delivered_bytes[np.argsort(results.flow)] == pytest.approx(per_flow, rel=1e-4)
    if recovery is Recovery.TRIM:
        assert results.link_dropped.sum() == 0
        assert results.sent_again.sum() >= results.trimmed.sum() == results.link_trimmed.sum()
    if recovery is not Recovery.TRIM:
        assert results.link_trimmed.sum() == 0
        assert results.sent_again.sum() >= results.link_dropped.sum()


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), layers=st.sampled_from([2, 3]))
def test_pinned_flows_use_the_links_of_their_paths_only(seed: int, layers: int) -> None:
    fabric = fabric_of(layers)
    names = np.random.default_rng(seed).permutation(np.array(fabric.host_names)).tolist()
    jobs = simulated(fabric, [ring("a", names[:4], 300_000)])
    planner = by_policy("random", seed)
    plan = planner(fabric, jobs[0].traffic, None).assignment
    carried = np.zeros(fabric.n_links)
    for flow, path in zip(plan.flow.tolist(), plan.path.tolist(), strict=True):
        links = fabric.flow_links(int(jobs[0].traffic.src[flow]), int(jobs[0].traffic.dst[flow]), path)
        carried[list(links)] += float(jobs[0].schedule.bytes[flow] * jobs[0].schedule.repeat[0])
    results = packets(fabric, jobs, planner)
    # Acknowledgements go back over the same cables: at most 84 bytes for each packet.
    wire = carried * (1 + 82 / 4096)
    assert (results.link_bytes >= wire * 0.99 - 1).all()
    both_ways = carried.copy()
    first = fabric.first_cable_link
    both_ways[:first] += np.roll(carried[:first], fabric.n_hosts)
    both_ways[first:] += carried[first:].reshape(-1, 2)[:, ::-1].ravel()
    assert (results.link_bytes[both_ways == 0] == 0).all()
    assert (results.link_bytes <= wire * 1.02 + (both_ways - carried) * 0.05 + 10_000 * (both_ways > 0)).all()


@pytest.mark.parametrize("control", list(CongestionControl))
@pytest.mark.parametrize("recovery", list(Recovery))
def test_two_flows_on_one_link_take_equal_shares(control: CongestionControl, recovery: Recovery) -> None:
    if (control, recovery) == (CongestionControl.WINDOW, Recovery.GO_BACK_N):
        pytest.skip("a constant window overfills the queue all the time, and most packets are sent in vain")
    fabric = clos(1, 2, 2)
    jobs = simulated(fabric, [sends("a", "h1", "h3", 8_000_000), sends("b", "h2", "h4", 8_000_000)])
    alone = ended(packets(fabric, jobs[:1], on_path(0)))["a"]
    results = packets(fabric, jobs, on_path(0), settings=PacketSettings(control=control, recovery=recovery))
    both = ended(results)
    last = max(both.values())
    # Little unused time, and the one that ends first has had no more than 55 % until then.
    assert last == pytest.approx(2 * alone, rel=0.05)
    assert min(both.values()) >= 8 / 8.8 * last


@settings(max_examples=6)
@given(pace=st.floats(5.0, 60.0))
def test_a_paced_flow_takes_its_bytes_over_its_pace(pace: float) -> None:
    fabric = clos(1, 2, 2)
    jobs = simulated(fabric, [sends("a", "h1", "h3", 2_000_000)])
    chosen = PacketSettings()
    results = packets(fabric, jobs, on_path(0), settings=chosen, pace_gbps=pace)
    wire = 2_000_000 / chosen.packets.payload_share
    assert ended(results)["a"] == pytest.approx(wire * GBIT / pace + chosen.latency_seconds(fabric, 4), rel=0.005)


@settings(max_examples=6)
@given(pace=st.floats(5.0, 60.0))
def test_a_window_of_one_round_trip_is_enough_for_a_pace_and_never_more_than_it_holds(pace: float) -> None:
    fabric = fabric_of(2)
    jobs = simulated(fabric, [sends("a", "h1", "h5", 2_000_000)])
    pacer, window = PacketSettings(), PacketSettings(pace_window=1.0)
    kept, held = (
        ended(packets(fabric, jobs, on_path(0), settings=each, pace_gbps=pace))["a"] for each in (pacer, window)
    )
    trip = window.round_trip_seconds(fabric)
    most = pace * trip / GBIT + window.ack_every * window.packet_bytes
    size = 2_000_000 / window.packets.mtu * window.packet_bytes
    assert held <= kept * 1.005
    assert held >= (size / most - 1) * trip
    wide = PacketSettings(pace_window=100.0)
    assert ended(packets(fabric, jobs, on_path(0), settings=wide, pace_gbps=pace)) == ended(
        packets(fabric, jobs, on_path(0))
    )


@settings(max_examples=6)
@given(pace=st.floats(5.0, 60.0), meters=st.floats(0.3, 2.0))
def test_a_meter_passes_its_bucket_and_no_more_than_the_pace(pace: float, meters: float) -> None:
    fabric = fabric_of(2)
    jobs = simulated(fabric, [sends("a", "h1", "h5", 2_000_000)])
    chosen = PacketSettings(meters=meters, recovery=Recovery.SELECTIVE)
    results = packets(fabric, jobs, on_path(0), settings=chosen, pace_gbps=pace)
    wire = 2_000_000 / chosen.packets.payload_share
    beyond = wire - meters * chosen.delay_product(fabric) - chosen.packet_bytes
    assert ended(results)["a"] >= beyond * GBIT / pace
    assert results.delivered_bytes.sum() == 2_000_000
    assert results.link_dropped.sum() > 0
    wide = PacketSettings(meters=100.0, recovery=Recovery.SELECTIVE)
    assert ended(packets(fabric, jobs, on_path(0), settings=wide, pace_gbps=pace)) == ended(
        packets(fabric, jobs, on_path(0), settings=PacketSettings(recovery=Recovery.SELECTIVE))
    )


@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), spread=st.sampled_from(list(PacketSpread)), paced=st.booleans())
def test_results_do_not_depend_on_the_order_of_jobs(seed: int, spread: PacketSpread, paced: bool) -> None:
    fabric, jobs = rings(seed, spines=1)
    planner = on_path(0) if spread is PacketSpread.PINNED else None
    forth = packets(fabric, jobs, planner, spread=spread, paced=paced, seed=seed)
    back = packets(fabric, jobs[::-1], planner, spread=spread, paced=paced, seed=seed)
    assert ended(forth) == ended(back)
    assert np.array_equal(forth.link_bytes, back.link_bytes)


@pytest.mark.parametrize("spread", list(PacketSpread))
def test_after_a_link_fails_all_bytes_arrive_over_the_others(spread: PacketSpread) -> None:
    fabric, jobs = rings(3, spines=3)
    whole = packets(fabric, jobs, by_policy("fair") if spread is PacketSpread.PINNED else None, spread=spread)
    changes = [LinkChange(whole.ended / 3, ("spine1",)), LinkChange(whole.ended * 0.8, ("spine1",), up=True)]
    planner = by_policy("fair") if spread is PacketSpread.PINNED else None
    results = packets(fabric, jobs, planner, spread=spread, changes=changes)
    assert not results.stalled
    assert results.delivered_bytes.sum() == payload(jobs)
    assert results.ended > whole.ended
    assert results.link_dropped.sum() > 0


@pytest.mark.parametrize(("at_end", "last"), [(False, 2.0), (True, 1.5)])
def test_what_a_job_leaves_is_used_by_the_others_if_plans_are_new_at_its_end(at_end: bool, last: float) -> None:
    fabric = clos(2, 2, 3)
    jobs = simulated(fabric, [sends(f"j{i}", f"h{i}", f"h{i + 3}", 4_000_000) for i in (1, 2, 3)])
    # Windows that grow would need time to use what has become free.
    constant = PacketSettings(control=CongestionControl.WINDOW)
    results = packets(fabric, jobs, by_policy("fair"), settings=constant, at_end=at_end)
    times = sorted(ended(results).values())
    assert times[1:] == pytest.approx([times[0] * last] * 2, rel=0.05)


def test_jobs_compute_before_each_epoch_and_hosts_of_a_ring_wait_for_what_they_receive() -> None:
    fabric = clos(2, 2, 2)
    names = ["h1", "h2", "h3", "h4"]
    jobs = simulated(fabric, [ring("a", names, 400_000)], compute=1e-4, epochs=3)
    results = packets(fabric, jobs, by_policy("fair"))
    assert [epoch.number for epoch in results.epochs] == [0, 1, 2]
    before = 0.0
    for epoch in results.epochs:
        assert epoch.began == pytest.approx(before + 1e-4)
        before = epoch.ended
    transfers = results.transfers
    arrival = {
        (int(f), int(run), k // 24): end
        for k, (f, _, run, _, end) in enumerate(sorted(transfers.tolist(), key=lambda t: t[3]))
    }
    traffic = jobs[0].traffic
    into = {int(dst): f for f, dst in enumerate(traffic.dst.tolist())}
    for k, (flow, _, run, began, _) in enumerate(sorted(transfers.tolist(), key=lambda t: t[3])):
        if run > 0:
            assert began == pytest.approx(arrival[into[int(traffic.src[int(flow)])], int(run) - 1, k // 24])


def test_collectives_overlap_with_computing_and_wait_for_others_as_the_job_says() -> None:
    """``dp`` is sent from the begin on, ``ep`` after the computing, and ``last`` after ``dp``."""
    fabric = clos(3, 2, 3)
    pairs = {"dp": ("h1", "h4"), "ep": ("h2", "h5"), "last": ("h3", "h6")}
    job = parse_job(
        {
            "name": "a",
            "compute_seconds": 1e-4,
            "flows": [
                {"src": src, "dst": dst, "bytes": 400_000, "collective": name} for name, (src, dst) in pairs.items()
            ],
            "overlap": {"dp": "compute", "last": "compute"},
            "after": {"last": ["dp"]},
        }
    )
    jobs = simulated_jobs(fabric, [TimedJob(job, epochs=2)])
    results = packets(fabric, jobs, by_policy("fair"))
    names = [row.name for row in jobs[0].traffic.collectives]
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for flow, _, _, began, ended in sorted(results.transfers.tolist(), key=lambda row: row[3]):
        runs[names[int(jobs[0].traffic.collective[int(flow)])]].append((began, ended))
    begin = 0.0
    for i in range(2):
        assert runs["dp"][i][0] == pytest.approx(begin)
        assert runs["ep"][i][0] == pytest.approx(begin + 1e-4)
        assert runs["last"][i][0] == pytest.approx(runs["dp"][i][1])
        begin = max(begin + 1e-4, *(own[i][1] for own in runs.values()))
        assert results.epochs[i].ended == pytest.approx(begin)


def test_a_flow_without_a_path_waits_for_ever() -> None:
    fabric = clos(1, 2, 2).without_links(["spine1"])
    results = packets(fabric, simulated(fabric, [sends("a", "h1", "h3", 1000)]), by_policy("fair"))
    assert results.stalled
    assert not results.epochs


@settings(max_examples=8)
@given(
    seed=st.integers(0, 10**6),
    spread=st.sampled_from(list(PacketSpread)),
    control=st.sampled_from(list(CongestionControl)),
    recovery=st.sampled_from([Recovery.TRIM, Recovery.SELECTIVE]),
    gbps=st.sampled_from([25.0, 100.0, 400.0]),
    fails=st.booleans(),
    kept=st.sampled_from([PacketSettings(), PacketSettings(pace_window=1.0), PacketSettings(meters=0.5)]),
)
def test_ns3_has_the_same_results_to_the_last_digit(
    seed: int,
    spread: PacketSpread,
    control: CongestionControl,
    recovery: Recovery,
    gbps: float,
    fails: bool,
    kept: PacketSettings,
) -> None:
    fabric = clos(2, 4, 3, host_gbps=gbps, uplink_gbps=gbps)
    order = np.random.default_rng(seed).permutation(12).tolist()
    rows = [ring(f"j{j}", [f"h{h + 1}" for h in order[4 * j : 4 * j + 4]], 300_000 + 90_000 * j) for j in range(3)]
    jobs = simulated(fabric, rows, compute=0.00001, epochs=2)
    planner = by_policy("fair") if spread is PacketSpread.PINNED else None
    changes = [LinkChange(0.00004, ("spine1",)), LinkChange(0.00009, ("spine1",), up=True)] if fails else []
    own, other = (
        packets(
            fabric,
            jobs,
            planner,
            settings=dataclasses.replace(kept, control=control, recovery=recovery, record_transfers=True, core=core),
            spread=spread,
            paced=True,
            changes=changes,
            seed=seed,
        )
        for core in EventCore
    )
    for field in dataclasses.fields(PacketResults):
        # ns-3 also counts the events that set up its nodes.
        if field.name != "events":
            assert np.array_equal(getattr(own, field.name), getattr(other, field.name)), field.name


def test_without_the_program_the_error_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    fabric, jobs = rings(0)
    with pytest.raises(LabError, match="make setup-referee"):
        packets(fabric, jobs, by_policy("fair"))


def test_an_input_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric, jobs = rings(0)
    broken = dataclasses.replace(jobs[0], compute_seconds=float("nan"))
    with pytest.raises(LabError, match="cannot be read"):
        packets(fabric, [broken], by_policy("fair"))
