"""Exported scripts on Linux routers: packets take the paths that the tables say, and dead uplinks lose none."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.walk import walk
from tests.rig.router_lab import RouterLab
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

PACKETS = 10

FABRICS = {
    "two layers, parallel cables": clos(2, 2, 1, parallel=2),
    "three layers": pod_clos(2, 1, 2, 2, 1),
}


def ping(lab: RouterLab, src: int, dst: int) -> None:
    """Send packets and wait for their answers."""
    host, other = lab.fabric.hosts[src], lab.fabric.hosts[dst]
    lab.run(host.name, "ping", "-q", "-c", str(PACKETS), "-i", "0.01", "-W", "2", other.ip)


@pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)
def test_packets_take_each_path_and_pass_over_a_dead_uplink(fabric: Fabric, tmp_path: Path) -> None:
    src, dst = 0, fabric.n_hosts - 1
    paths = fabric.live_paths(int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])).tolist()
    back = set(fabric.flow_links(dst, src, paths[-1]))
    with RouterLab(fabric, tmp_path) as lab:
        lab.steer(dst, src, paths[-1])
        lab.steer(src, dst, paths[0])
        eventually(lambda: answers(lab, src, dst), "the hosts have learned the addresses of their leaves")
        for path in paths:
            lab.steer(src, dst, path)
            assert taken(lab, src, dst) == back | set(fabric.flow_links(src, dst, path))
        lab.steer(src, dst, paths[0])
        uplink = fabric.flow_links(src, dst, paths[0])[1]
        cable = (uplink - fabric.first_cable_link) // 2
        lab.cut(cable)
        # The tables say so, and the routers do it.
        carrier = lab.ids.address(path_ids(lab.ids, src, dst, paths[0]))
        tables, now = router_tables(lab.ids), fabric.without_links([fabric.cable_names[cable]])
        possible = [walk(lab.ids, now, tables, src, carrier, pick) for pick in (min, max)]
        assert [each.host for each in possible] == [dst, dst]
        assert uplink not in (links := taken(lab, src, dst))
        assert any(links >= set(each.links) for each in possible)


def answers(lab: RouterLab, src: int, dst: int) -> bool:
    """Whether a packet is answered."""
    try:
        ping(lab, src, dst)
    except RuntimeError:
        return False
    return True


def taken(lab: RouterLab, src: int, dst: int) -> set[int]:
    """The links over which a ping and its answers go."""
    before = lab.sent()
    ping(lab, src, dst)
    # Neighbour discovery sends a packet now and then, too.
    return {link for link, (last, first) in enumerate(zip(lab.sent(), before, strict=True)) if last - first >= PACKETS}
