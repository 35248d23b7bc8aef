"""``fair`` for jobs that say which collectives overlap with computing."""

from __future__ import annotations

import dataclasses

import pytest

import fairspine as fs
from benchmarks.plans.overlap import drawn, least, slowdown_of
from controller.model.files.clos import clos
from controller.model.timing import JobTiming
from controller.model.traffic import Collective, Traffic
from controller.model.waits import FOR_COMPUTING, Waits
from controller.planning.make_plan import make_plan
from controller.planning.plan_document import collective_rows
from controller.routing import Options, PreviousPlan, assign
from tests.unit.routing.instances import traffic_of

GB = 10**9
OVERLAPS = Waits(computing=False)
FABRIC = clos(3, 2, 12)
OPTIONS = Options(rounds=2000)


def two_jobs(dp: Waits) -> Traffic:
    """Two equal jobs: one host sends ``ep`` to the other leaf and within its own, another ``dp`` to the other leaf.

    Four flows cross three spines: two have to share an uplink. ``ep`` needs six tenths of one.
    """
    rows, flows = [], []
    for j, name in enumerate("ab"):
        timing = JobTiming(((0, 0.8),))
        rows += [Collective(name, "ep", timing=timing), Collective(name, "dp", timing=timing, waits=dp)]
        first = 4 * j
        flows += [(first, 12 + first, 6 * GB, 2 * j), (first, first + 1, 4 * GB, 2 * j)]
        flows += [(first + 2, 14 + first, 10 * GB, 2 * j + 1)]
    return traffic_of(flows, rows)


def test_what_overlaps_shares_a_spine_rather_than_what_jobs_wait_for() -> None:
    overlapped = make_plan(FABRIC, two_jobs(OVERLAPS), policy="fair", options=OPTIONS, clock=lambda: 0.0)
    serial = make_plan(FABRIC, two_jobs(FOR_COMPUTING), policy="fair", options=OPTIONS, clock=lambda: 0.0)
    assert overlapped.times is not None
    assert serial.times is not None
    assert (overlapped.times.slowdown, overlapped.times.bound) == pytest.approx((1.0, 1.0))
    path = overlapped.assignment.path
    assert path[2] == path[5]
    assert len({path[0], path[2], path[3]}) == 3
    rows = collective_rows(two_jobs(OVERLAPS), overlapped, range(4))
    assert [row["binds"] for row in rows] == pytest.approx([1, 0, 1, 0])
    assert [row["slack_seconds"] > 0.1 for row in rows] == [False, True, False, True]
    # Nothing is said of jobs that do not say what their collectives wait for.
    assert not {"binds", "slack_seconds"} & set(collective_rows(two_jobs(FOR_COMPUTING), serial, [0])[0])


def test_a_plan_in_force_stays_unless_another_is_expected_to_be_faster() -> None:
    traffic = two_jobs(OVERLAPS)
    best = assign("fair", FABRIC, traffic, options=OPTIONS).assignment
    kept = assign("fair", FABRIC, traffic, previous=PreviousPlan.of(FABRIC, traffic, best), options=OPTIONS)
    assert (kept.assignment.path == best.path).all()


ADVISE = dataclasses.replace(OPTIONS, shifts="advise")


