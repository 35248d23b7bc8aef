"""The installer on real switches: full tables, foreign rules, and manual changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from controller.model.files.clos import clos
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.southbound.rules.rule import COOKIE_PREFIX, GROUP_BASE, GROUP_MASK
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, started
from tests.rig.checks.restarts import dumps
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = clos(2, 2, 2)


def job(*ports: int) -> dict[str, Any]:
    pairs = (("h1", "h3"), ("h4", "h2"))
    return {"flows": [{"src": a, "dst": b, "bytes": 1000, "udp_src": p} for a, b in pairs for p in ports]}


def groups(lab: Lab, switch: str) -> dict[int, str]:
    """By id, as the switch prints them."""
    lines = lab.ofctl("dump-groups", switch).splitlines()
    found = [re.fullmatch(r"\s*group_id=(\d+),(.*)", line) for line in lines]
    return {int(match[1]): match[2] for match in found if match}


def everything(lab: Lab) -> list[object]:
    names = [switch.name for switch in FABRIC.switches]
    return [dumps(lab, FABRIC), {name: groups(lab, name) for name in names}]


def refused(controller: Controller) -> dict[str, Any]:
    controller.wait_for("it is refused", lambda: controller.get("/v1/plan").body["refused"] is not None)
    return dict(controller.get("/v1/plan").body["refused"])


def test_a_full_table_changes_nothing_on_any_switch_and_with_room_the_plan_gets_there(
    bench: Bench, tmp_path: Path
) -> None:
    bench.harmless += [
        ("refuses plan", "the table is made too small"),
        ("OFPFMFC_TABLE_FULL", "and the switch says so"),
    ]
    lab, controller = started(bench, FABRIC, tmp_path)
    assert controller.put("/v1/jobs/one", job(50001)).status == 201
    active(controller)
    before = standing(lambda: everything(lab))
    former = controller.get("/v1/plan").body["active"]
    flows = lab.flows("leaf2")
    (table,) = {
        flow.table for flow in flows if FLOW <= flow.priority < DISCOVERY and flow.cookie >> 48 == COOKIE_PREFIX
    }
    bridge = lab.wiring.switch("leaf2").bridge
    limit = sum(flow.table == table for flow in flows) + 1
    lab.ovs.vsctl(
        "--id=@t",
        "create",
        "Flow_Table",
        f"flow_limit={limit}",
        "overflow_policy=refuse",
        "--",
        "set",
        "Bridge",
        bridge,
        f"flow_tables:{table}=@t",
    )
    assert controller.put("/v1/jobs/two", job(50002, 50004, 50006)).status == 201
    told = refused(controller)
    assert (told["switch"], told["kind"], told["table"], told["short"]) == ("leaf2", "table full", table, 2)
    eventually(lambda: everything(lab) == before, "all switches hold what they held", shown=lambda: everything(lab))
    assert controller.get("/v1/plan").body["active"] == former
    assert any("2 rules too many" in reason for reason in controller.get("/healthz").body["reasons"])
    controller.wait_for(
        "its next try is told", lambda: controller.get("/v1/plan").body["refused"]["next_try"] is not None
    )
    lab.ovs.vsctl("clear", "Bridge", bridge, "flow_tables")
    controller.wait_for("it is tried again", lambda: controller.get("/v1/plan").body["refused"] is None)
    active(controller)
    assert controller.get("/v1/plan").body["refused"] is None


def test_rules_of_strangers_stay_and_what_is_strange_under_our_cookie_is_put_right(
    bench: Bench, tmp_path: Path
) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    assert controller.put("/v1/jobs/one", job(50001)).status == 201
    active(controller)
    before = standing(lambda: everything(lab))
    controller.stop()
    ours = next(id_ for id_ in groups(lab, "leaf1") if id_ & GROUP_MASK == GROUP_BASE)
    lab.ofctl("mod-group", "leaf1", f"group_id={ours},type=all,bucket=drop")
    lab.ofctl("add-group", "leaf1", f"group_id={GROUP_BASE + 1},type=all,bucket=drop")
    lab.ofctl(
        "add-flow", "leaf1", f"cookie={COOKIE_PREFIX << 48:#x},table=9,priority=7,ip actions=group:{GROUP_BASE + 1}"
    )
    lab.ofctl("del-flows", "leaf2", f"cookie={COOKIE_PREFIX << 48:#x}/{0xFFFF << 48:#x},table=0")
    lab.ofctl("add-group", "leaf1", "group_id=5,type=all,bucket=drop")
    lab.ofctl("add-flow", "leaf1", "cookie=0x77,table=9,priority=7,arp actions=group:5")
    controller.start()
    controller.wait_for("the plan is active", controller.plan_is_active)

    def strange() -> list[tuple[int, str]]:
        return [(flow.cookie, flow.match) for flow in lab.flows("leaf1") if flow.table == 9]

    eventually(lambda: strange() == [(0x77, "arp")], "only what is not ours is left", shown=strange)
    assert 5 in groups(lab, "leaf1")
    lab.ofctl("del-flows", "leaf1", "cookie=0x77/-1")
    lab.ofctl("del-groups", "leaf1", "group_id=5")
    # Rules that were gone are written anew, with another epoch in their cookie perhaps: the rest is as it was.
    former = [without_cookies(each) for each in before]
    eventually(lambda: [without_cookies(each) for each in everything(lab)] == former, "the rest is as it was")
    wait_for_pings(lab)


def without_cookies(found: Any) -> Any:
    return {name: {entry[:-1] for entry in rules} if isinstance(rules, set) else rules for name, rules in found.items()}
