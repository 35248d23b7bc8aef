"""QPs on switches, without a controller: base rules spread them, and a dead uplink takes one of each connection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, IntArray
from controller.model.files.clos import clos
from controller.model.queue_pairs import udp_source_port
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.routing import assign
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import compile_rules, encode_flows
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.enforcements import PACKETS, link_packets, put, sent, wanted
from tests.rig.switches.raw_openflow import Talk, talks_with_switches
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

SPINES = 4
QPS = 64


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return clos(SPINES, 2, 4)


@pytest.fixture
def lab(bench: Bench, fabric: Fabric) -> Lab:
    return bench.lab(fabric)


@pytest.fixture
def talks(lab: Lab, fabric: Fabric) -> Iterator[dict[int, Talk]]:
    with talks_with_switches(lab, fabric) as found:
        yield found


def uplinks_used(lab: Lab, fabric: Fabric, traffic: Traffic, wire: FlowEncoding) -> list[int]:
    """Send ``PACKETS`` packets over each QP, all of which arrive; how many QPs each uplink of leaf1 carried."""
    before = link_packets(lab, fabric)
    assert sent(lab, fabric, traffic, wire) == wanted(fabric, traffic, wire)

    def carried() -> list[int]:
        more = link_packets(lab, fabric) - before
        # ARP goes over these links, too, a packet at a time.
        return [more[f"leaf1->{spine.name}"] // PACKETS for spine in fabric.spines]

    eventually(lambda: sum(carried()) == traffic.n_flows, "uplinks count the packets", shown=carried)
    return carried()


def connection(ports: IntArray) -> tuple[Traffic, FlowEncoding]:
    """QPs from the first host of leaf1 to the first of leaf2, which are in no plan."""
    n = len(ports)
    none, rows = np.zeros(n, dtype=np.int32), np.arange(n, dtype=np.int32)
    one_byte = np.ones(n, dtype=np.int64)
    traffic = Traffic(none, none + 4, one_byte, none, rows, ports, (Collective("j", "c"),))
    return traffic, FlowEncoding(rows, none - 1, np.ones(n), ports)


def test_base_rules_spread_the_qps_of_a_connection_that_is_in_no_plan(
    lab: Lab, fabric: Fabric, talks: dict[int, Talk]
) -> None:
    nothing = Traffic.empty()
    no_plan = Assignment.single(np.zeros(0, dtype=np.int32))
    put(talks, compile_rules("per_flow", fabric, nothing, encode_flows(fabric, nothing, no_plan, "per_flow")))
    wait_for_pings(lab)
    numbered = np.arange(FIRST_PORT, FIRST_PORT + QPS, dtype=np.int32)
    # Two hosts count their QPs, each from a number of its own.
    of_linux = np.unique(udp_source_port(np.arange(0x1A3, 0x1A3 + QPS), np.arange(0x8F1, 0x8F1 + QPS)))
    for ports in (numbered, of_linux.astype(np.int32)):
        carried = uplinks_used(lab, fabric, *connection(ports))
        # A fair share is a quarter; of 64 balls in four bins none has less than a third of it, or twice as much.
        assert min(carried) >= len(ports) // SPINES // 3
        assert max(carried) <= len(ports) // SPINES * 2


def test_a_dead_uplink_takes_one_qp_of_each_connection_and_the_local_groups_spread_them(
    lab: Lab, fabric: Fabric, talks: dict[int, Talk]
) -> None:
    pairs = [(f"h{i}", f"h{j}") for i in range(1, 5) for j in (i + 4, (i + 1) % 4 + 5)]
    flows = [{"src": a, "dst": b, "bytes": 4 * 10**6} for a, b in pairs]
    traffic = combine([expand(fabric, parse_job({"name": "a", "qps": SPINES, "flows": flows}))])
    assignment = assign("fair", fabric, traffic).assignment
    wire = encode_flows(fabric, traffic, assignment, "per_flow")
    put(talks, compile_rules("per_flow", fabric, traffic, wire))
    wait_for_pings(lab)
    assert uplinks_used(lab, fabric, traffic, wire) == [len(pairs)] * SPINES
    cable = fabric.cables[fabric.cable_names.index("leaf1-spine1")]
    assert cable.lower_port is not None
    lab.set_port("leaf1", cable.lower_port, up=False)
    eventually(lambda: "LINK_DOWN" in lab.ofctl("dump-ports-desc", "leaf1"), "the switch knows")
    # Each connection had one QP there, and the three others stay where they are.
    dead = wire.path == fabric.path_names.index("spine1")
    assert Counter(zip(traffic.src[wire.flow[dead]].tolist(), traffic.dst[wire.flow[dead]].tolist(), strict=True)) == (
        Counter({(fabric.host_index[a], fabric.host_index[b]): 1 for a, b in pairs})
    )
    carried = uplinks_used(lab, fabric, traffic, wire)
    fallen = [n - len(pairs) for n in carried[1:]]
    assert carried[0] == 0
    assert sum(fallen) == len(pairs)
    assert min(fallen) >= 0
    assert max(fallen) < len(pairs)