def on_one_link(overlapped: bool) -> Traffic:
    """Two equal jobs on one uplink that compute for 0.2 s and then send ``ep`` for 0.1 s.

    ``dp`` of 0.05 s is sent while they compute, or after it, too.
    """
    rows, flows = [], []
    for j, name in enumerate("ab"):
        timing = JobTiming(((0, 0.2),))
        dp = OVERLAPS if overlapped else FOR_COMPUTING
        rows += [Collective(name, "ep", timing=timing), Collective(name, "dp", timing=timing, waits=dp)]
        flows += [(2 * j, 4 + 2 * j, GB * 5 // 4, 2 * j), (2 * j + 1, 5 + 2 * j, GB * 5 // 8, 2 * j + 1)]
    return traffic_of(flows, rows)


def test_jobs_that_overlap_send_by_turns() -> None:
    """Each sends ``dp`` in the first 0.05 s, and ``ep`` in the last 0.1 s of 0.3 s: only half of it keeps all apart."""
    fabric = clos(1, 2, 4)
    without = make_plan(fabric, on_one_link(overlapped=True), policy="fair", options=OPTIONS, clock=lambda: 0.0)
    assert without.times is not None
    assert without.times.slowdown > 1.04
    result = assign("fair", fabric, on_one_link(overlapped=True), options=ADVISE)
    assert result.schedule is not None
    assert result.schedule.slowdown == pytest.approx(1.0, abs=1e-6)
    for row in result.schedule.jobs:
        assert (row.iteration_seconds, row.period_seconds, row.compatibility) == pytest.approx((0.3, 0.3, 1.0))
        assert not row.hold
    first, second = (row.shift_seconds for row in result.schedule.jobs)
    assert (second - first) % 0.3 == pytest.approx(0.15)


def test_shifts_stay_for_jobs_that_stay() -> None:
    fabric, traffic = clos(1, 2, 4), on_one_link(overlapped=True)
    before = assign("fair", fabric, traffic, options=ADVISE)
    previous = PreviousPlan.of(fabric, traffic, before.assignment, before.schedule)
    after = assign("fair", fabric, traffic, previous=previous, options=ADVISE)
    assert before.schedule is not None
    assert after.schedule is not None
    assert [row.shift_seconds for row in after.schedule.jobs] == [row.shift_seconds for row in before.schedule.jobs]


def test_jobs_that_are_not_slowed_down_keep_to_their_bound_with_shifts() -> None:
    result = assign("fair", FABRIC, two_jobs(OVERLAPS), options=ADVISE)
    assert result.schedule is not None
    assert (result.schedule.slowdown, result.schedule.bound) == pytest.approx((1.0, 1.0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_schedule_is_never_expected_to_be_slower_than_the_plan_without_shifts(seed: int) -> None:
    fabric, traffic = drawn(seed, 2)
    without = slowdown_of(fabric, traffic, OPTIONS)
    result = assign("fair", fabric, traffic, options=ADVISE)
    assert result.schedule is not None
    assert result.schedule.bound - 1e-9 <= result.schedule.slowdown <= without * (1 + 1e-6)


@pytest.mark.parametrize(("seed", "spines"), [(0, 2), (1, 2), (0, 3), (1, 3)])
def test_on_drawn_instances_no_plan_is_expected_to_be_much_faster(seed: int, spines: int) -> None:
    fabric, traffic = drawn(seed, spines)
    assert slowdown_of(fabric, traffic, OPTIONS) <= least(fabric, traffic) * 1.02


def test_a_plan_under_which_a_slow_job_completes_nothing_in_a_short_draw_is_not_ruled_out() -> None:
    cables = [
        *(("leaf1", name, gbps) for name, gbps in (("spine1", 100), ("spine2", 10), ("spine2", 100), ("spine4", 100))),
        *(("leaf2", name, gbps) for name, gbps in (("spine1", 50), ("spine1", 100), ("spine2", 10), ("spine3", 10))),
        ("leaf2", "spine4", 100),
    ]
    layers = {"leaf": 2, "spine": 4}
    fabric = fs.fabric(
        {
            "switches": [
                {"name": f"{role}{i}", "role": role, "dpid": 10 * len(role) + i}
                for role, count in layers.items()
                for i in range(1, count + 1)
            ],
            "hosts": [
                {"name": f"h{i}", "leaf": f"leaf{1 + i // 3}", "gbps": 50 if i == 4 else 100} for i in range(1, 5)
            ],
            "links": [{"a": a, "b": b, "gbps": gbps} for a, b, gbps in cables],
            "tenants": {"a": 5, "b": 1},
        }
    )

    def one(name: str, op: str, ranks: list[int], size: int, **more: object) -> dict[str, object]:
        return {"name": name, "op": op, "ranks": ranks, "bytes": size, **more}

    small = one("c0", "all_reduce", [0, 3, 2, 1], 7, algorithm="direct")
    ring = one("c1", "all_gather", [0, 1, 2, 3], 300_000_000, phase=2)
    experts = one("c2", "all_to_all", [1, 2, 3], 12_345_678, phase=1)
    spans = one("c0", "broadcast", [1, 0], 10**9, until="end")
    sends = [
        one("c1", "send_recv", [1, 0], 300_000_000, phase=1),
        one("c2", "broadcast", [1, 0], 7, phase=1),
    ]
    two = one("c0", "all_to_all", [0, 1], 300_000_000)
    late = one("c0", "all_to_all", [1, 0], 12_345_678, phase=1, until="end")
    jobs = [
        fs.job("j0", hosts=["h2", "h4", "h1", "h3"], collectives=[small, ring, experts], qps=2, tenant="a"),
        fs.job(
            "j1", hosts=["h2", "h4"], collectives=[spans, *sends], weight=0.5, tenant="b", compute_seconds={"1": 0.05}
        ),
        fs.job("j2", hosts=["h2", "h1", "h3"], collectives=[two], weight=0.5, qps=3, tenant="b"),
        fs.job("j3", hosts=["h3", "h1"], collectives=[late], qps=3, compute_seconds={"1": 0.05}),
    ]

    def slowdown(policy: str) -> float:
        times = fs.plan(fabric, jobs, policy=policy).plan.times
        assert times is not None
        return times.slowdown

    # By colouring, j1 takes ten times as long as alone, but has a tenth of the weight of j0: short draws end before it.
    assert slowdown("first_fit") > 3
    assert slowdown("fair") <= 1.01 * min(slowdown("greedy"), slowdown("coloring")) < 2
