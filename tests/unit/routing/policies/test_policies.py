from __future__ import annotations

import binascii
import dataclasses
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import LOCAL, UNROUTABLE
from controller.model.choices.protocol import Protocol
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.packets.flow_ports import port_code
from controller.model.packets.port_numbers import ROCE_PORT
from controller.model.traffic import Collective, Traffic
from controller.routing import POLICIES, Options, PreviousPlan, assign
from controller.routing.kernels import hashing
from controller.routing.kernels.placing import place
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.validate import validate_assignment
from tests.unit.laws import examples
from tests.unit.routing.instances import instances, random_fabric, random_traffic, traffic_of

QUICK = Options(rounds=2000, annealing_rounds=500, nodes=20, qps=3)
names = st.sampled_from(sorted(POLICIES))


@settings(max_examples=examples(100, 600), deadline=None)
@given(instances(), names, st.integers(0, 2**40))
def test_every_policy_gives_a_valid_plan_for_any_instance(
    instance: tuple[Fabric, Traffic], name: str, seed: int
) -> None:
    fabric, traffic = instance
    result = assign(name, fabric, traffic, seed=seed, options=QUICK)
    validate_assignment(fabric, traffic, result.assignment, enforceable=POLICIES[name].enforceable)
    assert POLICIES[name].splits or not result.assignment.is_split()


@settings(max_examples=examples(40, 240), deadline=None)
@given(instances(), names, st.integers(0, 100))
def test_equal_arguments_give_equal_plans(instance: tuple[Fabric, Traffic], name: str, seed: int) -> None:
    fabric, traffic = instance
    one, other = (assign(name, fabric, traffic, seed=seed, options=QUICK).assignment for _ in range(2))
    np.testing.assert_array_equal(one.flow, other.flow)
    np.testing.assert_array_equal(one.path, other.path)
    np.testing.assert_array_equal(one.share, other.share)


@settings(max_examples=examples(30, 180), deadline=None)
@given(instances(), names)
def test_a_plan_made_near_an_earlier_one_is_valid_after_a_failure(instance: tuple[Fabric, Traffic], name: str) -> None:
    fabric, traffic = instance
    options = Options(rounds=2000, annealing_rounds=500, nodes=20, max_splits=100)
    before = assign(name, fabric, traffic, options=options).assignment
    failed = fabric.without_links([fabric.cable_names[0]])
    after = assign(name, failed, traffic, previous=PreviousPlan.of(fabric, traffic, before), options=options).assignment
    validate_assignment(failed, traffic, after, enforceable=POLICIES[name].enforceable)


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_degenerate_traffic_gets_a_plan(name: str) -> None:
    fabric = clos(2, 3, 2).without_links(["leaf3", "h2-leaf1"])
    flows = [(0, 2, 10**9, 0), (0, 3, 10**9, 0), (4, 0, 10**9, 1), (1, 2, 10**9, 2), (2, 3, 10**9, 3)]
    traffic = traffic_of(flows, [Collective("j", str(k)) for k in range(5)])
    path = assign(name, fabric, traffic, options=QUICK).assignment
    first = {int(f): int(p) for f, p in zip(path.flow, path.path, strict=True)}
    assert first[0] >= 0
    assert first[1] >= 0
    assert (first[2], first[3], first[4]) == (UNROUTABLE, UNROUTABLE, LOCAL)
    assert assign(name, fabric, Traffic.empty(), options=QUICK).assignment.n_rows == 0


def test_an_unknown_policy_is_one_clear_error() -> None:
    with pytest.raises(InputError, match=r"policy: 'fastest': no policy has this name; there are fair, ecmp, "):
        assign("fastest", clos(1, 2, 1), Traffic.empty())


