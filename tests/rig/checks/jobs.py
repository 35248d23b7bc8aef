"""Jobs on a lab: start it with a controller, push, send over the planned paths, count packets."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from controller.model.fabric import Fabric
from controller.model.files.fabric_file import fabric_document, yaml_of
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import compile_base
from emulation.lab import Lab
from emulation.processes import Child
from tests.rig.bench import Bench
from tests.rig.checks.rule_text import held, wanted
from tests.rig.controller import Controller
from tests.rig.waiting import READY_SECONDS, eventually, wait_for_pings

PACKETS = 100
"""More than discovery and ARP send over a cable until the counters are right, also on a busy machine."""


SEND = """
import socket, sys, time
for line in sys.stdin:
    source, destination, port = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, int(port)))
    for _ in range(int(sys.argv[1])):
        s.sendto(b"x" * 100, (destination, 4791))
        time.sleep(0.001)
    s.close()
"""


SINK = "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 4791)); time.sleep(999)"


def started(bench: Bench, fabric: Fabric, tmp_path: Path, *args: str) -> tuple[Lab, Controller]:
    lab, controller = started_without_sinks(bench, fabric, tmp_path, *args)
    sinks_of(lab, fabric)
    return lab, controller


def started_without_sinks(bench: Bench, fabric: Fabric, tmp_path: Path, *args: str) -> tuple[Lab, Controller]:
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(fabric_document(fabric)))
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", str(path), *args, "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    # Neighbours are resolved before anything is counted, and nobody answers that the port is closed.
    wait_for_pings(lab)
    return lab, controller


def sinks_of(lab: Lab, fabric: Fabric) -> list[Child]:
    """Start what takes the port of RoCE at each host."""
    argv = [sys.executable, "-S", "-c", SINK]
    return [lab.spawn(f"sink-{host.name}", argv, host=host.name) for host in fabric.hosts]


def started_with_ring(
    bench: Bench, fabric: Fabric, tmp_path: Path, *, told: Fabric | None = None
) -> tuple[Lab, Controller]:
    """Start switches, and a controller that reads ``told`` (default: the fabric); push a ring of all NICs."""
    lab = bench.lab(fabric)
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml_of(fabric_document(fabric if told is None else told)))
    controller = bench.controller("--fabric", str(path), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    nics = [*fabric.nic_names[::2], *fabric.nic_names[1::2]]
    call = {"name": "r", "op": "all_reduce", "ranks": list(range(len(nics))), "bytes": 10**6}
    assert controller.put("/v1/jobs/ring", {"hosts": nics, "collectives": [call]}).status == 201
    active(controller)
    return lab, controller


def active(controller: Controller) -> dict[str, Any]:
    """The newest plan, once every switch has confirmed it."""
    controller.wait_for("the plan is active", controller.plan_is_active)
    plan: dict[str, Any] = controller.get("/v1/plan").body["plan"]
    return plan


def routes(fabric: Fabric, controller: Controller) -> dict[str, dict[str, Any]]:
    """What /v1/routes tells each host."""
    answers = {host.name: controller.get(f"/v1/routes?host={host.name}") for host in fabric.hosts}
    assert {answer.status for answer in answers.values()} == {200}
    return {name: answer.body for name, answer in answers.items()}


def routed_ports(fabric: Fabric, controller: Controller) -> dict[str, int]:
    """The UDP source port of each flow (one that everybody may use where it is unknown)."""
    told = routes(fabric, controller)
    return {flow["id"]: flow["pieces"][0]["udp_src"] or 4242 for body in told.values() for flow in body["flows"]}


def send_all(lab: Lab, fabric: Fabric, controller: Controller) -> None:
    """Each host sends PACKETS datagrams of each of its flows, from the port that /v1/routes tells."""
    ports = routed_ports(fabric, controller)
    for name, body in routes(fabric, controller).items():
        lines = [f"{body['ip']} {flow['dst_ip']} {ports[flow['id']]}" for flow in body["flows"]]
        if lines:
            process = lab.popen(
                name, [sys.executable, "-S", "-c", SEND, str(PACKETS)], stdin=subprocess.PIPE, text=True
            )
            process.communicate("\n".join(lines), timeout=READY_SECONDS)
            assert process.returncode == 0


def uplink_packets(lab: Lab, fabric: Fabric) -> Counter[str]:
    """Packets that spines have received from each leaf, by link."""
    seen: Counter[str] = Counter()
    for spine in fabric.spines:
        counters = lab.port_counters(spine.name)
        for cable in fabric.cables:
            if cable.upper == spine.name:
                assert cable.upper_port is not None
                seen[f"{cable.lower}->{spine.name}"] += counters[cable.upper_port].rx_packets
    return seen


def check_paths(lab: Lab, fabric: Fabric, controller: Controller) -> dict[str, Any]:
    """Send every flow; the counters must show each on its planned links and nowhere else."""
    plan = active(controller)
    ports = routed_ports(fabric, controller)
    assert set(ports) == {flow["id"] for flow in plan["flows"]}
    expected: Counter[str] = Counter()
    rules = []
    ip = {host.name: host.ip for host in fabric.hosts}
    for flow in plan["flows"]:
        assert len(flow["paths"]) == 1
        links = flow["paths"][0]["links"]
        if len(links) == 4:
            expected[links[1]] += PACKETS
            fields = {"nw_src": ip[flow["src"]], "nw_dst": ip[flow["dst"]], "tp_src": ports[flow["id"]]}
            fields["tp_dst"] = ROCE_PORT
            rules.append((links[1].split("->")[0], {f"{name}={value}" for name, value in fields.items()}))

    def counts() -> list[list[int]]:
        held = {leaf.name: lab.flows(leaf.name) for leaf in fabric.leaves}
        return [[r.packets for r in held[leaf] if match <= set(r.match.split(","))] for leaf, match in rules]

    # Counters of what went before are brought up to date about once a second.
    eventually(lambda: counts() == (time.sleep(1.2), counts())[1], "the counters stand still")
    before, counted = uplink_packets(lab, fabric), counts()
    send_all(lab, fabric, controller)
    # Open vSwitch brings its counters up to date about once a second.
    wanted_counts = [[packets + PACKETS] for (packets,) in counted]
    eventually(lambda: counts() == wanted_counts, "every flow is counted by its own rule")

    def strays() -> dict[str, int]:
        after = uplink_packets(lab, fabric)
        extra = {link: after[link] - before[link] - expected[link] for link in after}
        # Discovery and ARP are the only others: fewer packets than any flow has, so a flow too many or too few shows.
        return {link: count for link, count in extra.items() if not 0 <= count < PACKETS}

    eventually(lambda: not strays(), "every flow is on its planned uplink and no other", shown=strays)
    return plan


def holds_base_rules_only(lab: Lab, fabric: Fabric) -> bool:
    """Return whether all switches hold the base rules and nothing else of ours."""
    rules = compile_base(fabric)
    return all(
        held(lab, switch.name) == wanted(rules[switch.dpid]) and lab.groups(switch.name) == []
        for switch in fabric.switches
    )
