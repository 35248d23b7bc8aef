"""Exported scripts on Linux routers: packets take the paths that the tables say, and dead uplinks lose none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.southbound.srv6.carriers import path_ids
from controller.southbound.srv6.formats import NEEDED
from controller.southbound.srv6.router_configuration import router_configurations
from controller.southbound.srv6.router_tables import router_tables
from controller.southbound.srv6.segment_ids import SegmentIds
from controller.southbound.srv6.walk import walk
from tests.rig.routers.router_lab import FORMAT, RouterLab
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


OLD = {
    # A kernel before Linux 6.1: it takes no notice of attributes that it does not know.
    "this kernel has no NEXT-CSID": "args=(); while (($#)); do case $1 in flavors) shift 6 ;; "
    '*) args+=("$1"); shift ;; esac; done; exec "$IP" "${args[@]}"',
    'argument "flavors" is wrong': 'for each; do if [ "$each" = flavors ]; then '
    'echo \'Error: argument "flavors" is wrong: unknown\' >&2; exit 255; fi; done; exec "$IP" "$@"',
}
"""What is said, and a program in place of iproute2's ``ip``."""


@pytest.mark.parametrize("said", OLD)
def test_a_router_without_next_csid_is_refused_in_one_line(said: str, tmp_path: Path) -> None:
    configured = router_configurations(SegmentIds.of(clos(1, 1, 1)), FORMAT.interface)[0]
    script, program, usual = tmp_path / "leaf1.sh", tmp_path / "ip", shutil.which("ip")
    script.write_text(FORMAT.write(configured))
    program.write_text(f"#!/bin/bash\nIP={usual}\n{OLD[said]}\n")
    program.chmod(0o755)
    ports = "; ".join(f"{usual} link add eth{n} type veth peer name peer{n}" for n in (1, 2))
    commands = f"{ports}; PATH={tmp_path}:$PATH sh {script}; status=$?; {usual} -6 route show; exit $status"
    done = subprocess.run(["unshare", "--net", "sh", "-c", commands], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"leaf1: {NEEDED}: ")
    assert said in done.stderr
    assert "seg6local" not in done.stdout


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
