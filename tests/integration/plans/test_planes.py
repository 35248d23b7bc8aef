"""NICs with a port in each of two planes on real switches: plans in every enforcement, and failures within a plane."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from controller.model.files.fabric_file import load_fabric
from controller.southbound.enforcement.registry import rule_enforcements
from emulation.lab import Lab
from tests.documented import ROOT
from tests.rig.bench import Bench
from tests.rig.checks.fat_tree import used
from tests.rig.checks.jobs import active, routes
from tests.rig.checks.lost_plane import lose_second_plane
from tests.rig.controller import Controller
from tests.rig.hosts.streams import PACKETS, check_counted, counting, enforce, streaming
from tests.rig.programs import fairspine
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

EXAMPLE = ROOT / "examples" / "two-planes.yaml"
FABRIC = load_fabric(EXAMPLE)
RING = {
    "hosts": ["h1", "h3", "h2", "h4"],
    "collectives": [{"name": "r", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 10**6}],
}
PLANE = {host.name: host.name[-1] for host in FABRIC.hosts}


@pytest.fixture
def running(bench: Bench) -> tuple[Lab, Controller]:
    """With a ring of all four NICs, each connection of which has a stripe in each plane."""
    lab = bench.lab(FABRIC)
    controller = bench.controller("--fabric", str(EXAMPLE), "controller.app")
    lab.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    assert controller.put("/v1/jobs/ring", RING).status == 201
    active(controller)
    return lab, controller


def planes(controller: Controller) -> list[tuple[str, str]]:
    """The planes of the two ports of each flow of the newest plan, once it is active."""
    return [(PLANE[flow["src"]], PLANE[flow["dst"]]) for flow in active(controller)["flows"]]


def test_every_stripe_is_counted_on_its_links_and_on_no_other_in_each_enforcement(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    assert Counter(planes(controller)) == {("1", "1"): 4, ("2", "2"): 4}
    for enforcement in rule_enforcements():
        enforce(controller, enforcement)
        assert len(check_counted(lab, FABRIC, controller, enforcement)) == 16


def test_a_failed_cable_is_planned_around_within_its_plane(running: tuple[Lab, Controller]) -> None:
    lab, controller = running
    before = used(controller)
    lab.set_cable("leaf3-spine3", up=False)
    gone = {"leaf3->spine3", "spine3->leaf3"}
    eventually(lambda: gone.isdisjoint(used(controller)), "no flow is planned over the failed cable")
    assert Counter(planes(controller)) == {("1", "1"): 4, ("2", "2"): 4}
    second = {f"{role}{n}" for role in ("leaf", "spine") for n in (3, 4)}

    def in_first(links: set[str]) -> set[str]:
        return {link for link in links if second.isdisjoint(link.split("->"))}

    assert in_first(used(controller)) == in_first(before)
    wait_for_pings(lab)


def test_a_plane_that_lost_a_leaf_hands_its_stripes_to_the_other_until_the_leaf_is_back(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running

    def on_planes() -> Counter[tuple[str, str]]:
        return Counter(planes(controller))

    for cable in ("leaf3-spine3", "leaf3-spine4"):
        lab.set_cable(cable, up=False)
    eventually(lambda: on_planes() == {("1", "1"): 8}, "all stripes between leaves are in plane 1", shown=on_planes)
    document: Any = active(controller)
    assert document["unroutable"] == []
    for cable in ("leaf3-spine3", "leaf3-spine4"):
        lab.set_cable(cable, up=True)
    eventually(
        lambda: on_planes() == {("1", "1"): 4, ("2", "2"): 4}, "each stripe is in its own plane", shown=on_planes
    )
    wait_for_pings(lab)


def test_stripes_within_a_leaf_that_has_failed_move_to_the_other_plane_until_it_is_back(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    pair = {"flows": [{"src": a, "dst": b, "bytes": 10**6} for a, b in (("h1", "h2"), ("h2", "h1"))]}
    assert controller.put("/v1/jobs/pair", pair).status == 201

    def on_planes() -> Counter[tuple[str, str]]:
        assert active(controller)["unroutable"] == []
        return Counter(planes(controller))

    both = {("1", "1"): 6, ("2", "2"): 6}
    assert on_planes() == both
    lab.kill_switch("leaf3")
    # The ports of NICs that led to it lead nowhere, though no switch says so.
    eventually(lambda: on_planes() == {("1", "1"): 12}, "all stripes are in plane 1", shown=on_planes)
    assert {f"{port}-leaf3" for port in ("h1.p2", "h2.p2")} <= {
        f"{row['name']}-{row['leaf']}" for row in controller.get("/v1/fabric").body["hosts"] if not row["up"]
    }
    told = routes(FABRIC, controller)
    with counting(lab, FABRIC) as received, streaming(lab, told, PACKETS):
        pass
    assert sum(received.values()) == 12 * PACKETS
    lab.start_switch("leaf3")
    eventually(lambda: on_planes() == both, "each stripe is in its own plane", shown=on_planes)
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    check_counted(lab, FABRIC, controller, "when the leaf is back")


def command(controller: Controller, *arguments: str) -> str:
    """What a command of fairspine prints."""
    url = f"http://127.0.0.1:{controller.http_port}"
    done = fairspine(*arguments, "--url", url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("enforcement", rule_enforcements())
def test_a_plane_is_drained_and_used_again_without_a_loss_in_each_enforcement(
    running: tuple[Lab, Controller], enforcement: str
) -> None:
    lab, controller = running
    enforce(controller, enforcement)

    told = routes(FABRIC, controller)
    with lab.pinging(interval=0.02) as pings, counting(lab, FABRIC) as received, streaming(lab, told) as sent:
        command(controller, "drain", "plane2")
        assert Counter(planes(controller)) == {("1", "1"): 8}
        # What goes on from the ports of before arrives, too.
        with streaming(lab, routes(FABRIC, controller)) as moved:
            eventually(lambda: sum(pings.sent.values()) > 200, "pings were sent meanwhile")
        command(controller, "undrain", "plane2")
        assert Counter(planes(controller)) == {("1", "1"): 4, ("2", "2"): 4}
    assert pings.unanswered == []
    assert sum(moved) > 0
    assert sum(received.values()) == sum(sent) + sum(moved)


def test_a_drained_leaf_is_switched_off_and_on_without_a_loss(running: tuple[Lab, Controller]) -> None:
    lab, controller = running
    assert json.loads(command(controller, "drain", "leaf3", "--format", "json"))["links"][0]["still_used"] == []
    assert Counter(planes(controller)) == {("1", "1"): 8}
    first = [(a, b) for a, b in lab.wiring.pairs() if PLANE[a] == PLANE[b] == "1"]

    def is_up() -> bool:
        return all(row["up"] for row in controller.get("/v1/fabric").body["hosts"])

    with (
        lab.pinging(first, interval=0.02) as pings,
        counting(lab, FABRIC) as received,
        streaming(lab, routes(FABRIC, controller)) as sent,
    ):
        lab.kill_switch("leaf3")
        eventually(lambda: not is_up(), "the ports of the leaf are down")
        lab.start_switch("leaf3")
        controller.wait_for("all is well", lambda: is_up() and controller.is_well())
    assert pings.unanswered == []
    assert sum(received.values()) == sum(sent) > 0
    command(controller, "undrain", "leaf3")
    assert Counter(planes(controller)) == {("1", "1"): 4, ("2", "2"): 4}
    wait_for_pings(lab)


def test_a_plane_that_fails_under_a_job_hands_its_stripes_over_and_the_job_goes_on(
    running: tuple[Lab, Controller],
) -> None:
    lab, controller = running
    sources = lose_second_plane(lab, controller, FABRIC)
    first = {host.ip for host in FABRIC.hosts if PLANE[host.name] == "1"}
    assert sources <= first
    assert Counter(planes(controller)) == {("1", "1"): 8}


def test_a_nic_name_is_no_host_to_routes_and_the_fabric_tells_planes(running: tuple[Lab, Controller]) -> None:
    _, controller = running
    assert controller.get("/v1/routes?host=h1").status == 404
    told = controller.get("/v1/fabric").body
    assert {row["name"]: row["plane"] for row in told["switches"]} == {
        f"{role}{n}": (n + 1) // 2 for role in ("leaf", "spine") for n in range(1, 5)
    }
    assert {row["name"]: row["nic"] for row in told["hosts"]} == {h.name: h.nic for h in FABRIC.hosts}
