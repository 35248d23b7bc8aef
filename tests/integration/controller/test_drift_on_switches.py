"""Open vSwitch with manually changed rules, or with two controllers at once."""

from __future__ import annotations

import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.files.clos import clos
from controller.model.priority import DSCP
from controller.southbound.rules.rule import GROUP_BASE, GROUP_MASK
from emulation.lab import Lab
from tests.fake_switch.decode import PROTOCOL
from tests.rig.bench import Bench
from tests.rig.checks.drift import Events, health, metric
from tests.rig.checks.jobs import active, started
from tests.rig.checks.planned_rules import planned
from tests.rig.checks.refusals import flows, reasons
from tests.rig.controller import Controller
from tests.rig.programs import fairspine
from tests.rig.real_controller import free_ports
from tests.rig.switches.raw_openflow import talks_with_switches
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(4, 4, 1)
JOB = flows(("h1", "h2"), ("h2", "h3"), ("h3", "h4"), ("h4", "h1"), ("h1", "h3"))


def held(lab: Lab) -> dict[str, Any]:
    """Rules without counters, and groups, of every switch."""
    names = [switch.name for switch in FABRIC.switches]
    return {
        name: (
            {(flow.table, flow.priority, flow.match, flow.actions) for flow in lab.flows(name)},
            {(group.number, str(group)) for group in lab.groups(name) if group.number & GROUP_MASK == GROUP_BASE},
        )
        for name in names
    }


