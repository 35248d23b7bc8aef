"""Changes in stages: in every state on the way all packets arrive, and at the end the plan is reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import Circuit, OpticalFabric
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan
from controller.circuits.planning.stages import CircuitStage, StagesError, staged_plan, stages_of
from controller.circuits.southbound.addresses import mac, nic_address, tree_address
from controller.circuits.southbound.host_files import ip_batch, ip_rounds
from controller.model.errors import InputError
from controller.model.job import Job
from controller.workload.job_file import parse_job
from tests.unit.circuits.drawn import drawn_job, optical, optical_fabrics, planned, walked_loads
from tests.unit.circuits.host_tables import Host, circuits_of_packet
from tests.unit.laws import examples

INTERFACES = "eth{nic}"


def plan_now(fabric: OpticalFabric, seed: int, paths: int) -> CircuitPlan:
    """A plan, whose circuits are those of now."""
    return planned(fabric, drawn_job(seed, list(fabric.servers)), seed=seed, paths=paths)


def plan_then(before: CircuitPlan, seed: int, paths: int) -> tuple[CircuitPlan, tuple[CircuitStage, ...]] | None:
    """Another plan, and the stages to it; ``None``: there are none, as may be."""
    fabric = replace(before.fabric, circuits=tuple(each for shard in before.shards for each in shard.circuits))
    job = drawn_job(seed + 1, list(fabric.servers))
    try:
        return staged_plan(fabric, [(job.name, job)], seed=seed + 1, effort=0.02, paths=paths, clock=lambda: 0.0)
    except InputError:
        # Rings of all servers are possible where no port is dead and, duplex, where a ring has two NICs to itself.
        assert fabric.dead.any() or fabric.nics <= 3 * fabric.duplex or not can_be_dark(fabric)
        return None


def can_be_dark(fabric: OpticalFabric) -> bool:
    """Return whether the circuits of one NIC number can be dark, so that this gets a ring of all servers first."""
    return any(
        nx.is_strongly_connected(nx.DiGraph(rest)) and len({u for edge in rest for u in edge}) == fabric.n_servers
        for nic in range(fabric.nics)
        if (rest := edges_without(fabric, nic))
    )


def edges_without(fabric: OpticalFabric, nic: int) -> list[tuple[int, int]]:
    ends = [fabric.ends(each) for each in fabric.circuits]
    return [(u, v) for (u, one), (v, other) in ends if nic not in (one, other)]


class Network:
    """Servers and lit circuits while they change."""

    def __init__(self, fabric: OpticalFabric, before: ShardPlan, trees: int, rng: np.random.Generator) -> None:
        self.fabric, self.rng = fabric, rng
        self.servers = range(fabric.n_servers)
        self.hosts = {u: Host(ip_batch(before, u, INTERFACES)) for u in self.servers}
        self.macs = {mac(u, nic): (u, nic) for u in self.servers for nic in range(fabric.nics)}
        self.lit = set(before.circuits)
        self.addresses = [
            [*(tree_address(u, tree) for tree in range(trees)), *(nic_address(u, nic) for nic in range(fabric.nics))]
            for u in self.servers
        ]

    def check(self) -> None:
        """All packets arrive."""
        for target in self.servers:
            for address in self.addresses[target]:
                for source in self.servers:
                    circuits_of_packet(self.fabric, self.hosts, self.macs, self.lit, source, address)

    def bring_to(self, plan: ShardPlan) -> None:
        """Do all rounds; within one, servers come in any order."""
        assert plan.shard.servers == tuple(self.servers)
        for lines in ip_rounds(plan, INTERFACES):
            for server in self.rng.permutation(len(lines)).tolist():
                for line in lines[server]:
                    self.hosts[server].apply(line)
                self.check()


@settings(deadline=None, max_examples=examples(6, 40))
@given(fabric=optical_fabrics(max_dead=0), seed=st.integers(0, 10**6), paths=st.integers(1, 2))
def test_no_packet_is_lost_in_any_state_of_a_change(fabric: OpticalFabric, seed: int, paths: int) -> None:
    before = plan_now(fabric, seed, paths)
    then = plan_then(before, seed, paths)
    if then is None:
        return
    plan, stages = then
    network = Network(plan.fabric, before.shards[0], paths, np.random.default_rng(seed))
    network.check()
    for stage in stages:
        (during,) = stage.during
        network.bring_to(during)
        network.lit -= set(stage.removed)
        network.check()
        # A port of a circuit that is set has no other one.
        taken = {(each.switch, each.in_port) for each in network.lit}
        assert not taken & {(each.switch, each.in_port) for each in stage.added}
        network.lit |= set(stage.added)
    network.bring_to(plan.shards[0])
    network.check()
    assert network.lit == set(plan.shards[0].circuits)


@settings(deadline=None, max_examples=examples(10, 60))
@given(fabric=optical_fabrics(max_dead=2), seed=st.integers(0, 10**6))
@example(fabric=optical(servers=9, nics=2), seed=162)
def test_stages_change_each_circuit_once_and_carry_what_running_jobs_send(fabric: OpticalFabric, seed: int) -> None:
    try:
        before = plan_now(fabric, seed, 1)
    except InputError:
        assert fabric.dead.any()
        return
    then = plan_then(before, seed, 1)
    if then is None:
        return
    plan, stages = then
    removed = [each for stage in stages for each in stage.removed]
    added = [each for stage in stages for each in stage.added]
    assert sorted(removed) == sorted(plan.removed)
    assert sorted(added) == sorted(plan.added)
    lit = {each for shard in before.shards for each in shard.circuits}
    for stage in stages:
        lit -= set(stage.removed)
        for each in stage.during:
            assert set(each.circuits) <= lit
            assert each.loads.sum() == pytest.approx(each.loads.sum(where=each.succ != np.arange(each.succ.shape[1])))
            assert each.seconds >= each.bound_seconds * (1 - 1e-9)
        lit |= set(stage.added)


def rings(*orders: Sequence[int]) -> tuple[Circuit, ...]:
    """Circuits of NIC j: a cycle for each of these orders of servers from 1."""
    return tuple(
        Circuit(f"ocs{nic + 1}", u, v)
        for nic, order in enumerate(orders)
        for u, v in zip(order, (*order[1:], order[0]), strict=True)
    )


def all_to_all(servers: Sequence[str], name: str = "a") -> Job:
    """A job with an all-to-all."""
    call = {"name": "mp", "op": "all_to_all", "ranks": list(range(len(servers))), "bytes": 10**6}
    return parse_job({"name": name, "hosts": list(servers), "collectives": [call]})


def test_jobs_that_cannot_run_yet_wait_for_the_last_stage_and_nobody_else_does() -> None:
    plain = optical(servers=6, nics=2)
    assert [len(each.during) for each in stages_of(planned(plain, all_to_all(plain.servers)))] == [0]
    # Three servers are joined, and get a second job's servers beside them.
    fabric = replace(plain, circuits=rings((1, 2, 3), (3, 2, 1)))
    jobs = [all_to_all(("h1", "h2", "h3")), all_to_all(("h4", "h5", "h6"), "b")]
    plan = planned(fabric, *jobs, policy="ring")
    for stage in stages_of(plan):
        assert [each.shard.jobs for each in stage.during] == [("a",)]


def test_a_change_that_no_order_allows_is_refused_with_a_pair() -> None:
    fabric = replace(optical(servers=4, nics=1), circuits=rings((1, 2, 3, 4)))
    around = [("h1", "h3"), ("h3", "h2"), ("h2", "h4"), ("h4", "h1")]
    flows = [{"src": src, "dst": dst, "bytes": 10**6} for src, dst in around]
    plan = planned(fabric, parse_job({"name": "a", "hosts": list(fabric.servers), "flows": flows}), effort=1)
    assert set(plan.shards[0].circuits) == set(rings((1, 3, 2, 4)))
    with pytest.raises(StagesError, match=r"^in no order .* h1 and h\d do not while NIC 0 changes$"):
        stages_of(plan)
    apart = optical(servers=4, nics=2, forwarding=False)
    job = parse_job({"name": "a", "hosts": ["h1", "h2"], "flows": [{"src": "h1", "dst": "h2", "bytes": 10}]})
    with pytest.raises(
        InputError, match=r"optical\.forwarding: False: servers that do not forward cannot send for each other"
    ):
        stages_of(planned(apart, job))


@settings(deadline=None, max_examples=examples(8, 40))
@given(fabric=optical_fabrics(max_dead=0), seed=st.integers(0, 10**6), paths=st.integers(1, 2))
def test_a_failed_circuit_is_routed_around_on_those_that_stay(fabric: OpticalFabric, seed: int, paths: int) -> None:
    job = drawn_job(seed, list(fabric.servers))
    before = planned(fabric, job, seed=seed)
    circuits = before.shards[0].circuits
    failed = circuits[seed % len(circuits)]
    # Duplex circuits fail in both directions.
    lost = {failed, Circuit(failed.switch, failed.out_port, failed.in_port)} if fabric.duplex else {failed}
    left = replace(fabric, circuits=tuple(each for each in circuits if each not in lost))
    try:
        plan = planned(left, job, policy="now", paths=paths)
    except InputError as refused:
        assert "some of its servers do not reach each other" in str(refused)
        assert fabric.nics <= 1 + 2 * fabric.duplex
        return
    (shard,) = plan.shards
    assert (plan.added, plan.removed) == ((), ())
    assert set(shard.circuits) == set(left.circuits)
    np.testing.assert_allclose(walked_loads(shard), shard.loads, rtol=1e-9, atol=1e-3)
    assert (shard.hops + np.eye(fabric.n_servers) > 0).all()