def test_ecmp_hashes_the_five_tuple_by_crc_32() -> None:
    fabric = clos(7, 4, 4)
    rng = np.random.default_rng(1)
    traffic = random_traffic(rng, fabric, most_flows=60, unknown_ports=False)
    ports = traffic.udp_src.copy()
    others: dict[int, tuple[Protocol, int, int, int]] = {}
    others |= {4: ("tcp", 6, 0, 5000), 5: ("tcp", 6, 7000, 0), 6: ("udp", 17, 0, 53), 7: ("any", 253, 0, 0)}
    for f, (protocol, _, src_port, dst_port) in others.items():
        ports[f] = port_code(protocol, src_port, dst_port)
    traffic = dataclasses.replace(traffic, udp_src=ports)
    for seed in (0, 12345):
        paths = assign("ecmp", fabric, traffic, seed=seed).assignment.path
        for f, path in enumerate(paths.tolist()):
            if path == LOCAL:
                continue
            _, number, *used = others.get(f, ("roce", 17, int(ports[f]), ROCE_PORT))
            ends = (fabric.host_ip[traffic.src[f]], fabric.host_ip[traffic.dst[f]], *used, number)
            hashed = binascii.crc32(struct.pack(">IIHHB", *map(int, ends)), seed)
            assert path == (hashed >> seed % 32 | hashed << 32 - seed % 32) % 2**32 % 7


def test_another_seed_of_ecmp_is_another_draw_even_where_the_number_of_paths_is_a_power_of_two() -> None:
    fabric = clos(4, 4, 8)
    traffic = random_traffic(np.random.default_rng(2), fabric, most_flows=60, unknown_ports=False)
    together = set()
    for seed in range(8):
        path = assign("ecmp", fabric, traffic, seed=seed).assignment.path
        together.add((path[:, None] == path[None, :]).tobytes())
    assert len(together) == 8


