"""Plans of jobs whose connections have several QPs, and the policies that others use for them."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.routing import Options, PreviousPlan, assign
from controller.routing.objective.fairness import evaluate
from controller.routing.placing.qp_spread import spread_qps
from controller.routing.problem.demand import Demand
from controller.routing.validate import validate_assignment
from tests.traffic_columns import traffic_of_columns
from tests.unit.routing.instances import random_fabric


def rings(fabric: Fabric, qps: int) -> Traffic:
    """One ring over the leaves for each position in a rack: every leaf sends from each of its hosts."""
    per_leaf = fabric.n_hosts // fabric.n_leaves
    src = np.arange(fabric.n_hosts)
    dst = (src + per_leaf) % fabric.n_hosts
    return cut(src, dst, np.full(len(src), 10**9), qps)


def cut(src: np.ndarray, dst: np.ndarray, size: np.ndarray, qps: int) -> Traffic:
    """Connections of one collective, each with its QPs."""
    share = QueuePairs(qps).shares(size.astype(np.int64))
    return traffic_of_columns(
        np.repeat(src, qps),
        np.repeat(dst, qps),
        49152 + np.arange(len(src) * qps) % 16384,
        size=share.reshape(-1),
        collectives=[Collective("j", "ring", qps=QueuePairs(qps))],
    )


def distinct(demand: Demand, path: np.ndarray) -> int:
    """How many (connection, path) pairs there are."""
    connection = demand.traffic.connection[demand.part_flow[demand.part_ptr[:-1]]]
    return len(set(zip(connection.tolist(), path.tolist(), strict=True)))


@given(st.integers(2, 5), st.integers(2, 4), st.integers(1, 6), st.integers(0, 2), st.integers(0, 99))
def test_equal_qps_of_full_racks_reach_the_rounded_up_share(
    spines: int, leaves: int, qps: int, failed: int, seed: int
) -> None:
    """A leaf sends ``spines * qps`` equal QPs over ``live`` uplinks: some uplink carries the rounded-up share."""
    failed = min(failed, spines - 1)
    fabric = clos(spines, leaves, spines)
    gone = {f"spine{i + 1}" for i in range(failed)}
    fabric = fabric.without_links(
        [name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.upper in gone]
    )
    traffic = rings(fabric, qps)
    plan = assign("fair", fabric, traffic, seed=seed)
    share = spines * qps / (spines - failed)
    assert evaluate(fabric, traffic, plan.assignment).min_level == pytest.approx(share / np.ceil(share))


@pytest.mark.parametrize(("qps", "slowdown"), [(1, 2.0), (4, 1.25), (8, 1.125), (16, 1.0625)])
def test_a_failed_spine_of_32_costs_what_the_qps_allow_without_any_option(qps: int, slowdown: float) -> None:
    whole = clos(32, 3, 32)
    traffic = rings(whole, qps)
    fabrics = whole, whole.without_links(["spine7"])
    objectives = [evaluate(each, traffic, assign("fair", each, traffic).assignment) for each in fabrics]
    healthy, failed = (float((each.ideal_seconds / each.speed)[0]) for each in objectives)
    assert failed == pytest.approx(slowdown * healthy)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_planned_qps_are_never_slower_than_hashed_ones(seed: int, qps: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng)
    n = int(rng.integers(1, 9))
    src, dst = rng.integers(0, fabric.n_hosts, (2, n))
    traffic = cut(src, (dst + (src == dst)) % fabric.n_hosts, rng.integers(1, 4, n) * 10**6 * qps, qps)
    if (traffic.src == traffic.dst).any():
        return
    planned = assign("fair", fabric, traffic, seed=seed).assignment
    validate_assignment(fabric, traffic, planned)
    for policy in ("ecmp", "e_ecmp", "path_pinning"):
        hashed = assign(policy, fabric, traffic, seed=seed).assignment
        validate_assignment(fabric, traffic, hashed)
        level = [evaluate(fabric, traffic, each).min_level for each in (planned, hashed)]
        assert level[0] >= level[1] * (1 - 1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 4))
def test_spreading_changes_no_load_and_no_way_to_deal_the_paths_has_more_distinct_ones(seed: int, qps: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = clos(int(rng.integers(2, 5)), 2, 4)
    n = int(rng.integers(1, 4 if qps < 4 else 3))
    src, dst = rng.integers(0, 4, n), 4 + rng.integers(0, 4, n)
    traffic = cut(src, dst, np.full(n, 10**6 * qps), qps)
    demand = Demand.of(fabric, traffic)
    path = rng.integers(0, fabric.n_paths, demand.n_units).astype(np.int32)
    spread = spread_qps(demand, path)
    loads = [evaluate(fabric, traffic, demand.assignment(each)).link_load for each in (path, spread)]
    assert np.allclose(loads[0], loads[1])
    if len(path) <= 6:
        best = max(distinct(demand, np.array(each)) for each in set(permutations(path.tolist())))
        assert distinct(demand, spread) == best
    assert distinct(demand, spread) >= distinct(demand, path)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 24))
def test_qps_that_share_a_path_have_the_fewest_aligned_blocks_of_ports(seed: int, spines: int, qps: int) -> None:
    """One connection with consecutive ports: each path needs a block for each bit of the number of its QPs."""
    rng = np.random.default_rng(seed)
    fabric = clos(spines, 2, 1)
    traffic = cut(np.array([0]), np.array([1]), np.array([10**6 * qps]), qps)
    # Ports in any order of the QPs, from a multiple of 32.
    traffic = dataclasses.replace(traffic, udp_src=(50016 + rng.permutation(qps)).astype(np.int32))
    demand = Demand.of(fabric, traffic)
    path = rng.integers(0, spines, qps).astype(np.int32)
    spread = spread_qps(demand, path)
    assert sorted(spread.tolist()) == sorted(path.tolist())
    of_port = dict(zip(traffic.udp_src.tolist(), spread.tolist(), strict=True))
    blocks, port = 0, 50016
    while port < 50016 + qps:
        size = 32
        while port % size or {of_port.get(each) for each in range(port, port + size)} != {of_port[port]}:
            size //= 2
        blocks, port = blocks + 1, port + size
    assert blocks == sum(count.bit_count() for count in Counter(path.tolist()).values())


def test_qps_of_a_new_job_are_spread_and_those_of_old_ones_stay() -> None:
    fabric = clos(4, 3, 4)
    both = rings(fabric, 4)
    half = both.n_flows // 2
    old = traffic_of_columns(
        both.src[:half],
        both.dst[:half],
        both.udp_src[:half],
        size=both.bytes[:half],
        collective=both.collective[:half],
        number=both.number[:half],
        collectives=both.collectives,
    )
    before = PreviousPlan.of(fabric, old, assign("fair", fabric, old).assignment)
    plan = assign("fair", fabric, both, previous=before).assignment
    assert plan.path[:half].tolist() == before.single_paths(both)[:half].tolist()
    assert distinct(Demand.of(fabric, both), plan.path) == both.n_flows


def test_qps_of_unequal_load_or_of_other_leaves_are_not_exchanged() -> None:
    fabric = clos(3, 3, 2)
    src, dst = np.array([0, 0, 2]), np.array([2, 4, 4])
    traffic = cut(src, dst, np.array([6, 6, 12]), 2)
    demand = Demand.of(fabric, traffic)
    path = np.array([0, 0, 1, 1, 2, 2], dtype=np.int32)
    assert spread_qps(demand, path).tolist() == path.tolist()


def test_connections_with_a_qp_in_each_plane_keep_the_paths_of_the_plan() -> None:
    fabric = clos(2, 4, 4, planes=2)
    ports = fabric.planes.ports
    traffic = cut(np.arange(16), np.roll(np.arange(16), -4), np.full(16, 10**6), 2)
    traffic = dataclasses.replace(traffic, src=ports.ravel(), dst=np.roll(ports, -4, axis=0).ravel())
    demand = Demand.of(fabric, traffic)
    path = assign("fair", fabric, traffic).assignment.path
    assert len(set(path.tolist())) > 1
    assert spread_qps(demand, path) is path


def test_a_job_with_as_many_qps_as_uplinks_is_sprayed_exactly() -> None:
    fabric = clos(4, 3, 4)
    traffic = rings(fabric, 4)
    plan = assign("fair", fabric, traffic).assignment
    paths: dict[int, list[int]] = defaultdict(list)
    for flow, path in zip(plan.flow.tolist(), plan.path.tolist(), strict=True):
        paths[int(traffic.connection[flow])].append(path)
    assert all(sorted(each) == [0, 1, 2, 3] for each in paths.values())


@given(st.integers(0, 2**32 - 1), st.integers(1, 128))
def test_hashed_shares_are_multiples_of_one_qp(seed: int, qps: int) -> None:
    fabric = clos(4, 3, 4)
    traffic = rings(fabric, 1)
    hashed = assign("e_ecmp", fabric, traffic, seed=seed, options=Options(qps=qps)).assignment
    validate_assignment(fabric, traffic, hashed, enforceable=False)
    total = np.bincount(hashed.flow, weights=hashed.share)
    assert np.allclose(total, 1.0)
    assert np.allclose(hashed.share * qps, np.round(hashed.share * qps))


def test_qps_that_no_switch_can_tell_apart_are_hashed_as_one() -> None:
    fabric = clos(4, 3, 4)
    unknown = dataclasses.replace(rings(fabric, 1), udp_src=np.full(fabric.n_hosts, ANY_PORT, dtype=np.int32))
    assert not assign("e_ecmp", fabric, unknown, options=Options(qps=8)).assignment.is_split()


@pytest.mark.parametrize("qps", [1, 4, 16])
def test_hashed_qps_collide_as_often_as_drawn_ones(qps: int) -> None:
    """The fullest link, mean over seeds: by ports that hosts derive, and by independent draws."""
    fabric = clos(8, 8, 8)
    traffic = rings(fabric, qps)

    def fullest(policy: str) -> float:
        plans = [assign(policy, fabric, traffic, seed=seed).assignment for seed in range(60)]
        return float(np.mean([1 / evaluate(fabric, traffic, each).min_level for each in plans]))

    assert fullest("e_ecmp") == pytest.approx(fullest("random"), rel=0.1)


def test_qps_that_the_traffic_has_are_not_cut_again() -> None:
    fabric = clos(4, 3, 4)
    traffic = rings(fabric, 4)
    hashed = assign("e_ecmp", fabric, traffic).assignment
    validate_assignment(fabric, traffic, hashed)
    assert not hashed.is_split()


def test_pinned_paths_fill_full_racks_evenly_and_fragmented_ones_unevenly() -> None:
    fabric = clos(4, 4, 4)
    full = rings(fabric, 1)
    assert evaluate(fabric, full, assign("path_pinning", fabric, full).assignment).min_speed == 1.0
    # Half of each rack: positions 0 and 1 of one rack, sent to by all others.
    src = np.array([4, 8, 12, 5])
    fragment = cut(src, np.array([0, 4, 8, 12]), np.full(4, 10**9), 1)
    same = assign("path_pinning", fabric, fragment).assignment
    assert Counter(same.path.tolist()) == {0: 4}


def test_qps_are_part_of_the_version_of_traffic_and_one_qp_is_not() -> None:
    traffic = rings(clos(2, 2, 2), 2)
    plain = dataclasses.replace(traffic, collectives=(Collective("j", "ring"),))
    robin = dataclasses.replace(traffic, collectives=(Collective("j", "ring", qps=QueuePairs(2, "round_robin")),))
    assert len({traffic.version, plain.version, robin.version}) == 3
    assert "qps" not in repr(Collective("j", "ring"))
