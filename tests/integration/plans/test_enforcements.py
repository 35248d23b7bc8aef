"""Each enforcement on real switches: they hold the compiled rules, and packets follow them.

No controller takes part: rules are put by hand, so what is tried here is the compilers' work and Open vSwitch's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT, Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.registry import compile_rules, encode_flows, rule_enforcements
from controller.southbound.forwarding.leaf_guards import unmetered
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.enforcements import PACKETS, link_packets, put, sent, wanted
from tests.rig.switches.raw_openflow import Talk, talks_with_switches
from tests.rig.waiting import eventually, wait_for_pings
from tests.traffic_columns import traffic_of_columns

pytestmark = pytest.mark.switches


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    """Parallel cables, and a leaf that lacks one of them."""
    whole = clos(2, 3, 1, parallel=2)
    return whole.without_links(["leaf3-spine2:1"])


@pytest.fixture
def lab(bench: Bench, fabric: Fabric) -> Lab:
    return bench.lab(fabric)


@pytest.fixture
def talks(lab: Lab, fabric: Fabric) -> Iterator[dict[int, Talk]]:
    with talks_with_switches(lab, fabric) as found:
        yield found


def planned(fabric: Fabric) -> tuple[Traffic, Assignment]:
    """A flow on each live path between any two hosts, one that is split over all of them, and six QPs on one path."""
    src, dst, port, rows = [], [], [], []
    for a in range(fabric.n_hosts):
        for b in range(fabric.n_hosts):
            live = fabric.live_paths(a, b).tolist() if a != b else []
            for k, path in enumerate([[path] for path in live] + [live] * (a < b)):
                rows += [(len(src), each, 1 / len(path)) for each in path]
                src, dst, port = [*src, a], [*dst, b], [*port, FIRST_PORT + k]
            for qp in range(6 * bool(live)):
                rows.append((len(src), live[0], 1.0))
                src, dst, port = [*src, a], [*dst, b], [*port, FIRST_PORT + 64 + qp]
    flow, path, share = zip(*rows, strict=True)
    assignment = Assignment(np.array(flow, dtype=np.int32), np.array(path, dtype=np.int32), np.array(share))
    return traffic_of_columns(src, dst, port), assignment


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_what_is_compiled_is_read_back_and_carries_each_packet_over_its_planned_links(
    lab: Lab, fabric: Fabric, talks: dict[int, Talk], enforcement: str
) -> None:
    traffic, assignment = planned(fabric)
    wire = encode_flows(fabric, traffic, assignment, enforcement)
    rules = compile_rules(enforcement, fabric, traffic, wire)
    put(talks, rules)
    for dpid, talk in talks.items():
        assert talk.ours() == unmetered(rules[dpid])
    # Neighbours are known before anything is counted; pings are no RoCE and go by ECMP.
    wait_for_pings(lab)
    expected: Counter[str] = Counter()
    for flow, path in zip(wire.flow.tolist(), wire.path.tolist(), strict=True):
        for link in fabric.flow_links(int(traffic.src[flow]), int(traffic.dst[flow]), path)[1:3]:
            expected[fabric.link_ids[link]] += PACKETS
    before = link_packets(lab, fabric)
    assert sent(lab, fabric, traffic, wire) == wanted(fabric, traffic, wire)

    def more() -> Counter[str]:
        # ARP goes over these links, too, a packet at a time.
        return Counter({link: n // PACKETS * PACKETS for link, n in (link_packets(lab, fabric) - before).items()})

    eventually(lambda: more() == expected, "planned links count the packets", shown=lambda: (more(), expected))


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_without_a_controller_a_dead_uplink_costs_no_packet_that_is_sent_later(
    lab: Lab, fabric: Fabric, talks: dict[int, Talk], enforcement: str
) -> None:
    traffic, assignment = planned(fabric)
    wire = encode_flows(fabric, traffic, assignment, enforcement)
    put(talks, compile_rules(enforcement, fabric, traffic, wire))
    wait_for_pings(lab)
    dead = fabric.cables[fabric.cable_names.index("leaf1-spine1")]
    assert dead.lower_port is not None
    # Only this end, and what comes down this cable is not sent: its own direction waits for new rules.
    up_only = np.flatnonzero(traffic.src[wire.flow] == 0)
    wire = FlowEncoding(wire.flow[up_only], wire.path[up_only], wire.share[up_only], wire.udp_src[up_only])
    lab.set_port("leaf1", dead.lower_port, up=False)
    eventually(lambda: "LINK_DOWN" in lab.ofctl("dump-ports-desc", "leaf1"), "the switch knows")
    assert sent(lab, fabric, traffic, wire) == wanted(fabric, traffic, wire)