def toeplitz(data: bytes, key: bytes) -> int:
    """Bit by bit, as the receive-side scaling specification words it."""
    bits = int.from_bytes(key, "big")
    value = 0
    for i in range(8 * len(data)):
        if data[i // 8] >> (7 - i % 8) & 1:
            value ^= bits >> (8 * len(key) - 32 - i) & 0xFFFFFFFF
    return value


def test_ecmp_can_hash_as_receive_side_scaling_does() -> None:
    key = hashing.TOEPLITZ_KEY.tobytes()
    # The specification's own example: 66.9.149.187:2794 to 161.142.100.80:1766 hashes to 0x51ccc178.
    known = bytes([66, 9, 149, 187, 161, 142, 100, 80]) + struct.pack(">HH", 2794, 1766)
    assert toeplitz(known, key) == 0x51CCC178
    source, destination, port = 0x0A000001, 0x0A000105, 50000
    data = struct.pack(">IIHHB", source, destination, port, ROCE_PORT, 17)
    ends = np.array([source], np.uint32), np.array([destination], np.uint32)
    used, to, protocol = (np.array([value], np.int32) for value in (port, ROCE_PORT, 17))
    for seed, same in ((0, True), (7, False)):
        seeds = np.full(1, seed, np.uint32)
        hashed = hashing.toeplitz(ends[0], ends[1], used, to, protocol, seeds, hashing.TOEPLITZ_KEY)[0]
        assert (hashed == toeplitz(data, key)) == same


@settings(max_examples=examples(20, 120), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_greedy_is_within_a_factor_of_two_of_the_proven_optimum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=True, most=3)
    traffic = random_traffic(rng, fabric, most_flows=10, phases=False)
    best = assign("ilp", fabric, traffic, options=Options(nodes=200, rounds=5000))
    if best.status == "optimal":
        optimum = evaluate(fabric, traffic, best.assignment).min_level
        greedy = evaluate(fabric, traffic, assign("greedy", fabric, traffic).assignment).min_level
        assert greedy >= optimum / 2 * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_within_a_factor_of_two_of_the_equal_load_bound_on_large_rings(seed: int) -> None:
    fabric = clos(24, 32, 32)
    hosts = np.random.default_rng(seed).permutation(fabric.n_hosts).reshape(-1, 64)
    flows = [
        (int(a), int(b), 10**9, k) for k, ring in enumerate(hosts) for a, b in zip(ring, np.roll(ring, -1), strict=True)
    ]
    traffic = traffic_of(flows, [Collective(f"j{k}", "ring") for k in range(len(hosts))])
    limit = bound(fabric, traffic).single
    assert limit is not None
    assert evaluate(fabric, traffic, assign("greedy", fabric, traffic).assignment).min_level >= limit / 2


def test_first_fit_takes_the_first_path_with_room_and_else_what_ecmp_says() -> None:
    fabric = clos(2, 2, 3)
    traffic = traffic_of([(i, 3 + i, 10**9, i) for i in range(3)], [Collective("a", str(i)) for i in range(3)])
    paths = assign("first_fit", fabric, traffic, seed=3).assignment.path
    assert paths[:2].tolist() == [0, 1]
    assert paths[2] == assign("ecmp", fabric, traffic, seed=3).assignment.path[2]


@settings(max_examples=examples(40, 240), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_estimated_demands_fill_the_host_links_max_min_fairly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_hosts, n_flows = int(rng.integers(2, 7)), int(rng.integers(1, 20))
    src = rng.integers(0, n_hosts, n_flows).astype(np.int32)
    dst = ((src + rng.integers(1, n_hosts, n_flows)) % n_hosts).astype(np.int32)
    gbps = np.full(n_hosts, 100.0)
    demand = place.estimate_demand(src, dst, gbps, gbps)
    sent = np.bincount(src, weights=demand, minlength=n_hosts)
    received = np.bincount(dst, weights=demand, minlength=n_hosts)
    assert (sent <= 100 * (1 + 1e-6)).all()
    assert (received <= 100 * (1 + 1e-6)).all()
    for f in range(n_flows):
        # Bottleneck condition: at one of its ends the link is full and nobody there has more.
        at_sender = sent[src[f]] >= 100 * (1 - 1e-6) and demand[f] >= demand[src == src[f]].max() - 1e-4
        at_receiver = received[dst[f]] >= 100 * (1 - 1e-6) and demand[f] >= demand[dst == dst[f]].max() - 1e-4
        assert at_sender or at_receiver


@pytest.mark.parametrize(("flows", "spines"), [(5, 4), (6, 4), (7, 3), (2, 3), (4, 4)])
def test_ethereal_cuts_the_odd_flows_of_a_sender_and_loads_all_its_uplinks_alike(flows: int, spines: int) -> None:
    fabric = clos(spines, 2, flows)
    traffic = traffic_of([(0, flows + i, 10**9, 0) for i in range(flows)], [Collective("a", "c")])
    assignment = assign("ethereal", fabric, traffic).assignment
    odd = flows % spines
    pieces = np.bincount(assignment.flow)
    assert sorted(pieces.tolist()) == sorted([1] * (flows - odd) + [spines // np.gcd(odd, spines)] * odd)
    carried = np.bincount(assignment.path, weights=assignment.share, minlength=spines)
    np.testing.assert_allclose(carried, flows / spines)


def test_ethereal_by_leaf_counts_all_flows_of_the_leaf_together() -> None:
    fabric = clos(4, 2, 4)
    traffic = traffic_of([(i, 4 + i, 10**9, 0) for i in range(4)], [Collective("a", "c")])
    assert not assign("ethereal", fabric, traffic, options=Options(ethereal_by="leaf")).assignment.is_split()
    assert assign("ethereal", fabric, traffic, options=Options(ethereal_by="host")).assignment.is_split()


def test_spray_reaches_what_free_splitting_can_on_a_symmetric_fabric() -> None:
    fabric = clos(3, 3, 4)
    rng = np.random.default_rng(5)
    traffic = random_traffic(rng, fabric, most_flows=60)
    result = assign("spray", fabric, traffic).assignment
    assert evaluate(fabric, traffic, result).min_level == pytest.approx(bound(fabric, traffic).split)


@settings(max_examples=examples(8, 45), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_annealing_ends_no_worse_than_it_began(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = random_fabric(rng, symmetric=True)
    traffic = random_traffic(rng, fabric, most_flows=30, phases=False)

    def excess(rounds: int) -> float:
        assignment = assign("annealing", fabric, traffic, options=Options(annealing_rounds=rounds)).assignment
        objective = evaluate(fabric, traffic, assignment)
        rate = np.where(np.isnan(objective.ideal_seconds), 0, 1 / objective.ideal_seconds)[traffic.collective]
        load = np.zeros(fabric.n_links)
        gbps = traffic.bytes * 8e-9 * rate * traffic.weight[traffic.collective]
        for f, path in zip(assignment.flow.tolist(), assignment.path.tolist(), strict=True):
            for link in fabric.flow_links(int(traffic.src[f]), int(traffic.dst[f]), path)[1:-1]:
                load[link] += gbps[f]
        return float(np.maximum(0, load - fabric.link_gbps).sum())

    assert excess(5000) <= excess(0) * (1 + 1e-9) + 1e-9
