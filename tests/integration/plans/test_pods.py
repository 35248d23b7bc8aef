"""A fat tree of four ports on real switches: plans in every enforcement, failures, and restarts."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest

from controller.model.files.fabric_file import load_fabric
from controller.southbound.enforcement.registry import rule_enforcements
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.fat_tree import EXAMPLE, used
from tests.rig.checks.jobs import active, routes
from tests.rig.checks.restarts import came_back, check_rules, dumps
from tests.rig.controller import Controller
from tests.rig.hosts.streams import carried, check_counted, counting, enforce, streaming
from tests.rig.waiting import eventually, standing, wait_for_pings

pytestmark = pytest.mark.switches

FABRIC = load_fabric(EXAMPLE)
# Two rings: one whose neighbours are in different pods, one whose neighbours are also in the same pod or leaf.
ORDERS = ([f"h{n}" for n in (1, 5, 9, 13, 2, 6, 10, 14)], [f"h{n}" for n in (3, 4, 1, 7, 15, 11, 12, 16)])
JOB = {
    "flows": [
        {"src": a, "dst": b, "bytes": 10**6}
        for order in ORDERS
        for a, b in zip(order, [*order[1:], order[0]], strict=True)
    ]
}
PING_INTERVAL = 0.3
"""Seconds between rounds of 240 pings beside streams, which load the switches, too."""


@pytest.fixture
def running(bench: Bench) -> tuple[Lab, Controller]:
    """With planned flows within leaves, within pods, and between pods."""
    lab = bench.lab(FABRIC)
    controller = bench.controller("--fabric", str(EXAMPLE), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    assert controller.put("/v1/jobs/rings", JOB).status == 201
    active(controller)
    return lab, controller


def unused(controller: Controller, switch: str) -> bool:
    """Whether no flow of the newest plan passes a switch."""
    return not any(switch in link.split("->") for link in used(controller))


def test_every_planned_flow_is_counted_on_its_links_and_on_no_other_in_each_enforcement(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    for enforcement in rule_enforcements():
        enforce(controller, enforcement)
        told = routes(FABRIC, controller)
        pieces = [piece for body in told.values() for flow in body["flows"] for piece in flow["pieces"]]
        assert {len(piece["links"]) for piece in pieces} == {2, 4, 6}
        labels = {len(piece["links"]): len(piece["labels"]) for piece in pieces}
        assert labels == ({2: 0, 4: 1, 6: 2} if enforcement == "segment_routing" else dict.fromkeys((2, 4, 6), 0))
        check_counted(lab, FABRIC, controller, enforcement)


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_in_each_enforcement_drains_modes_and_a_killed_controller_lose_nothing(
    running: tuple[Lab, Controller], enforcement: str
) -> None:
    lab, controller = running
    enforce(controller, enforcement)
    told = routes(FABRIC, controller)
    with lab.pinging(interval=PING_INTERVAL) as pings, counting(lab, FABRIC) as received, streaming(lab, told) as sent:
        for drained in (True, False):
            assert controller.put("/v1/fabric/links/core1", {"drained": drained}).body["drained"] is drained
            active(controller)
        for mode in ("ecmp", "planned"):
            enforce(controller, enforcement, mode)
        rules = standing(lambda: dumps(lab, FABRIC))
        controller.kill()
        controller.start()
        came_back(controller)
        check_rules(lab, FABRIC, rules)
    assert pings.unanswered == []
    assert sum(received.values()) == sum(sent)


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_in_each_enforcement_a_core_and_an_aggregation_switch_fail_and_come_back(
    running: tuple[Lab, Controller], enforcement: str
) -> None:
    lab, controller = running
    enforce(controller, enforcement)
    for name in ("core1", "agg1"):
        lab.kill_switch(name)
        eventually(partial(unused, controller, name), f"{name} carries no flow")
        wait_for_pings(lab)
        with lab.pinging(interval=0.1) as pings:
            eventually(lambda pings=pings: sum(pings.sent.values()) > 1000, "many pings were sent")  # type: ignore[misc]
        assert pings.unanswered == []
        lab.start_switch(name)
        controller.wait_for("all is well", controller.is_well)
        active(controller)
        wait_for_pings(lab)
    check_counted(lab, FABRIC, controller, enforcement)


def test_nothing_is_lost_between_enforcements_and_when_the_controller_is_killed(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    told = routes(FABRIC, controller)
    with lab.pinging(interval=PING_INTERVAL) as pings, counting(lab, FABRIC) as received, streaming(lab, told) as sent:
        for enforcement in ("segment_routing", "source_port", "per_flow"):
            enforce(controller, enforcement)
        rules, kept = standing(lambda: dumps(lab, FABRIC)), routes(FABRIC, controller)
        controller.kill()
        controller.start()
        came_back(controller)
        check_rules(lab, FABRIC, rules)
        assert routes(FABRIC, controller) == kept
    assert pings.unanswered == []
    assert sum(received.values()) == sum(sent)


def test_a_failed_core_link_is_planned_around_and_so_is_an_aggregation_switch_until_it_is_back(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    plan = used(controller)
    cable = next(name for name in FABRIC.cable_names if name.startswith("agg") and "->".join(name.split("-")) in plan)
    lab.set_cable(cable, up=False)
    ends = cable.split("-")
    both = {"->".join(ends), "->".join(ends[::-1])}
    eventually(lambda: both.isdisjoint(used(controller)), "no flow is planned over the failed cable")
    wait_for_pings(lab)
    with lab.pinging(interval=0.1) as pings:
        eventually(lambda: sum(pings.sent.values()) > 1000, "many pings were sent")
    assert pings.unanswered == []
    lab.set_cable(cable, up=True)
    controller.wait_for("all is well", controller.is_well)
    lab.kill_switch("agg1")
    eventually(partial(unused, controller, "agg1"), "agg1 carries no flow")
    wait_for_pings(lab)
    lab.start_switch("agg1")
    controller.wait_for("all is well", controller.is_well)
    active(controller)
    wait_for_pings(lab)
    with lab.pinging(interval=0.1) as pings:
        eventually(lambda: sum(pings.sent.values()) > 1000, "many pings were sent")
    assert pings.unanswered == []


def test_without_a_file_the_layers_are_found_by_and_by_and_hosts_reach_each_other(bench: Bench) -> None:
    lab = bench.lab(FABRIC)
    controller = bench.controller("controller.app")
    lab.wait_connected()

    def found() -> Counter[str]:
        answer = controller.get("/v1/fabric")
        return Counter(row["role"] for row in answer.body["switches"]) if answer.status == 200 else Counter()

    # Hosts are found by what they send: each ping that is not answered yet shows its sender.
    eventually(
        lambda: (
            lab.ping_all([(a.name, b.name) for a, b in zip(FABRIC.hosts, FABRIC.hosts[::-1], strict=True)]) == []
            and found() == Counter(leaf=8, aggregation=8, core=4)
        ),
        "all hosts and layers are found",
        shown=found,
    )
    controller.wait_for("the plan is active", controller.plan_is_active)
    wait_for_pings(lab)
    document = controller.get("/v1/fabric").body
    assert document["source"] == "discovery"
    assert {row["id"] for row in document["links"]} == set(FABRIC.cable_names)
    assert document["cabling"]["findings"] == []


def test_a_drained_core_carries_nothing_and_nothing_is_lost_and_a_drained_pod_stays_in_use(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    told = routes(FABRIC, controller)
    with lab.pinging(interval=PING_INTERVAL) as pings, counting(lab, FABRIC) as received, streaming(lab, told) as sent:
        for name in ("core1", "agg3"):
            body = controller.put(f"/v1/fabric/links/{name}", {"drained": True}).body
            assert (len(body["cables"]), body["still_used"]) == (4, [])
            eventually(partial(unused, controller, name), f"{name} is out of use")
        body = controller.put("/v1/fabric/links/pod2", {"drained": True}).body
        # All ways into the pod are drained; those that avoid core1 have fewer drained cables.
        assert body["kind"] == "pod"
        assert set(body["still_used"]) < set(body["cables"])
        active(controller)
        for name in ("pod2", "agg3", "core1"):
            assert controller.put(f"/v1/fabric/links/{name}", {"drained": False}).body["drained"] is False
        active(controller)
    assert pings.unanswered == []
    assert sum(received.values()) == sum(sent)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_controller_no_three_failures_make_a_packet_go_round(
    running: tuple[Lab, Controller], seed: int
) -> None:
    lab, controller = running
    controller.kill()
    # Nobody sends discovery packets any more: what still goes over links are pings, and what circulates.
    for name in random.Random(seed).sample(FABRIC.cable_names, 3):
        lab.set_cable(name, up=False)
    lab.ping_all(timeout=0.5)
    standing(lambda: carried(lab, FABRIC))
