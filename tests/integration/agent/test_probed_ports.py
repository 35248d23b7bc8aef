"""Ports that hosts learn by probes on Linux routers: packets with them take exactly the paths that were learned."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.files.pod_clos import pod_clos
from controller.model.packets.port_numbers import ROCE_PORT
from tests.rig.programs import FAIRSPINE
from tests.rig.routers.answering_routers import addressed, addressed_ipv6
from tests.rig.routers.probed_routers import answers, unlimited
from tests.rig.routers.router_lab import RouterLab
from tests.rig.routers.router_world import PACKETS, SEND
from tests.rig.waiting import eventually
from tests.unit.strategies import with_ipv6, with_routers

pytestmark = pytest.mark.switches


def exported(fabric: Fabric, folder: Path, *more: str) -> Path:
    """Write what hosts probe."""
    (folder / "fabric.yaml").write_text(yaml.safe_dump(fabric_document(fabric)))
    out = folder / "probes"
    command = [FAIRSPINE, "export", "port-probes", "--fabric", str(folder / "fabric.yaml"), "--out", str(out), *more]
    subprocess.run(command, check=True)
    return out


def probed(lab: RouterLab, host: str, task: Path) -> tuple[int, dict[str, Any]]:
    """Probe from a host; return the exit code and the report."""
    command = [FAIRSPINE, "probe-ports", str(task), "--interface", lab.interface(host), "--format", "json"]
    done = subprocess.run(lab.inside(host, *command), capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return done.returncode, json.loads(done.stdout)


def check_paths(lab: RouterLab, host: str, report: dict[str, Any]) -> None:
    """Compare the paths of all ports with those that the kernels of the routers choose; of IPv6 they do not tell."""
    fabric = lab.fabric
    by_ip = {each.ip: each.name for each in fabric.hosts}
    rows = [(by_ip[pair["dst"]], row["port"], row["path"]) for pair in report["pairs"] for row in pair["ports"]]
    flows = [(host, dst, port) for dst, port, _ in rows]
    is_ipv6 = fabric.hosts[fabric.host_index[host]].ip_version == 6
    taken = {flow: taken_by_packets(lab, *flow) for flow in flows} if is_ipv6 else lab.lab.routed(flows)
    src = fabric.host_index[host]
    for dst, port, path in rows:
        assert {*taken[host, dst, port]} == {*fabric.flow_links(src, fabric.host_index[dst], path)}


def taken_by_packets(lab: RouterLab, src: str, dst: str, port: int) -> set[int]:
    """Send packets; return the links that carry them."""
    index, before = lab.fabric.host_index, lab.sent()
    ends = lab.fabric.hosts[index[src]].ip, lab.fabric.hosts[index[dst]].ip
    lab.run(src, sys.executable, "-c", SEND, *ends, *map(str, (port, ROCE_PORT, PACKETS)))

    def carried() -> set[int]:
        return {link for link, (now, then) in enumerate(zip(lab.sent(), before, strict=True)) if now - then >= PACKETS}

    eventually(lambda: lab.fabric.n_hosts + index[dst] in carried(), "packets arrive", shown=carried)
    return carried()


FABRICS = {
    "two layers, IPv6": addressed_ipv6(with_ipv6(with_routers(clos(2, 2, 4)))),
    "three layers": addressed(pod_clos(2, 1, 2, 2, 1)),
}


@pytest.mark.parametrize("place", FABRICS.values(), ids=FABRICS)
def test_each_port_takes_its_path_and_known_ports_are_checked_by_one_probe_each(place: Fabric, tmp_path: Path) -> None:
    host = place.host_names[0]
    tasks = exported(place, tmp_path, "--burst", "50", "--rate", "10000")
    with RouterLab(place, tmp_path) as lab:
        unlimited(lab)
        eventually(lambda: answers(lab, host, place.host_names[-1]), "hosts reach each other")
        code, report = probed(lab, host, tasks / f"{host}.json")
        assert code == 0, report
        check_paths(lab, host, report)
        reports = tmp_path / "reports"
        reports.mkdir()
        (reports / f"{host}.json").write_text(json.dumps(report))
        again = exported(place, tmp_path, "--burst", "50", "--rate", "10000", "--known", str(reports))
        code, checked = probed(lab, host, again / f"{host}.json")
        assert code == 0
        for before, after in zip(report["pairs"], checked["pairs"], strict=True):
            paths = {row["path"] for row in before["ports"]}
            assert after["probes"] == {"sent": len(paths), "unanswered": 0}
        # Other seeds, as after a reboot: the known ports are not believed.
        lab.lab.hash_by(7)
        code, moved = probed(lab, host, again / f"{host}.json")
        assert code == 0
        check_paths(lab, host, moved)


def test_a_watch_replaces_just_the_ports_that_lead_elsewhere(tmp_path: Path) -> None:
    place = addressed(clos(4, 2, 1))
    task = exported(place, tmp_path, "--burst", "50", "--rate", "10000") / "h1.json"
    with RouterLab(place, tmp_path) as lab:
        unlimited(lab)
        eventually(lambda: answers(lab, "h1", "h2"), "hosts reach each other")
        with subprocess.Popen(
            lab.inside("h1", FAIRSPINE, "probe-ports", str(task), "--watch", "0.1", "--seed", "1", "--format", "json"),
            stdout=subprocess.PIPE,
            text=True,
        ) as watching:
            assert watching.stdout is not None
            lines = iter(watching.stdout.readline, "")
            text = ""
            while not text.endswith("\n}\n"):
                text += next(lines)
            first = {row["port"]: row["path"] for row in json.loads(text)["pairs"][0]["ports"]}
            lab.lab.hash_by(5)
            change = json.loads(next(lines))
            watching.terminate()
        flows = [("h1", "h2", change[when]) for when in ("before", "after")]
        wanted = place.flow_links(0, 1, change["path"])
        assert first[change["before"]] == change["path"]
        before, after = (lab.lab.routed(flows)[flow] for flow in flows)
        assert (before != wanted, after) == (True, wanted)


def test_one_planned_path_has_its_port_at_the_limits_of_linux(tmp_path: Path) -> None:
    place = addressed(clos(4, 2, 1))
    task = exported(place, tmp_path) / "h1.json"
    document = json.loads(task.read_text())
    document["pairs"][0]["wanted"] = [{"path": 3, "ports": 1}]
    task.write_text(json.dumps(document))
    with RouterLab(place, tmp_path) as lab:
        eventually(lambda: answers(lab, "h1", "h2"), "hosts reach each other")
        code, report = probed(lab, "h1", task)
        assert code == 0, report
        check_paths(lab, "h1", report)
        assert report["pairs"][0]["probes"]["unanswered"] == 0


def test_paths_without_a_port_are_named_where_all_routers_have_one_seed(tmp_path: Path) -> None:
    place = addressed(pod_clos(2, 1, 2, 2, 1))
    tasks = exported(place, tmp_path, "--burst", "50", "--rate", "10000")
    with RouterLab(place, tmp_path) as lab:
        unlimited(lab)
        for router in lab.lab.wiring.routers:
            lab.run(router, "sysctl", "-qw", "net.ipv4.fib_multipath_hash_seed=1")
        src, dst = place.host_names[0], place.host_names[-1]
        eventually(lambda: answers(lab, src, dst), "hosts reach each other")
        code, report = probed(lab, src, tasks / f"{src}.json")
        assert code == 1
        check_paths(lab, src, report)
        reached = lab.lab.routed([(src, dst, port) for port in range(49152, 49352)])
        ends = place.host_index[src], place.host_index[dst]
        (pair,) = (each for each in report["pairs"] if each["dst"] == place.hosts[ends[1]].ip)
        links = {place.flow_links(*ends, path): path for path in place.live_paths(*place.host_leaf[[*ends]]).tolist()}
        assert {*pair["unreachable"]} == {*links.values()} - {links[taken] for taken in reached.values()}
        assert pair["unreachable"]
