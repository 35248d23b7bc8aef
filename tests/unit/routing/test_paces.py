"""The paces of flows: where they bind, where they are safe, and what they leave unchanged."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray
from controller.model.files.clos import clos
from controller.model.paces import NOT_PACED, PacketSize
from controller.model.timing import JobShift, JobTiming, Schedule
from controller.model.traffic import Collective, Traffic
from controller.routing import Options, assign
from controller.routing.base import PaceRule
from controller.routing.objective.fairness import evaluate
from controller.routing.pacing import paces
from controller.routing.pacing.paces import wire_paces
from controller.routing.pacing.room import with_room
from controller.routing.problem.one_peer import has_one_peer
from tests.unit.routing.instances import instances, traffic_of

POLICY = st.sampled_from(["ecmp", "greedy", "split"])
RULE = st.sampled_from(typing.get_args(PaceRule))
CLOSE = 1e-6
ONE_SPINE = clos(1, 2, 4)


def assigned(fabric: Fabric, traffic: Traffic, policy: str) -> Assignment:
    return assign(policy, fabric, traffic, options=Options(max_splits=None)).assignment


def rows_of_links(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> Iterator[tuple[int, list[int]]]:
    """The links between switches that carry rows, each with these rows."""
    rows: dict[int, list[int]] = {}
    for row, (flow, path) in enumerate(zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True)):
        if path >= 0:
            for link in fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path)[1:-1]:
                rows.setdefault(link, []).append(row)
    yield from rows.items()


def max_min(fabric: Fabric, traffic: Traffic, assignment: Assignment, most: FloatArray) -> FloatArray:
    """Max-min fair rates [R] of the rows, each at most ``most``."""
    links = [
        fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), int(path))
        for flow, path in zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True)
    ]
    rate, room = np.zeros(len(links)), fabric.link_gbps.copy()
    rising = {row for row, path in enumerate(assignment.path.tolist()) if path >= -1}
    while rising:
        count = np.zeros(len(room))
        for row in rising:
            count[list(links[row])] += 1
        step = min(float((room / np.where(count > 0, count, np.nan))[list(links[row])].min()) for row in rising)
        step = min(step, *(most[row] - rate[row] for row in rising))
        for row in rising:
            rate[row] += step
        room -= step * count
        full = room <= 1e-9 * fabric.link_gbps
        rising = {row for row in rising if rate[row] < most[row] - 1e-9 and not full[list(links[row])].any()}
    return rate


def loads(fabric: Fabric, traffic: Traffic, assignment: Assignment, rates: FloatArray) -> FloatArray:
    """Loads [E] of all links at these rates [R]."""
    load = np.zeros(len(fabric.link_gbps))
    for flow, path, rate in zip(assignment.flow.tolist(), assignment.path.tolist(), rates.tolist(), strict=True):
        load[list(fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path))] += rate
    return load


def two_jobs(one: Collective, other: Collective) -> Traffic:
    """A flow of each job from leaf 1 to leaf 2, over one uplink of 100 Gbit/s."""
    return traffic_of([(0, 4, 10**9, 0), (1, 5, 10**9, 1)], [one, other])


@given(instances(), POLICY, RULE)
def test_paced_flows_that_are_sent_at_once_fit_on_every_link_with_their_headers(
    instance: tuple[Fabric, Traffic], policy: str, rule: PaceRule
) -> None:
    fabric, traffic = instance
    assignment = assigned(fabric, traffic, policy)
    wire = wire_paces(fabric, traffic, assignment, rule=rule)
    for link, rows in rows_of_links(fabric, traffic, assignment):
        heaviest: dict[int, dict[int, float]] = {}
        for row in rows:
            if not np.isnan(wire[row]):
                k = traffic.collective[assignment.flow[row]]
                phases = heaviest.setdefault(int(traffic.job_index[k]), {})
                phases[int(traffic.phase[k])] = phases.get(int(traffic.phase[k]), 0.0) + float(wire[row])
        most = sum(max(phases.values()) for phases in heaviest.values())
        assert most <= fabric.link_gbps[link] * (1 + CLOSE)


@given(instances(), POLICY, RULE)
def test_a_flow_that_is_alone_on_its_links_is_not_paced(
    instance: tuple[Fabric, Traffic], policy: str, rule: PaceRule
) -> None:
    fabric, traffic = instance
    assignment = assigned(fabric, traffic, policy)
    wire = wire_paces(fabric, traffic, assignment, rule=rule)
    meets, paced = set(), set(np.flatnonzero(~np.isnan(wire)).tolist())
    for _, rows in rows_of_links(fabric, traffic, assignment):
        if len({int(assignment.flow[row]) for row in rows}) > 1:
            meets.update(rows)
    if not meets:
        assert not paced
    src, dst = (end[assignment.flow].tolist() for end in (traffic.src, traffic.dst))
    for row in paced - meets:
        others = [other for other in range(assignment.n_rows) if other != row and assignment.path[other] >= -1]
        assert any(src[other] == src[row] or dst[other] == dst[row] for other in others)


@given(instances(phases=False), POLICY, RULE)
def test_with_paces_every_flow_of_a_paced_job_keeps_at_least_the_rate_at_which_its_job_ends_in_time(
    instance: tuple[Fabric, Traffic], policy: str, rule: PaceRule
) -> None:
    fabric, traffic = instance
    assignment = assigned(fabric, traffic, policy)
    kept = wire_paces(fabric, traffic, assignment, rule=rule)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paces, "FREE", 0.0)
        wire = wire_paces(fabric, traffic, assignment, rule=rule)
    if np.isnan(wire).all():
        return
    # What stays free beside all-to-alls is taken from all that meet them, and from nothing else.
    several = ~has_one_peer(traffic)[traffic.collective[assignment.flow]] & ~np.isnan(wire)
    assert np.isnan(kept[np.isnan(wire)]).all()
    np.testing.assert_allclose(kept[several], wire[several] * (1 - paces.FREE), rtol=CLOSE)
    for made, full in zip(kept[~np.isnan(wire)], wire[~np.isnan(wire)], strict=True):
        assert made == pytest.approx(full, rel=CLOSE) or made == pytest.approx(full * (1 - paces.FREE), rel=CLOSE)
    if not several.any():
        np.testing.assert_array_equal(kept, wire)
    rates = max_min(fabric, traffic, assignment, np.where(np.isnan(wire), np.inf, wire))
    gbit = traffic.bytes[assignment.flow] * 8e-9 * assignment.share
    job = traffic.job_index[traffic.collective[assignment.flow]]
    for j in np.unique(job[~np.isnan(wire)]).tolist():
        paced = np.flatnonzero((job == j) & ~np.isnan(wire))
        assert (rates[paced] >= wire[paced] * (1 - CLOSE)).all()
        # No pace makes the job later: a flow that ends as late could not be faster, as it has a full link.
        own = np.flatnonzero((job == j) & (assignment.path >= -1))
        late = gbit[own] / rates[own] >= (gbit[paced] / wire[paced]).max() * (1 - CLOSE)
        flow, path = assignment.flow, assignment.path.tolist()
        full = loads(fabric, traffic, assignment, rates) >= fabric.link_gbps * (1 - CLOSE)
        assert any(
            full[list(fabric.flow_links(int(traffic.src[flow[row]]), int(traffic.dst[flow[row]]), path[row]))].any()
            for row in own[late].tolist()
        )


@given(instances(phases=False), POLICY, st.integers(0, 2**32))
def test_room_lowers_no_rate_and_overfills_no_link(instance: tuple[Fabric, Traffic], policy: str, seed: int) -> None:
    fabric, traffic = instance
    assignment = assigned(fabric, traffic, policy)
    rows = np.flatnonzero(assignment.path >= -1)
    least = np.zeros(assignment.n_rows)
    least[rows] = np.random.default_rng(seed).uniform(0.1, 1.0, len(rows))
    routable = Assignment(assignment.flow[rows], assignment.path[rows], assignment.share[rows])
    load = loads(fabric, traffic, routable, least[rows])
    least /= max(1e-9, float((load / fabric.link_gbps).max(initial=0.0)))
    given = least[rows] * 0.9
    waited_for = np.random.default_rng(seed + 1).random(len(rows)) < 0.8
    made = with_room(fabric, traffic, assignment, rows, given, waited_for)
    assert (made >= given).all()
    assert (made == given)[~waited_for].all()
    assert (loads(fabric, traffic, routable, made) <= fabric.link_gbps * (1 + CLOSE)).all()


def test_a_flow_that_is_not_on_the_full_link_has_the_room_of_its_links() -> None:
    # Three flows share an uplink, the fourth one the link of a host with one of them.
    flows = [(0, 4), (1, 5), (0, 6), (2, 6)]
    paths = Assignment.single(np.array([0, 0, 0, 1], dtype=np.int32))
    pairs = traffic_of(
        [(*flow, 10**9, k) for k, flow in enumerate(flows)], [Collective("a", f"c{k}") for k in range(4)]
    )
    wire = wire_paces(clos(2, 2, 4), pairs, paths)
    np.testing.assert_allclose(wire, [100 / 3, 100 / 3, 100 / 3, 200 / 3], rtol=CLOSE)
    # Where a host has two peers in a collective, nothing waits for one of its flows, and a hundredth stays free.
    together = traffic_of([(*flow, 10**9, 0) for flow in flows], [Collective("a", "c")])
    np.testing.assert_allclose(wire_paces(clos(2, 2, 4), together, paths), [33.0] * 4, rtol=CLOSE)


@given(instances())
def test_a_host_has_one_peer_where_no_other_flow_of_the_collective_says_otherwise(
    instance: tuple[Fabric, Traffic],
) -> None:
    _, traffic = instance
    flows = list(zip(traffic.collective.tolist(), traffic.src.tolist(), traffic.dst.tolist(), strict=True))
    several = {k for k, a, b in flows for j, c, d in flows if j == k and (a == c) != (b == d)}
    made = has_one_peer(traffic).tolist()
    assert made == [k not in several for k in range(len(traffic.collectives))]


@given(instances(phases=False), POLICY, RULE, st.randoms(use_true_random=False))
def test_paces_depend_on_no_name_and_no_order(
    instance: tuple[Fabric, Traffic], policy: str, rule: PaceRule, random: object
) -> None:
    fabric, traffic = instance
    assignment = assigned(fabric, traffic, policy)
    wire = wire_paces(fabric, traffic, assignment, rule=rule)
    names = list(dict.fromkeys(row.job for row in traffic.collectives))
    shuffled = names.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    other = dict(zip(names, (f"x{name}" for name in shuffled), strict=True))
    order = list(range(len(traffic.collectives)))
    random.shuffle(order)  # type: ignore[attr-defined]
    rows = tuple(dataclasses.replace(traffic.collectives[k], job=other[traffic.collectives[k].job]) for k in order)
    place = np.argsort(order).astype(np.int32)
    again = dataclasses.replace(traffic, collectives=rows, collective=place[traffic.collective])
    np.testing.assert_allclose(wire_paces(fabric, again, assignment, rule=rule), wire, rtol=CLOSE)


@given(st.integers(1, 3), st.integers(1, 3))
def test_jobs_of_one_collective_are_paced_at_their_planned_rates(hosts: int, jobs: int) -> None:
    fabric = clos(1, 2, hosts * jobs)
    flows = [(j * hosts + i, (jobs + j) * hosts + i, 10**9, j) for j in range(jobs) for i in range(hosts)]
    traffic = traffic_of(flows, [Collective(f"j{j}", "c", 1.0 + j) for j in range(jobs)])
    assignment = Assignment.single(np.zeros(len(flows), dtype=np.int32))
    objective = evaluate(fabric, traffic, assignment)
    rate = 8.0 / objective.ideal_seconds[traffic.collective] * objective.speed[traffic.collective]
    wire = wire_paces(fabric, traffic, assignment)
    if len(flows) == 1:
        assert np.isnan(wire).all()
    else:
        np.testing.assert_allclose(wire, rate, rtol=CLOSE)


@pytest.mark.parametrize(
    "other",
    [
        Collective("b", "c", timing=JobTiming(period_seconds=10.0)),
        Collective("b", "c", timing=JobTiming(compute=((0, 1.0),))),
        Collective("b", "c", in_turns=True),
    ],
    ids=["a period", "computing", "flows in turns"],
)
def test_nobody_is_paced_beside_a_job_that_does_not_always_send(other: Collective) -> None:
    path = Assignment.single(np.zeros(2, dtype=np.int32))
    steady, traffic = two_jobs(Collective("a", "c"), Collective("b", "c")), two_jobs(Collective("a", "c"), other)
    np.testing.assert_allclose(wire_paces(ONE_SPINE, steady, path), [50.0, 50.0])
    assert np.isnan(wire_paces(ONE_SPINE, traffic, path)).all()
    assert np.isnan(wire_paces(ONE_SPINE, steady, path, varying={"b"})).all()


def test_a_job_of_several_phases_is_paced_where_it_meets_no_other() -> None:
    rows = [Collective("a", "c"), Collective("a", "d", phase=1), Collective("b", "c")]
    flows = [(0, 4, 10**9, 0), (1, 5, 10**9, 0), (2, 6, 10**9, 1)]
    alone = traffic_of(flows, rows[:2])
    wire = wire_paces(ONE_SPINE, alone, Assignment.single(np.zeros(3, dtype=np.int32)))
    np.testing.assert_allclose(wire, [50.0, 50.0, np.nan])
    both = traffic_of([*flows, (3, 7, 10**9, 2)], rows)
    assert np.isnan(wire_paces(ONE_SPINE, both, Assignment.single(np.zeros(4, dtype=np.int32)))).all()


@given(st.floats(0.0, 1.0))
def test_jobs_that_shifts_keep_apart_are_paced_at_the_rate_of_each_alone(compatibility: float) -> None:
    timing = JobTiming(period_seconds=10.0)
    rows = [Collective("a", "c", timing=timing), Collective("b", "c", timing=timing)]
    traffic = traffic_of([(0, 4, 10**9, 0), (1, 5, 10**9, 0), (2, 6, 10**9, 1), (3, 7, 10**9, 1)], rows)
    shifts = tuple(JobShift(name, 10.0, shift, True, 10.0, compatibility) for name, shift in (("a", 0.0), ("b", 5.0)))
    path = Assignment.single(np.zeros(4, dtype=np.int32))
    wire = wire_paces(ONE_SPINE, traffic, path, schedule=Schedule(shifts, 1.0, 1.0))
    expected = 50.0 if compatibility >= 1 - 1e-6 else np.nan
    np.testing.assert_allclose(wire, np.full(4, expected))


def test_a_job_that_meets_one_over_a_host_only_is_not_steady_either() -> None:
    # c sends from a host of a, which has more for its other flow while c computes.
    fabric = clos(2, 2, 4)
    timing = JobTiming(period_seconds=10.0)
    rows = [Collective("a", "c"), Collective("b", "c"), Collective("c", "c", timing=timing)]
    flows = [(0, 4, 10**9, 0), (1, 5, 10**9, 1), (0, 7, 10**9, 2)]
    path = Assignment.single(np.array([0, 0, 1], dtype=np.int32))
    assert np.isnan(wire_paces(fabric, traffic_of(flows, rows), path)).all()
    np.testing.assert_allclose(
        wire_paces(fabric, traffic_of(flows[:2], rows[:2]), Assignment.single(path.path[:2])), 50
    )


def test_hosts_that_cannot_overfill_an_uplink_are_not_paced() -> None:
    fabric = clos(1, 2, 4, uplink_gbps=400.0)
    flows = [(i, 4 + i, 10**9, i) for i in range(4)]
    traffic = traffic_of(flows, [Collective(f"j{i}", "c") for i in range(4)])
    assert np.isnan(wire_paces(fabric, traffic, Assignment.single(np.zeros(4, dtype=np.int32)))).all()


@given(st.integers(256, 65_000), st.integers(0, 100), st.floats(0.001, 800.0))
def test_payload_and_headers_make_up_the_rate_on_the_links(mtu: int, growth: int, gbps: float) -> None:
    pace = PacketSize(mtu, growth).pace(gbps)
    assert pace.wire_gbps == gbps
    assert pace.pace_gbps == pytest.approx(gbps * mtu / (mtu + 82 + growth))
    assert PacketSize(mtu, growth).pace(None) == NOT_PACED


def test_levels_let_the_job_that_is_faster_alone_keep_the_higher_rate_and_even_rates_do_not() -> None:
    # Job a has two flows on the link and job b one: alone, a flow of a has 50 Gbit/s and that of b 100.
    rows = [Collective("a", "c"), Collective("b", "c")]
    traffic = traffic_of([(0, 4, 10**9, 0), (1, 5, 10**9, 0), (2, 6, 10**9, 1)], rows)
    path = Assignment.single(np.zeros(3, dtype=np.int32))
    np.testing.assert_allclose(wire_paces(ONE_SPINE, traffic, path, rule="levels"), [25, 25, 50], rtol=CLOSE)
    np.testing.assert_allclose(wire_paces(ONE_SPINE, traffic, path, rule="even"), [100 / 3] * 3, rtol=CLOSE)
    np.testing.assert_allclose(wire_paces(ONE_SPINE, traffic, path), [100 / 3] * 3, rtol=CLOSE)
    assert Options().paces == "even"


@given(
    st.lists(st.tuples(st.integers(10**6, 10**9), st.integers(0, 10**9), st.floats(0.5, 2.0)), min_size=2, max_size=2)
)
def test_even_paces_give_the_largest_flows_of_hosts_with_one_peer_rates_in_proportion_to_their_weights(
    jobs: list[tuple[int, int, float]],
) -> None:
    flows, rows = [], []
    for j, (largest, other, weight) in enumerate(jobs):
        flows += [(2 * j, 4 + 2 * j, largest, j), (2 * j + 1, 5 + 2 * j, max(1, min(other, largest)), j)]
        rows.append(Collective(f"j{j}", "c", weight=weight))
    traffic = traffic_of(flows, rows)
    wire = wire_paces(ONE_SPINE, traffic, Assignment.single(np.zeros(4, dtype=np.int32)), rule="even")
    # All four flows share both links of the spine, which are full.
    np.testing.assert_allclose(wire.sum(), 100.0, rtol=CLOSE)
    np.testing.assert_allclose(wire[0] / wire[2], jobs[0][2] / jobs[1][2], rtol=CLOSE)
    np.testing.assert_allclose(wire[1::2] / wire[::2], traffic.bytes[1::2] / traffic.bytes[::2], rtol=CLOSE)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(10**6, 10**9), min_size=4, max_size=4), st.floats(0.5, 2.0)),
        min_size=2,
        max_size=2,
    )
)
def test_even_paces_give_the_busiest_hosts_of_jobs_on_a_link_rates_in_proportion_to_their_weights(
    jobs: list[tuple[list[int], float]],
) -> None:
    # Two senders and two receivers for each job: a flow of every pair of them.
    flows, rows = [], []
    for j, (sizes, weight) in enumerate(jobs):
        pairs = [(2 * j + i, 4 + 2 * j + k) for i in range(2) for k in range(2)]
        flows += [(*pair, size, j) for pair, size in zip(pairs, sizes, strict=True)]
        rows.append(Collective(f"j{j}", "c", weight=weight))
    traffic = traffic_of(flows, rows)
    wire = wire_paces(ONE_SPINE, traffic, Assignment.single(np.zeros(8, dtype=np.int32)), rule="even")
    busiest = []
    for j in range(2):
        own = wire[4 * j : 4 * j + 4].reshape(2, 2)
        busiest.append(max(*own.sum(axis=0), *own.sum(axis=1)) / jobs[j][1])
    np.testing.assert_allclose(busiest[0], busiest[1], rtol=CLOSE)
    np.testing.assert_allclose(wire.sum(), 100.0 * (1 - paces.FREE), rtol=CLOSE)


def test_an_all_to_all_beside_a_ring_has_no_more_of_a_link_for_its_many_flows() -> None:
    # Host 1 sends to three others, host 2 to one: each has half of the uplink.
    rows = [Collective("a", "c"), Collective("b", "c")]
    traffic = traffic_of([*((0, 4 + i, 10**9, 0) for i in range(3)), (1, 7, 3 * 10**9, 1)], rows)
    wire = wire_paces(ONE_SPINE, traffic, Assignment.single(np.zeros(4, dtype=np.int32)))
    np.testing.assert_allclose(wire, [16.5, 16.5, 16.5, 49.5], rtol=CLOSE)
