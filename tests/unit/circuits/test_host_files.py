"""The files of servers are walked as the kernel would: what they send is on the circuits of the plan, byte by byte."""

from __future__ import annotations

import csv

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.southbound.addresses import mac
from controller.circuits.southbound.host_files import ip_batch, qp_table, queue_pairs
from controller.model.errors import InputError
from tests.unit.circuits.drawn import drawn_job, optical_fabrics, planned
from tests.unit.circuits.host_tables import Host
from tests.unit.laws import examples


@settings(deadline=None, max_examples=examples(20, 120))
@given(
    fabric=optical_fabrics(),
    seed=st.integers(0, 10**6),
    phases=st.integers(1, 2),
    paths=st.integers(1, 3),
)
def test_what_servers_send_by_their_files_is_on_the_circuits_of_the_plan(
    fabric: OpticalFabric, seed: int, phases: int, paths: int
) -> None:
    try:
        plans = planned(fabric, drawn_job(seed, list(fabric.servers), phases=phases), seed=seed, paths=paths).shards
    except InputError:
        assert fabric.dead.any()
        return
    for plan in plans:
        m = plan.succ.shape[1]
        hosts = [Host(ip_batch(plan, u, "eth{nic}")) for u in range(m)]
        layer = {(u, int(plan.ends.sender[k, u])): k for k, u in np.ndindex(plan.succ.shape) if plan.succ[k, u] != u}
        loads, left = np.zeros_like(plan.loads), np.zeros((len(plan.loads), m))
        for u in range(m):
            rows = list(csv.DictReader(qp_table(fabric, plan, u, "eth{nic}")))
            assert len(rows) == len(queue_pairs(plan, u))
            for row in rows:
                phase, address, size = int(row["phase"]), row["address"], int(row["bytes"])
                (owner,) = [v for v, host in enumerate(hosts) if host.owns(address)]
                assert fabric.servers[plan.shard.servers[owner]] == row["destination"]
                assert hosts[u].way(address)[0] == int(row["interface"].removeprefix("eth"))
                left[phase, u] += size
                at = u
                for _ in range(m):
                    if hosts[at].owns(address):
                        break
                    nic, lladdr = hosts[at].way(address)
                    k = layer[at, nic]
                    after, into = int(plan.succ[k, at]), int(plan.ends.receiver[k, at])
                    # The next server takes packets with the Ethernet address of its NIC only.
                    assert lladdr == mac(plan.shard.servers[after], into)
                    loads[phase, k, at] += size
                    at = after
                assert hosts[at].owns(address)
        np.testing.assert_allclose(left, plan.shard.demand.sent[0], atol=2 * m)
        np.testing.assert_allclose(loads, plan.loads, atol=2 * m * m)
