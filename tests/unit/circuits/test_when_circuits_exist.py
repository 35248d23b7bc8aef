"""A job gets circuits exactly where any circuits join its servers, whatever ports are dead."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.planning.circuit_plan import CircuitPlan
from controller.model.errors import InputError
from controller.workload.job_file import parse_job
from tests.unit.circuits.drawn import drawn_job, planned, walked_loads
from tests.unit.laws import examples


@st.composite
def fabrics_with_dead_ports(draw: st.DrawFn) -> OpticalFabric:
    """An optical fabric, its NICs on switches as drawn, with many dead ports or none."""
    duplex, nics = draw(st.booleans()), draw(st.integers(1, 4))
    n = nics + 1 + draw(st.integers(0, 5))
    n += n % 2 if duplex else 0
    names = [f"h{i + 1}" for i in range(n)]
    switch_of = draw(st.lists(st.integers(0, nics - 1), min_size=nics, max_size=nics))
    switches, dead = [], []
    part = draw(st.sampled_from([0.0, 0.0, 0.15, 0.4]))
    random = draw(st.randoms(use_true_random=False))
    for switch in sorted(set(switch_of)):
        own = [(server, nic) for nic in range(nics) if switch_of[nic] == switch for server in names]
        ports = [{"port": i + 1, "server": server, "nic": nic} for i, (server, nic) in enumerate(own)]
        name = f"ocs{switch + 1}"
        switches.append({"name": name, "ports": ports})
        dead += [{"switch": name, "port": row["port"]} for row in ports if random.random() < part]
    document = {"servers": names, "nics": nics, "duplex": duplex, "switches": switches, "dead_ports": dead}
    return parse_optical_fabric({"optical": document})


def can_be_joined(fabric: OpticalFabric, servers: list[int]) -> bool:
    """Whether any circuits join these servers: all trees are tried, grown from the first server."""
    m, switches = len(servers), sorted(set(fabric.switch_of.tolist()))
    live = [tuple(int((~fabric.dead[s] & (fabric.switch_of == switch)).sum()) for switch in switches) for s in servers]

    @cache
    def grows(inside: int, rooms: tuple[tuple[int, ...], ...]) -> bool:
        if inside == (1 << m) - 1:
            return True
        for u in range(m):
            for v in range(m):
                if not inside >> u & 1 or inside >> v & 1:
                    continue
                for s in range(len(switches)):
                    if rooms[u][s] and rooms[v][s]:
                        # Simplex circuits may go around a ring of all servers that a switch has.
                        less = 1 if fabric.duplex else 0
                        left = [list(row) for row in rooms]
                        left[u][s] -= less
                        left[v][s] -= less
                        if grows(inside | 1 << v, tuple(map(tuple, left))):
                            return True
        return False

    return grows(1, tuple(live))


def check(plan: CircuitPlan, fabric: OpticalFabric) -> None:
    """Each live port has one circuit at most, dead ones none, and every server reaches every other one."""
    (shard,) = plan.shards
    assert len({(each.switch, each.in_port) for each in shard.circuits}) == len(shard.circuits)
    assert len({(each.switch, each.out_port) for each in shard.circuits}) == len(shard.circuits)
    for each in shard.circuits:
        ends = fabric.ends(each)
        assert ends[0][0] != ends[1][0]
        assert not any(fabric.dead[end] for end in ends)
        if fabric.duplex:
            assert each._replace(in_port=each.out_port, out_port=each.in_port) in shard.circuits
    np.testing.assert_allclose(walked_loads(shard), shard.loads, atol=1)
    hops = shard.hops
    assert (hops[~np.eye(len(hops), dtype=bool)] > 0).all()


@settings(deadline=None, max_examples=examples(60, 600))
@given(fabric=fabrics_with_dead_ports(), seed=st.integers(0, 10**6), data=st.data())
def test_a_job_is_planned_exactly_where_circuits_can_join_its_servers(
    fabric: OpticalFabric, seed: int, data: st.DataObject
) -> None:
    m = data.draw(st.integers(2, min(fabric.n_servers, 6)))
    servers = np.random.default_rng(seed).permutation(fabric.n_servers)[:m].tolist()
    job = drawn_job(seed, [fabric.servers[server] for server in servers])
    if can_be_joined(fabric, servers):
        check(planned(fabric, job, seed=seed), fabric)
        return
    with pytest.raises(InputError, match=r"^optical: job a: the live ports leave servers without a way to all others"):
        planned(fabric, job, seed=seed)


@settings(deadline=None, max_examples=examples(15, 90))
@given(
    n=st.integers(2, 24),
    nics=st.integers(2, 5),
    apart=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_a_duplex_job_of_any_number_of_servers_with_two_nics_is_planned(
    n: int, nics: int, apart: bool, seed: int
) -> None:
    fields = {"servers": 26, "nics": nics, "duplex": True, "switches": "per_nic" if apart else "one"}
    fabric = parse_optical_fabric({"optical": fields})
    check(planned(fabric, drawn_job(seed, list(fabric.servers[:n])), seed=seed), fabric)


@pytest.mark.parametrize("seed", [0, 1])
def test_circuits_that_few_bytes_need_are_kept(seed: int) -> None:
    """47 servers have a NIC on the first switch, so that there is no circuit to spare, and groups send apart."""
    fields = {"servers": 48, "nics": 2, "duplex": True, "dead_ports": [{"switch": "ocs1", "port": 9}]}
    fabric = parse_optical_fabric({"optical": fields})
    order = np.random.default_rng(seed).permutation(48).tolist()
    calls = [{"name": f"c{i}", "op": "all_to_all", "ranks": order[i : i + 8], "bytes": 10**8} for i in range(0, 48, 8)]
    job = parse_job({"name": "a", "hosts": list(fabric.servers), "collectives": calls})
    check(planned(fabric, job, seed=seed, effort=0.1), fabric)
