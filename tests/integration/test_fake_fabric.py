"""A real controller and fake switches: what tests with them may rely on, and what takes too many switches for a lab."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.model.clos import clos
from controller.model.enforcement import ENFORCEMENTS, Enforcement
from controller.model.fabric import Fabric
from controller.model.fabric_file import fabric_document
from controller.southbound.base import compile_base
from controller.southbound.ingress import ROCE_PORT, UDP
from tests.fake_switch.fabric import FakeFabric
from tests.integration.both_kinds import Setup
from tests.integration.expected_rules import differences, expected
from tests.integration.harness import Bench, Controller, eventually

ALL_TO_ALL = {
    "hosts": ["h1", "h5", "h9", "h13", "h2", "h6"],
    "collectives": [{"name": "c", "op": "all_to_all", "ranks": [0, 1, 2, 3, 4, 5], "bytes": 10**9}],
}


@pytest.fixture
def setup(bench: Bench, tmp_path: Path) -> Iterator[Setup]:
    made = Setup(bench, tmp_path)
    yield made
    made.close()


def started(setup: Setup, fabric: Fabric, *options: str, **switches: int) -> tuple[FakeFabric, Controller]:
    """Fake switches that all hold the plan of a controller."""
    controller, address = setup.controller(fabric, *options)
    fakes = setup.fakes(fabric, address, **switches)
    fakes.wait_connected()
    settled(controller)
    return fakes, controller


def settled(controller: Controller) -> None:
    """Wait until nothing is amiss and the newest plan is active."""

    def well() -> bool:
        if controller.get("/healthz").body["status"] != "ok":
            return False
        plan = controller.get("/v1/plan").body
        return bool(plan["active"] and plan["active"]["epoch"] == plan["computed"]["epoch"])

    controller.wait_for("all is well", well, 20)


def names(fabric: Fabric) -> list[str]:
    return [switch.name for switch in (*fabric.leaves, *fabric.spines)]


def sent(fakes: FakeFabric) -> int:
    """Flow-mods and group-mods that switches were sent."""
    return sum(len(fakes.flow_mods(name)) + len(fakes.group_mods(name)) for name in names(fakes.fabric))


def test_hosts_reach_each_other_and_a_restarted_controller_sends_no_flow_mod(setup: Setup) -> None:
    fabric = clos(4, 4, 4)
    fakes, controller = started(setup, fabric)
    assert fakes.held() == compile_base(fabric)
    assert fakes.ping_all() == []
    assert controller.put("/v1/jobs/one", ALL_TO_ALL).status == 201
    settled(controller)
    held = fakes.held()
    assert held != compile_base(fabric)
    assert sent(fakes) > 0
    fakes.forget_messages()
    controller.kill()
    assert fakes.ping_all() == []
    controller.start()
    fakes.wait_connected()
    settled(controller)
    assert sent(fakes) == 0
    assert fakes.held() == held


@pytest.mark.parametrize("enforcement", ENFORCEMENTS)
def test_the_flows_of_a_job_take_their_planned_links_and_are_counted_there(
    setup: Setup, enforcement: Enforcement
) -> None:
    fabric = clos(4, 4, 4)
    # Whatever no barrier parts is carried out in any order, and everything is told in small parts.
    fakes, controller = started(setup, fabric, "--enforcement", enforcement, reorder=8, part_bytes=300)
    assert controller.put("/v1/jobs/one", ALL_TO_ALL).status == 201
    settled(controller)
    assert differences(fakes.held(), expected(controller, fabric, enforcement)) == {}
    planned: Counter[str] = Counter()
    before = Counter(fakes.received_packets())
    rules_met = {name: sum(fakes.counts(name).values()) for name in names(fabric)}
    for host in fabric.hosts:
        for flow in controller.get(f"/v1/routes?host={host.name}").body["flows"]:
            for piece in flow["pieces"]:
                walk = fakes.walk(
                    {
                        "eth_type": 0x0800,
                        "ip_proto": UDP,
                        "ipv4_src": host.ip,
                        "ipv4_dst": flow["dst_ip"],
                        "udp_src": piece["udp_src"],
                        "udp_dst": ROCE_PORT,
                    },
                    host.name,
                )
                assert walk.host == flow["dst"]
                on_the_way = [link.partition("->")[2] for link in piece["links"]]
                assert [*(hop.switch for hop in walk.hops), walk.host] == on_the_way
                planned.update(piece["links"][1:-1])
    assert len(planned) > 8
    carried = Counter(fakes.received_packets()) - before
    # Discovery packets go on meanwhile, one a second on each link.
    assert all(planned[link] <= carried[link] <= planned[link] + 10 for link in carried)
    assert sum(sum(fakes.counts(name).values()) - rules_met[name] for name in names(fabric)) >= planned.total()


def test_a_fabric_of_32_leaves_and_8_spines_connects_and_loses_a_spine_and_gets_it_back(setup: Setup) -> None:
    fabric = clos(8, 32, 2)
    fakes, controller = started(setup, fabric)
    assert fakes.held() == compile_base(fabric)
    fakes.kill_switch("spine3")
    now = fabric.without_links(["spine3"])
    eventually(
        lambda: all(fakes.rules(leaf.name) == compile_base(now)[leaf.dpid] for leaf in fabric.leaves), "leaves avoid it"
    )
    fakes.start_switch("spine3")
    settled(controller)
    assert fakes.held() == compile_base(fabric)
    some = [("h1", host.name) for host in fabric.hosts[1:]]
    assert fakes.ping_all(some, choose=max) == []


def test_a_switch_that_comes_back_gets_what_it_lacks_and_no_more(setup: Setup) -> None:
    fabric = clos(2, 3, 1)
    fakes, controller = started(setup, fabric)
    rules = compile_base(fabric)
    fakes.forget_messages()
    fakes.cut("leaf1")
    controller.wait_for("it is missed", lambda: controller.get("/healthz").body["switches"]["connected"] == 4)
    fakes.reconnect("leaf1")
    settled(controller)
    assert sent(fakes) == 0
    assert fakes.connects("leaf1") == 2
    fakes.kill_switch("leaf1")
    fakes.start_switch("leaf1")
    controller.wait_for("it holds its rules again", lambda: fakes.held() == rules)
    assert len(fakes.flow_mods("leaf1")) == len(rules[fabric.leaves[0].dpid])


def test_silence_is_noticed_and_what_was_said_meanwhile_is_carried_out(setup: Setup) -> None:
    fabric = clos(2, 2, 1)
    fakes, controller = started(setup, fabric)
    for quiet in ("silent", "echoes"):
        setattr(fakes.temper("leaf1"), quiet, quiet == "silent")
        controller.wait_for("it is missed", lambda: controller.get("/healthz").body["switches"]["connected"] == 3, 10)
        setattr(fakes.temper("leaf1"), quiet, quiet != "silent")
        settled(controller)
    assert fakes.held() == compile_base(fabric)


def test_hosts_whose_ports_nobody_knows_are_found_by_probes(bench: Bench, setup: Setup, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    document = fabric_document(fabric)
    for host in document["hosts"]:
        del host["port"]
    (tmp_path / "without.yaml").write_text(yaml.safe_dump(document))
    controller, address = setup.controller(fabric, "--fabric", str(tmp_path / "without.yaml"))
    fakes = setup.fakes(fabric, address)
    fakes.wait_connected()
    settled(controller)
    assert {host["name"]: host["port"] for host in controller.get("/v1/fabric").body["hosts"]} == {
        host.name: host.port for host in fabric.hosts
    }
    eventually(lambda: fakes.ping_all() == [], "they reach each other", 10)