def test_manual_changes_are_reported_and_repaired(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    assert controller.put("/v1/jobs/job", JOB).status == 201
    active(controller)
    before, events = standing(lambda: held(lab)), Events(controller)
    flow = planned(lab, "leaf1")[0]
    group = next(group.number for group in lab.groups("leaf3") if group.number & GROUP_MASK == GROUP_BASE)
    fields = f"priority={flow.priority},{flow.match}"
    for switch, command, argument in (
        ("leaf1", "del-flows", f"{fields}"),
        ("leaf1", "mod-flows", f"{fields},actions=output:1"),
        ("leaf3", "del-groups", f"group_id={group}"),
        ("leaf3", "mod-group", f"group_id={group},type=select,bucket=weight:1,actions=output:1"),
    ):
        lab.ofctl(command, switch, *(("--strict", argument) if "flows" in command else (argument,)))
        began = time.monotonic()
        told = events.next("drift")
        assert (told["switch"], told["repaired"]) == (switch, True)
        eventually(lambda: held(lab) == before, f"{command} is put right")
        print(f"{command} on {switch}: put right after {time.monotonic() - began:.1f} s")
    events.close()
    controller.wait_for("all is well", controller.is_well)
    assert metric(controller, "rules_repaired_total", "leaf1") == 2
    wait_for_pings(lab)


def test_a_dscp_that_someone_takes_away_is_drift_and_is_set_again(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    assert controller.put("/v1/jobs/job", {**JOB, "class": 2}).status == 201
    active(controller)
    before, events = standing(lambda: held(lab)), Events(controller)
    flow = planned(lab, "leaf1")[0]
    mark = f"set_field:{DSCP[2]}->ip_dscp"
    assert mark in flow.actions
    traced = controller.get("/v1/trace").body["flows"]
    assert {(row["arrives"], row["dscp"]) for row in traced} == {(True, DSCP[2])}
    for actions in (flow.actions.replace(f"{mark},", ""), flow.actions.replace(mark, f"set_field:{DSCP[1]}->ip_dscp")):
        lab.ofctl("mod-flows", "leaf1", "--strict", f"priority={flow.priority},{flow.match},actions={actions}")
        told = events.next("drift")
        assert (told["switch"], told["repaired"]) == ("leaf1", True)
        eventually(lambda: held(lab) == before, "the mark is there again")
    # A job without classes, in place of it: no rule marks.
    assert controller.put("/v1/jobs/job", JOB).status == 200
    active(controller)
    eventually(lambda: "ip_dscp" not in str(held(lab)), "no rule marks")
    assert not any("dscp" in row for row in controller.get("/v1/trace").body["flows"])
    events.close()


def test_a_trace_fails_where_a_planned_flow_has_no_rule(bench: Bench, tmp_path: Path) -> None:
    _, controller = lab_and_controller = started(bench, FABRIC, tmp_path, "--readback-seconds", "0")
    lab = lab_and_controller[0]
    assert controller.put("/v1/jobs/job", JOB).status == 201
    active(controller)
    flow = planned(lab, "leaf1")[0]
    command = ["trace", "--differs", "--url", f"http://127.0.0.1:{controller.http_port}"]

    def differs() -> int:
        return fairspine(*command).returncode

    eventually(lambda: differs() == 0, "every flow is as planned")
    lab.ofctl("del-flows", "leaf1", "--strict", f"priority={flow.priority},{flow.match}")
    eventually(lambda: differs() == 1, "a flow without its rule differs")


def test_two_controllers_with_stores_of_their_own_notice_each_other_and_stop_fighting(
    bench: Bench, tmp_path: Path
) -> None:
    bench.harmless += [
        (
            r"error reply to OFPT_(FLOW|GROUP)_MOD|refuses plan",
            "each changes groups that the other one relies on",
        ),
    ]
    lab, first = started(bench, FABRIC, tmp_path, "--readback-seconds", "0.5")
    assert first.put("/v1/jobs/job", JOB).status == 201
    active(first)
    openflow, http = free_ports(2)
    second = bench.controller(
        "--fabric",
        str(tmp_path / "fabric.yaml"),
        "--readback-seconds",
        "0.5",
        "--wsapi-port",
        str(http),
        "--ofp-tcp-listen-port",
        str(openflow),
        "controller.app",
        http_port=http,
    )
    other = flows(("h1", "h4"), ("h2", "h4"), ("h3", "h1"))
    assert second.put("/v1/jobs/other", other).status in (201, 503)
    for switch in lab.wiring.switches:
        lab.ovs.vsctl(
            "--id=@c",
            "create",
            "controller",
            f'target="tcp:127.0.0.1:{openflow}"',
            "max_backoff=1000",
            "--",
            "add",
            "bridge",
            switch.bridge,
            "controller",
            "@c",
        )
    second.wait_for("it has all switches", lambda: connected(second) == 8)
    if second.get("/v1/jobs/other").status == 404:
        assert second.put("/v1/jobs/other", other).status == 201
    for controller in (first, second):
        controller.wait_for(
            "it notices",
            lambda c=controller: metric(c, "switch_contested", "leaf1") == 1 and health(c) == "degraded",  # type: ignore[misc]
        )
    eventually(
        lambda: "another fairspine controller (instance 0x" in reasons(first) + reasons(second), "the other one is told"
    )

    def more() -> float:
        counts = [changes(controller) for controller in (first, second)]
        time.sleep(5)
        return max(changes(controller) - count for controller, count in zip((first, second), counts, strict=True))

    eventually(lambda: more() < 30, "neither takes the other's rules back for ever")
    wait_for_pings(lab)


def test_a_master_beside_a_single_controller_is_noticed(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, FABRIC, tmp_path, "--readback-seconds", "0.5")
    controller.wait_for("all is well", controller.is_well)
    assert metric(controller, "switch_contested", "leaf1") == 0
    terms, events = count(1), Events(controller)
    with talks_with_switches(lab, FABRIC) as talks:
        leaf = talks[FABRIC.leaves[0].dpid]

        def noticed() -> bool:
            # The first one that the controller sees may be of before its time.
            leaf.say([parser.OFPRoleRequest(PROTOCOL, ofp.OFPCR_ROLE_MASTER, next(terms))])
            return metric(controller, "switch_contested", "leaf1") == 1

        controller.wait_for("it notices", noticed)
    text = "leaf1: another controller has become its master lately"
    assert text in reasons(controller)
    assert health(controller) == "degraded"
    assert metric(controller, "switch_contested", "leaf2") == 0
    assert "another controller has become the master of leaf1" in controller.log.read_text()
    while text not in events.next("error")["text"]:
        pass
    events.close()
    # It keeps its own role, so it can still change rules.
    assert controller.put("/v1/jobs/job", JOB).status == 201
    active(controller)


def connected(controller: Controller) -> int:
    return int(controller.get("/healthz").body["switches"]["connected"])


def changes(controller: Controller) -> float:
    """Changes of rules that switches have confirmed so far."""
    text = controller.get("/metrics").body
    return float(
        next(line.split()[1] for line in text.splitlines() if line.startswith("fairspine_rule_changes_total "))
    )
