"""Jobs that are admitted or learned, and their traffic."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from controller.core.desired_state import AdmittedJob
from controller.model.fabric import Fabric
from controller.service.reconciling.admission import admit
from controller.workload.expand import JobTraffic
from tests.unit.service.world import flow


def traffic(name: str, fabric: Fabric, flows: list[tuple[int, int, int]], first_port: int) -> JobTraffic:
    hosts = fabric.host_names
    rows = [
        flow(hosts[src % len(hosts)], hosts[dst % len(hosts)], size) | {"udp_src": first_port + i}
        for i, (src, dst, size) in enumerate(flows)
        if src % len(hosts) != dst % len(hosts)
    ]
    rows = rows or [flow(hosts[0], hosts[-1]) | {"udp_src": first_port}]
    return admit(name, json.dumps({"flows": rows}).encode(), fabric, [], 1000)


def admitted(traffic: JobTraffic, position: int) -> AdmittedJob:
    return AdmittedJob(traffic.name, b"", traffic.name, position, 0.0, "ann", traffic.udp_src, traffic)


FLOWS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(1, 10**9)), min_size=1, max_size=12)


def without_ports(body: bytes) -> bytes:
    """Return what hosts report that do not know the source ports of their QPs."""
    sent = json.loads(body)
    qps = [{name: value for name, value in qp.items() if name != "udp_src"} for qp in sent["qps"]]
    return json.dumps(sent | {"qps": qps}).encode()
