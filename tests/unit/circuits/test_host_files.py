"""The files of servers are walked as the kernel would: what they send is on the circuits of the plan, byte by byte."""

from __future__ import annotations

import csv
import ipaddress

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import ShardPlan
from controller.circuits.southbound.addresses import mac
from controller.circuits.southbound.host_files import ip_batch, qp_table, queue_pairs
from controller.model.errors import InputError
from tests.unit.circuits.drawn import drawn_job, optical_fabrics, planned


class Host:
    """What the lines of a server's file make: its addresses, and the NIC and neighbour of each route."""

    def __init__(self, plan: ShardPlan, server: int) -> None:
        self.addresses: set[str] = set()
        self.nic: dict[str, int] = {}
        self.gateway: dict[str, str] = {}
        self.lladdr: dict[tuple[str, int], str] = {}
        for line in ip_batch(plan, server, "eth{nic}"):
            words = line.split()
            if words[:2] == ["address", "replace"]:
                self.addresses.add(words[2].removesuffix("/32"))
            elif words[:2] == ["neigh", "replace"]:
                self.lladdr[words[2], int(words[6].removeprefix("eth"))] = words[4]
            elif words[:2] == ["route", "replace"]:
                address = str(ipaddress.ip_network(words[2]).network_address)
                self.nic[address] = int(words[words.index("dev") + 1].removeprefix("eth"))
                self.gateway[address] = words[words.index("via") + 1] if "via" in words else address


@settings(deadline=None, max_examples=40)
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
        hosts = [Host(plan, u) for u in range(m)]
        owners = {address: u for u, host in enumerate(hosts) for address in host.addresses}
        assert len(owners) == sum(len(host.addresses) for host in hosts)
        layer = {(u, int(plan.ends.sender[k, u])): k for k, u in np.ndindex(plan.succ.shape) if plan.succ[k, u] != u}
        loads, left = np.zeros_like(plan.loads), np.zeros((len(plan.loads), m))
        for u in range(m):
            rows = list(csv.DictReader(qp_table(fabric, plan, u, "eth{nic}")))
            assert len(rows) == len(queue_pairs(plan, u))
            for row in rows:
                phase, address, size = int(row["phase"]), row["address"], int(row["bytes"])
                assert fabric.servers[plan.shard.servers[owners[address]]] == row["destination"]
                assert hosts[u].nic[address] == int(row["interface"].removeprefix("eth"))
                left[phase, u] += size
                at = u
                for _ in range(m):
                    if address in hosts[at].addresses:
                        break
                    nic = hosts[at].nic[address]
                    k = layer[at, nic]
                    after, into = int(plan.succ[k, at]), int(plan.ends.receiver[k, at])
                    # The next server takes packets with the Ethernet address of its NIC only.
                    assert hosts[at].lladdr[hosts[at].gateway[address], nic] == mac(plan.shard.servers[after], into)
                    loads[phase, k, at] += size
                    at = after
                assert address in hosts[at].addresses
        np.testing.assert_allclose(left, plan.shard.demand.sent[0], atol=2 * m)
        np.testing.assert_allclose(loads, plan.loads, atol=2 * m * m)
