"""The controller on real switches: every host reaches every other, before any job and through every change."""

from __future__ import annotations

import dataclasses
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.southbound.forwarding.base import compile_base
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.cabling import as_intended, cabling, fabric_file, names, started
from tests.rig.checks.rule_text import held, wanted
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

MakeLab = Callable[..., Lab]
MakeController = Callable[..., Controller]


def rules_are(lab: Lab, fabric: Fabric, **options: object) -> bool:
    """Whether every switch holds exactly the base rules of this fabric."""
    rules = compile_base(fabric, **options)  # type: ignore[arg-type]
    switches = fabric.switches
    return all(held(lab, switch.name) == wanted(rules[switch.dpid]) for switch in switches)


def test_every_host_reaches_every_other_and_the_switches_hold_what_the_compiler_says(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(4, 4, 4)
    lab, controller = started(bench, fabric, tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)
    # A plan is active before the last rules of the one before it are gone.
    eventually(lambda: rules_are(lab, fabric), "they hold the rules of this fabric and no others")
    controller.wait_for("all is well", controller.is_well)
    assert controller.get("/healthz").body["switches"] == {"connected": 8, "expected": 8}
    document = controller.get("/v1/fabric").body
    assert document["source"] == "file"
    assert len(document["links"]) == 16
    assert all(switch["connected"] for switch in document["switches"])


@pytest.mark.parametrize("ecmp_action", ["bundle", "select"])
def test_links_that_go_and_come_leave_every_host_reachable(bench: Bench, tmp_path: Path, ecmp_action: str) -> None:
    fabric = clos(2, 3, 1)
    lab, controller = started(bench, fabric, tmp_path, "--ecmp-action", ecmp_action)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    for down in (["leaf1-spine1"], ["leaf1-spine1", "leaf2-spine1", "leaf3-spine1"], ["leaf2-spine2"], []):
        for name in fabric.cable_names:
            lab.set_cable(name, name not in down)
        now = fabric.without_links(down)
        eventually(partial(rules_are, lab, now, ecmp_action=ecmp_action), f"rules for {down} down")
        wait_for_pings(lab)
        eventually(partial(lambda down: len(cabling(controller)) == len(down), down), "each failure is told")


def test_parallel_cables_and_a_failed_one_carry_everybody(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2, parallel=2).without_links(["leaf1-spine1:1"])
    lab, controller = started(bench, fabric, tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    eventually(lambda: rules_are(lab, fabric), "they hold the rules of this fabric and no others")
    wait_for_pings(lab)


def test_missing_swapped_and_extra_cables_are_named(bench: Bench, tmp_path: Path) -> None:
    intended = clos(2, 3, 1)
    by_name = dict(zip(intended.cable_names, intended.cables, strict=True))
    first, second = by_name["leaf1-spine1"], by_name["leaf2-spine2"]
    by_name["leaf1-spine1"] = dataclasses.replace(first, upper="spine2", upper_port=second.upper_port)
    by_name["leaf2-spine2"] = dataclasses.replace(second, upper="spine1", upper_port=first.upper_port)
    del by_name["leaf3-spine1"]
    extra = dataclasses.replace(by_name["leaf3-spine2"], lower_port=9, upper_port=9)
    real = dataclasses.replace(intended, cables=(*by_name.values(), extra))
    lab, controller = started(bench, intended, tmp_path, wired_as=real)
    expected = [
        "leaf1-spine1 and leaf2-spine2 are swapped: leaf1 is cabled to spine2 and leaf2 to spine1",
        "leaf3 and spine2 are connected, but the fabric file has no such cable",
        "leaf3-spine1 is missing: discovery packets are lost",
    ]
    controller.wait_for("the faults are found", lambda: cabling(controller) == expected)
    assert controller.get("/v1/fabric").body["cabling"]["matches"] is False
    controller.wait_for("its rules are on the switches", controller.plan_is_active)
    assert controller.get("/healthz").body["status"] == "degraded"
    # leaf2 has spine1 only, leaf1 and leaf3 spine2 only: no path is left to leaf2.
    cut_off = {("h1", "h2"), ("h2", "h1"), ("h2", "h3"), ("h3", "h2")}
    eventually(lambda: set(lab.ping_all()) == cut_off, "only leaf2's host is cut off", shown=lab.ping_all)


def test_a_controller_that_is_killed_and_comes_back_costs_no_ping(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)
    before = standing(lambda: {name: held(lab, name) for name in names(fabric)})
    counted = {name: sum(flow.packets for flow in lab.flows(name)) for name in names(fabric)}
    with lab.pinging() as pings:
        controller.kill()
        eventually(lambda: min(pings.sent.values(), default=0) > 10, "hosts ping each other without a controller")
        controller.start()
        controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
        sent = min(pings.sent.values())
        eventually(lambda: min(pings.sent.values()) > sent + 10, "and with the next one")
    assert pings.unanswered == []
    assert {name: held(lab, name) for name in names(fabric)} == before
    # Not one rule was written again: a rewritten rule would start counting from zero.
    # Open vSwitch brings its counters up to date about once a second.
    eventually(
        lambda: all(sum(flow.packets for flow in lab.flows(name)) > counted[name] for name in names(fabric)),
        "every switch has counted more",
    )
    assert "changes for epoch" not in controller.log.read_text().split("as intended")[-1]


def test_the_network_forwards_while_the_controller_is_away(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, clos(2, 2, 2), tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    assert controller.stop() == 0
    # Nobody has pinged yet: neighbours resolve by rules alone.
    wait_for_pings(lab)


def test_a_switch_that_comes_back_empty_gets_its_rules_again(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 1)
    lab, controller = started(bench, fabric, tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    lab.kill_switch("spine2")
    controller.wait_for("it is missed", lambda: "spine2 is not connected" in cabling(controller))
    wait_for_pings(lab)
    lab.start_switch("spine2")
    controller.wait_for("it is back", lambda: as_intended(controller))
    eventually(lambda: rules_are(lab, fabric), "it holds its rules again")
    wait_for_pings(lab)


def test_a_silent_switch_is_given_up(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, clos(1, 2, 1), tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    with lab.frozen():
        controller.wait_for(
            "the silence is noticed", lambda: controller.get("/healthz").body["switches"]["connected"] == 0
        )
    controller.wait_for("they are back", lambda: as_intended(controller))


def test_rules_and_groups_of_others_are_left_alone_and_strange_ones_of_ours_removed(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(2, 2, 1)
    lab = bench.lab(fabric)
    lab.ofctl("add-flow", "leaf1", "cookie=0x77,priority=7,ip,nw_dst=1.2.3.4,actions=drop")
    lab.ofctl("add-flow", "leaf1", "cookie=0xfa15000000000009,priority=7,ip,nw_dst=1.2.3.5,actions=drop")
    lab.ofctl("add-group", "leaf1", "group_id=5,type=all,bucket=output:1")
    lab.ofctl("add-group", "leaf1", f"group_id={0xFA000005},type=all,bucket=output:1")
    controller = bench.controller("--fabric", fabric_file(fabric, tmp_path), "controller.app")
    lab.wait_connected()
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    eventually(lambda: "1.2.3.5" not in lab.ofctl("dump-flows", "leaf1"), "the strange rule of ours is removed")
    eventually(lambda: [group.number for group in lab.groups("leaf1")] == [5], "and the strange group of ours")
    assert "1.2.3.4" in lab.ofctl("dump-flows", "leaf1")


def test_discovery_alone_learns_hosts_and_reaches_them_and_survives_a_restart(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab = bench.lab(fabric)
    controller = bench.controller("controller.app")
    lab.wait_connected()
    refused = controller.get("/v1/fabric")
    assert refused.status == 503
    assert "no host has been discovered" in refused.body["detail"]

    def everybody() -> bool:
        return lab.ping_all() == []

    eventually(everybody, "hosts are learned from their own ARP and from probes")
    document = controller.get("/v1/fabric").body
    assert document["source"] == "discovery"
    assert {host["ip"] for host in document["hosts"]} == {host.ip for host in fabric.hosts}
    assert {switch["name"] for switch in document["switches"]} == set(names(fabric))
    assert len(document["links"]) == 4
    with lab.pinging() as pings:
        controller.kill()
        controller.start()
        controller.wait_for(
            "it knows its hosts again", lambda: len(controller.get("/v1/fabric").body.get("hosts", [])) == 4
        )
        time.sleep(4)
    assert pings.unanswered == []


def test_hosts_without_ports_in_the_file_are_found(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    document = fabric_document(fabric)
    for host in document["hosts"]:
        del host["port"]
    path = tmp_path / "fabric.yaml"
    path.write_text(yaml.safe_dump(document))
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", str(path), "controller.app")
    lab.wait_connected()
    controller.wait_for(
        "all hosts are placed", lambda: controller.get("/v1/fabric").body["cabling"]["hosts_unplaced"] == []
    )
    wait_for_pings(lab)


def test_unknown_traffic_is_dropped_and_counted(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, clos(1, 2, 1), tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))

    def dropped() -> int:
        return next(flow.packets for flow in lab.flows("leaf1") if flow.priority == 0)

    before = standing(dropped)
    lab.run(
        "h1",
        ["ip", "neigh", "add", "10.0.9.9", "lladdr", "02:00:00:00:09:09", "dev", lab.host("h1").defaultIntf().name],
    )
    lab.run("h1", ["ping", "-c", "3", "-i", "0.1", "-W", "1", "10.0.9.9"])
    # Open vSwitch brings its counters up to date about once a second.
    eventually(lambda: dropped() == before + 3, "each packet is counted", shown=dropped)


def test_no_process_of_ours_is_left_when_the_controller_ends(bench: Bench, tmp_path: Path) -> None:
    _, controller = started(bench, clos(1, 1, 1), tmp_path)
    pid = controller.pid
    assert controller.stop() == 0
    left = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False).stdout
    assert left.strip() == ""


def test_a_controller_that_is_restarted_again_and_again_is_found_each_time(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, clos(2, 2, 1), tmp_path)
    for _ in range(4):
        controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
        controller.stop()
        time.sleep(1.5)  # Open vSwitch now waits longer before it tries again.
        controller.start()
        lab.wait_connected()
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)
