"""Random optical fabrics and jobs, and figures of plans computed step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import CircuitPlan, ShardPlan, plan_circuits
from controller.model.job import Job
from controller.workload.job_file import parse_job


def optical(**fields: Any) -> OpticalFabric:
    """An optical fabric of this content."""
    return parse_optical_fabric({"optical": fields})


def planned(fabric: OpticalFabric, *jobs: Job, **options: Any) -> CircuitPlan:
    """The plan of jobs with little effort."""
    return plan_circuits(fabric, [(job.name, job) for job in jobs], **{"effort": 0.02, **options}, clock=lambda: 0.0)


def drawn_job(seed: int, servers: list[str], name: str = "a", phases: int = 1) -> Job:
    """A job on these servers with some rings and some messages."""
    rng = np.random.default_rng(seed)
    n = len(servers)
    calls: list[dict[str, Any]] = []
    for i in range(int(rng.integers(0, 4))):
        ranks = rng.permutation(n)[: int(rng.integers(1, n + 1))].tolist()
        calls.append({"name": f"c{i}", "op": "all_reduce", "ranks": ranks, "bytes": int(rng.integers(1, 10**9))})
        calls[-1]["phase"] = int(rng.integers(phases))
    flows = []
    for _ in range(int(rng.integers(0, 12)) if n > 1 else 0):
        src, dst = rng.permutation(n)[:2].tolist()
        flows.append({"src": servers[src], "dst": servers[dst], "bytes": int(rng.integers(1, 10**8))})
    return parse_job({"name": name, "hosts": servers, "collectives": calls, "flows": flows})


@st.composite
def optical_fabrics(draw: st.DrawFn, max_dead: int = 2) -> OpticalFabric:
    """A small optical fabric, some ports dead."""
    duplex = draw(st.booleans())
    # One duplex NIC joins pairs only.
    nics = draw(st.integers(1 + duplex, 4))
    servers = draw(st.integers(nics + 1, 9))
    switches = draw(st.sampled_from(["per_nic", "one"]))
    if duplex:
        servers += servers % 2
    places = st.tuples(st.integers(1, servers), st.integers(0, nics - 1))
    dead = draw(st.sets(places, max_size=max_dead)) if nics > 1 else set()
    apart = switches == "per_nic"
    ports = [
        {"switch": f"ocs{nic + 1 if apart else 1}", "port": server + (0 if apart else nic * servers)}
        for server, nic in sorted(dead)
    ]
    return optical(servers=servers, nics=nics, switches=switches, duplex=duplex, dead_ports=ports)


def walked_loads(plan: ShardPlan) -> np.ndarray:
    """[P, d, m] bytes on circuits: each pair is walked from its sender to its receiver, one circuit after the other."""
    demand = plan.shard.demand
    d, m = plan.succ.shape
    loads = np.zeros((len(demand.messages), d, m))

    def send(slot: int, src: int, dst: int, size: float) -> None:
        shares = np.broadcast_to(plan.routes.shares, (len(loads), *plan.routes.shares.shape[1:]))
        for tree, share in enumerate(shares[slot, :, dst].tolist()):
            if share > 0:
                walk(slot, plan.routes.trees[tree], src, dst, size * share)

    def walk(slot: int, tree: np.ndarray, src: int, dst: int, size: float) -> None:
        at = src
        for _ in range(m):
            if at == dst:
                return
            layer = int(tree[dst, at])
            assert layer >= 0
            loads[slot, layer, at] += size
            assert plan.succ[layer, at] != at
            at = int(plan.succ[layer, at])
        raise AssertionError("a circle")

    for slot, matrix in enumerate(demand.messages):
        for src, dst in np.argwhere(matrix > 0).tolist():
            send(slot, src, dst, float(matrix[src, dst]))
    for ring in plan.routes.rings:
        group = demand.groups[ring.group]
        for i, src in enumerate(ring.order):
            dst, size = ring.order[(i + 1) % len(ring.order)], ring.share * group.edge_bytes
            if ring.layer == LOOSE:
                send(group.slot, src, dst, size)
            else:
                assert plan.succ[ring.layer, src] == dst
                loads[group.slot, ring.layer, src] += size
    return loads
