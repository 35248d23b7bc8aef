"""The lab of Linux routers, without a controller: hosts reach each other, and kernels say which paths they choose."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.enforcement.registry import encode_flows
from controller.southbound.port_classes.class_policies import router_policies
from controller.southbound.port_classes.formats import POLICY_FORMATS
from controller.southbound.port_classes.next_hops import of_cables
from controller.southbound.srv6.router_configuration import DEFAULT_CABLES
from emulation.lab.routers import RouterLab
from tests.rig.routers.router_world import SEND
from tests.rig.waiting import eventually
from tests.unit.southbound.plans import traffic_of

pytestmark = pytest.mark.switches

PACKETS = 200
FABRICS = {"two layers": clos(3, 2, 2, parallel=2), "three layers": pod_clos(2, 1, 2, 2, 1)}


@pytest.fixture(params=FABRICS)
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RouterLab]:
    with RouterLab(FABRICS[request.param], out=tmp_path) as lab:
        yield lab


def taken(lab: RouterLab, flow: tuple[str, str, int]) -> set[int]:
    """The links that packets of a flow take."""
    src, dst = (lab.fabric.hosts[lab.fabric.host_index[name]].ip for name in flow[:2])
    before = lab.sent("packets")
    argv = [sys.executable, "-c", SEND, src, dst, *map(str, (flow[2], ROCE_PORT, PACKETS))]
    assert lab.run(flow[0], argv).returncode == 0
    links: set[int] = set()

    def arrived() -> bool:
        sent = enumerate(zip(lab.sent("packets"), before, strict=True))
        links.update(link for link, (last, first) in sent if last - first >= PACKETS)
        return lab.fabric.n_hosts + lab.fabric.host_index[flow[1]] in links

    eventually(arrived, "packets arrive", shown=lambda: links)
    return links


def test_packets_take_the_paths_that_kernels_name_and_others_by_another_seed(lab: RouterLab) -> None:
    assert lab.ping_all() == []
    flows = [("h1", lab.fabric.host_names[-1], port) for port in range(50000, 50032)]
    paths = []
    for seed in (1, 2):
        lab.hash_by(seed)
        routed = lab.routed(flows)
        for flow in flows[:4]:
            assert taken(lab, flow) == set(routed[flow])
        paths.append(routed)
    assert paths[0] != paths[1]
    # All uplinks of the first leaf, and all above them, are used.
    src, dst = (int(lab.fabric.host_leaf[end]) for end in (0, -1))
    ways = {tuple(lab.fabric.flow_links(0, lab.fabric.n_hosts - 1, path)) for path in lab.fabric.live_paths(src, dst)}
    assert {link for routed in paths for links in routed.values() for link in links} == {x for way in ways for x in way}


def test_hosts_reach_each_other_without_one_of_parallel_cables_and_with_it_again(tmp_path: Path) -> None:
    fabric = clos(1, 2, 1, parallel=2)
    flows = [("h1", "h2", port) for port in range(50000, 50032)]
    with RouterLab(fabric, out=tmp_path) as lab:
        everything = {link for links in lab.routed(flows).values() for link in links}
        lost = {fabric.first_cable_link, fabric.first_cable_link + 1}
        for up in (False, True):
            lab.set_cable(fabric.cable_names[0], up=up)
            eventually(lambda: lab.ping_all() == [], "hosts reach each other", shown=lab.ping_all)
            used = {link for links in lab.routed(flows).values() for link in links}
            assert used == (everything if up else everything - lost)


def test_exported_policies_send_packets_over_the_uplinks_that_their_ports_name_and_by_ecmp_past_dead_ones(
    tmp_path: Path,
) -> None:
    """Between pods, each source port names a way through an aggregation switch and a core."""
    fabric = pod_clos(2, 2, 2, 2, 1)
    chosen = POLICY_FORMATS["iproute2"]
    hop = of_cables(fabric, str(DEFAULT_CABLES))
    scripts = {each.name: chosen.write(each) for each in router_policies(fabric, chosen.interface, hop)}
    rows = [(*pair, path) for pair in ((0, 1), (0, 2), (2, 1), (0, 3)) for path in fabric.live_paths(*pair).tolist()]
    traffic = traffic_of([(src, dst, 50000 + n) for n, (src, dst, _) in enumerate(rows)])
    assignment = Assignment.single(np.array([path for *_, path in rows]))
    ports = encode_flows(fabric, traffic, assignment, "source_port").udp_src.tolist()
    names = fabric.host_names
    flows = [(names[src], names[dst], port) for (src, dst, _), port in zip(rows, ports, strict=True)]
    planned = {flow: fabric.flow_links(*row) for flow, row in zip(flows, rows, strict=True)}
    with RouterLab(fabric, out=tmp_path) as lab:
        for router, script in scripts.items():
            assert lab.run(router, ["sh", "-e", "-c", script]).returncode == 0
        assert lab.ping_all() == []
        assert lab.routed(flows) == planned
        for flow in flows[-2:]:
            assert taken(lab, flow) == set(planned[flow])
        # The far end of the first uplink of the last flow goes down: its leaf has no carrier.
        dead = planned[flows[-1]][1]
        upper = lab.ends(dead)[1]
        assert upper.port is not None
        lab.set_port(upper.node, upper.port, False)
        eventually(lambda: lab.routed(flows[-1:])[flows[-1]][1] != dead, "the leaf does not use a dead uplink")
        assert taken(lab, flows[-1]) == set(lab.routed(flows[-1:])[flows[-1]])
        lab.set_port(upper.node, upper.port, True)
        assert lab.run(upper.node, ["sh", "-e", "-c", scripts[upper.node]]).returncode == 0
        eventually(lambda: lab.routed(flows) == planned, "all take their paths again", shown=lambda: lab.routed(flows))


def test_links_have_their_scaled_rates(tmp_path: Path) -> None:
    with RouterLab(clos(1, 2, 1, host_gbps=100.0, uplink_gbps=50.0), out=tmp_path, mbps_per_gbps=0.4) as lab:
        for node, interface, mbps in (("leaf1", "eth1", 40), ("leaf1", "eth2", 20), ("spine1", "eth2", 20)):
            assert f" rate {mbps}Mbit " in lab.run(node, ["tc", "class", "show", "dev", interface]).stdout
