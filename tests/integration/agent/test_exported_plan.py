"""From a plan to packets, by commands alone: routers, hosts and agents follow what ``fairspine export`` writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.packets.port_numbers import ROCE_PORT
from tests.rig.host_agent import HostAgent
from tests.rig.routers.router_lab import RouterLab
from tests.rig.routers.router_world import SEND
from tests.rig.waiting import eventually

pytestmark = pytest.mark.switches

PACKETS = 200
"""A program that sends datagrams."""


def fairspine(*arguments: str | Path) -> str:
    """What a command prints."""
    program = [sys.executable, "-c", "from controller.cli.main import main; main()", *map(str, arguments)]
    return subprocess.run(program, check=True, capture_output=True, text=True).stdout


def test_packets_of_a_planned_job_take_the_links_of_the_plan(tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    flows = [{"src": src, "dst": dst, "bytes": 10**9} for src, dst in (("h1", "h3"), ("h2", "h4"))]
    files = {name: tmp_path / f"{name}.json" for name in ("fabric", "job", "plan")}
    files["fabric"].write_text(json.dumps(fabric_document(fabric)))
    files["job"].write_text(json.dumps({"name": "pairs", "flows": flows}))
    both = ("--fabric", files["fabric"], "--job", files["job"])
    files["plan"].write_text(fairspine("plan", *both, "--format", "json"))
    fairspine("export", "srv6-hosts", *both, "--plan", files["plan"], "--out", tmp_path / "hosts")
    planned = json.loads(files["plan"].read_text())["flows"]
    with RouterLab(fabric, tmp_path) as lab:
        # Without probes, which would be counted with the packets.
        agents = [
            HostAgent(lab, name, tmp_path / name, "--probe-ms", "0", "--plan", str(tmp_path / "hosts" / f"{name}.json"))
            for name in fabric.host_names
        ]
        try:
            for agent in agents:
                agent.start()
            for agent in agents:
                agent.wait_for_log("flows set")
            for row in planned:
                assert taken(lab, row) == {fabric.link_index[link] for link in row["paths"][0]["links"]}
        finally:
            for agent in agents:
                agent.close()


def taken(lab: RouterLab, row: dict[str, object]) -> set[int]:
    """The links over which packets of a flow go, once its receiver's leaf knows where that is."""
    hosts = lab.fabric.hosts
    src, dst = (hosts[lab.fabric.host_index[str(row[end])]] for end in ("src", "dst"))
    links: set[int] = set()

    def arrive() -> bool:
        before = lab.sent()
        lab.run(src.name, sys.executable, "-c", SEND, src.ip, dst.ip, str(row["udp_src"]), str(ROCE_PORT), str(PACKETS))
        now = enumerate(zip(lab.sent(), before, strict=True))
        links.clear()
        links.update(link for link, (last, first) in now if last - first >= PACKETS)
        return lab.fabric.n_hosts + lab.fabric.host_index[dst.name] in links

    eventually(arrive, f"packets of {row['id']} arrive", shown=lambda: links)
    return links
