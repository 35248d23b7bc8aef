"""What servers send in a measured iteration is what the plan has on its circuits."""

from __future__ import annotations

import numpy as np
import pytest

from controller.circuits.fabric.optical_file import parse_optical_fabric
from controller.circuits.kernels.routes import LOOSE
from controller.circuits.planning.circuit_plan import ShardPlan, plan_circuits
from controller.circuits.southbound.addresses import nic_address, tree_address
from controller.workload.job_file import parse_job
from emulation.circuits.measure import planned_tasks
from emulation.circuits.traffic import ServerTasks, parts_of


def planned(paths: int) -> ShardPlan:
    """More groups than NICs: not all can have rings of one NIC's circuits."""
    names = [f"h{i + 1}" for i in range(8)]
    calls = [
        {"name": f"dp{i}", "op": "all_reduce", "ranks": ranks, "bytes": 3_000_000}
        for i, ranks in enumerate([[0, 1, 2, 3], [4, 5, 6, 7], [0, 2, 4, 6], [1, 3, 5, 7], [0, 3, 5, 6]])
    ]
    calls.append({"name": "mp", "op": "all_to_all", "ranks": list(range(8)), "bytes": 2_000_000})
    job = parse_job({"name": "a", "hosts": names, "collectives": calls})
    fabric = parse_optical_fabric({"optical": {"servers": 8, "nics": 2}})
    return plan_circuits(fabric, [("a", job)], effort=0.05, paths=paths, clock=lambda: 0.0).shards[0]


def sent(plan: ShardPlan, tasks: dict[int, ServerTasks]) -> np.ndarray:
    """[d, m] the bytes of tasks on circuits, by their addresses alone."""
    m = plan.succ.shape[1]
    loads = np.zeros(plan.succ.shape)
    trees = {tree_address(dst, tree): (tree, dst) for dst in range(m) for tree in range(len(plan.routes.trees))}

    def send(src: int, address: str, size: float) -> None:
        if address not in trees:
            (layer,) = [
                k
                for k in range(len(plan.succ))
                if address == nic_address(int(plan.succ[k, src]), int(plan.ends.receiver[k, src]))
            ]
            loads[layer, src] += size
            return
        tree, dst = trees[address]
        while src != dst:
            layer = int(plan.routes.trees[tree, dst, src])
            loads[layer, src] += size
            src = int(plan.succ[layer, src])

    for server, own in tasks.items():
        for ring in own.rings:
            for way in ring.ways:
                send(server, way.address, way.share * 2 * (ring.n - 1) / ring.n * ring.bytes)
        for message in own.messages:
            send(server, message.address, message.bytes)
    return loads


@pytest.mark.parametrize("paths", [1, 3])
def test_servers_send_what_the_plan_has_on_its_circuits(paths: int) -> None:
    plan = planned(paths)
    loose = [ring for ring in plan.routes.rings if ring.layer == LOOSE]
    tasks = {server: ServerTasks.of_line(own.line()) for server, own in planned_tasks(plan, 1.0).items()}
    assert loose
    ways = [len(ring.ways) for own in tasks.values() for ring in own.rings]
    assert (max(ways) > 1) == (paths > 1)
    assert np.allclose(sent(plan, tasks), plan.loads[0], rtol=0, atol=1e-3 * plan.loads.max())
    # What a member sends by each way is what the next one waits for.
    for server, own in tasks.items():
        for ring in own.rings:
            (after,) = [
                other
                for each in tasks.values()
                for other in each.rings
                if other.name == ring.name and other.position == (ring.position + 1) % ring.n
            ]
            assert after.shares_in == tuple(way.share for way in ring.ways), server


@pytest.mark.parametrize("size", [0, 8, 39_208])
def test_a_slice_is_divided_without_rest(size: int) -> None:
    ends = parts_of(size, [0.2, 0.5, 0.3])
    assert (ends[0], ends[-1]) == (0, size)
    assert ends == sorted(ends)
