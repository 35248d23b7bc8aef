"""Failures on real switches: ports that flap, several at once, while a plan is being installed, and what comes back."""

from __future__ import annotations

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from tests.rig.bench import Bench
from tests.rig.checks.jobs import active, check_paths, started
from tests.rig.checks.rule_text import source_ports
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches


def all_pairs(fabric: Fabric) -> dict[str, Any]:
    """A flow between any two hosts of different leaves."""
    pairs = [(a, b) for a, b in itertools.permutations(fabric.hosts, 2) if a.leaf != b.leaf]
    return {"flows": [{"src": a.name, "dst": b.name, "bytes": 10**8, "collective": "all"} for a, b in pairs]}


def paths(plan: dict[str, Any]) -> dict[str, Any]:
    return {flow["id"]: [path["links"] for path in flow["paths"]] for flow in plan["flows"]}


def used(plan: dict[str, Any]) -> set[str]:
    return {link for links in paths(plan).values() for path in links for link in path}


def plans(controller: Controller) -> int:
    return len(controller.get("/v1/plans").body["plans"])


def test_a_port_that_flaps_is_left_out_until_it_is_quiet_and_costs_few_plans(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    # Open vSwitch says 10 Gbit/s of every port: nothing is concluded from that.
    assert {link["gbps"] for link in controller.get("/v1/links").body["links"]} == {100.0}
    assert controller.put("/v1/jobs/one", all_pairs(fabric)).status == 201
    active(controller)
    before = plans(controller)
    for _ in range(12):
        lab.set_cable("leaf1-spine1", up=False)
        time.sleep(0.15)
        lab.set_cable("leaf1-spine1", up=True)
        time.sleep(0.15)
    # It is up now, and not used.
    eventually(lambda: flapping(controller) == [True], "it is told")
    assert not used(active(controller)) & {"leaf1->spine1", "spine1->leaf1"}
    wait_for_pings(lab)
    # Once for each time that was still believed, and once more when it was not.
    assert plans(controller) - before <= 10
    controller.wait_for("it is quiet", controller.is_well)
    assert {"leaf1->spine1", "spine1->leaf1"} <= used(active(controller))


def flapping(controller: Controller) -> list[bool]:
    """Return for each finding whether it is about a cable that comes and goes."""
    findings = controller.get("/v1/fabric").body["cabling"]["findings"]
    return [" flaps" in finding["text"] for finding in findings]


def test_several_failures_at_once_leave_every_flow_on_what_is_left(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(4, 3, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", all_pairs(fabric)).status == 201
    active(controller)
    broken = ["leaf1-spine1", "leaf2-spine2", "leaf3-spine3", *(f"leaf{n}-spine4" for n in (1, 2, 3))]
    for name in broken:
        lab.set_cable(name, up=False)
    gone = fabric.without_links(broken)
    dead = {link for link, up in zip(gone.link_ids, gone.link_up.tolist(), strict=True) if not up}
    eventually(lambda: not used(active(controller)) & dead, "nothing is planned over what is dead")
    assert active(controller)["unroutable"] == []
    wait_for_pings(lab)
    check_paths(lab, fabric, controller)


def test_links_that_fail_while_plans_are_being_installed_are_in_none_of_the_last_ones(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(3, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    many = [flow for _ in range(300) for flow in all_pairs(fabric)["flows"]]
    for cable in ("leaf1-spine1", "leaf2-spine2"):
        # Thousands of rules take longer than a port that goes down takes to be told of.
        assert controller.put("/v1/jobs/large", {"flows": many}).status in (200, 201)
        lab.set_cable(cable, up=False)
        failed = {cable.replace("-", "->"), "->".join(reversed(cable.split("-")))}
        eventually(partial(lambda failed: not used(active(controller)) & failed, failed), "the last plan knows it")

        def ports() -> int:
            return sum(source_ports(flow.match) for leaf in fabric.leaves for flow in lab.flows(leaf.name))

        # A plan is active before the last rules of the one before it are gone.
        eventually(partial(lambda ports: ports() == len(many), ports), "each flow has a rule", shown=ports)
        assert controller.delete("/v1/jobs/large").status == 204
        active(controller)
    wait_for_pings(lab)


def test_a_link_that_comes_back_is_used_again_and_moves_only_what_pays(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    lab, controller = started(bench, fabric, tmp_path)
    # One flow a leaf is as fast on any spine: the failed link's moves, and nothing makes it move back.
    few = {"flows": [{"src": "h1", "dst": "h3", "bytes": 5, "collective": "a"}]}
    assert controller.put("/v1/jobs/few", few).status == 201
    first = active(controller)
    (way,) = paths(first).values()
    spine = way[0][1].split("->")[1]
    lab.set_cable(f"leaf1-{spine}", up=False)
    eventually(lambda: paths(active(controller)) != paths(first), "it has moved")
    moved = active(controller)
    lab.set_cable(f"leaf1-{spine}", up=True)
    controller.wait_for("it is back", controller.is_well)
    assert paths(active(controller)) == paths(moved)
    # Two flows of two hosts have the speed of one each only if both links carry one.
    two = {"flows": [{"src": "h2", "dst": "h4", "bytes": 5, "collective": "b"}]}
    assert controller.put("/v1/jobs/two", two).status == 201
    both = active(controller)
    assert paths(both).items() >= paths(moved).items()
    assert {f"leaf1->{spine}", f"{spine}->leaf2"} <= used(both)
    assert {c["speed"] for c in both["collectives"]} == {1.0}


def test_an_isolated_leaf_costs_other_hosts_no_packet_and_no_path(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 3, 2)
    lab, controller = started(bench, fabric, tmp_path)
    assert controller.put("/v1/jobs/one", all_pairs(fabric)).status == 201
    before = paths(active(controller))
    mine = {host.name for host in fabric.hosts if host.leaf == "leaf1"}
    others = [(a.name, b.name) for a, b in itertools.permutations(fabric.hosts, 2) if not {a.name, b.name} & mine]
    flows = {flow["id"]: {flow["src"], flow["dst"]} for flow in active(controller)["flows"]}
    with lab.pinging(others, interval=0.01) as pings:
        lab.set_cable("leaf1-spine1", up=False)
        lab.set_cable("leaf1-spine2", up=False)
        cut = {name for name, ends in flows.items() if ends & mine}
        eventually(lambda: set(active(controller)["unroutable"]) == cut, "its flows are unroutable")
        time.sleep(0.5)
    assert pings.unanswered == []
    left = paths(active(controller))
    assert {name: left[name] for name in before if name not in cut} == {
        name: way for name, way in before.items() if name not in cut
    }
    lab.set_cable("leaf1-spine1", up=True)
    eventually(lambda: active(controller)["unroutable"] == [], "they have a way again")
    wait_for_pings(lab)
