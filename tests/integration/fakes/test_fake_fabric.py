"""A real controller and fake switches: what tests with them may rely on, and what takes too many switches for a lab."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.files.fabric_file import fabric_document
from controller.model.packets.flow_ports import UDP
from controller.model.packets.port_numbers import ROCE_PORT
from controller.southbound.forwarding.base import compile_base
from controller.southbound.forwarding.leaf_guards import ARP_METER, METERS, unmetered
from controller.southbound.rules.priorities import PREFIX
from controller.southbound.rules.rule_set import RuleSet
from tests.fake_switch.fabric import FakeFabric
from tests.rig.both_kinds import Setup
from tests.rig.checks.expected_rules import differences, expected
from tests.rig.checks.fakes import names, sent, settled, started
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, wait_for_pings

ALL_TO_ALL = {
    "hosts": ["h1", "h5", "h9", "h13"],
    "collectives": [{"name": "c", "op": "all_to_all", "ranks": [0, 1, 2, 3], "bytes": 10**9}],
}


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


def test_under_each_enforcement_flows_take_their_planned_links_and_no_change_of_it_loses_a_packet(setup: Setup) -> None:
    fabric = clos(4, 4, 4)
    # Whatever no barrier parts is carried out in any order, and everything is told in small parts.
    fakes, controller = started(setup, fabric, reorder=8, part_bytes=300)
    assert controller.put("/v1/jobs/one", ALL_TO_ALL).status == 201
    settled(controller)
    before: list[Sent] = []
    order: tuple[str, ...] = ("per_flow", "source_port", "segment_routing", "per_flow")
    for enforcement in order:
        with fakes.watching((host, target, packet) for host, target, packet, _ in before) as lost:
            assert controller.put("/v1/mode", {"enforcement": enforcement}).status == 200
            settled(controller)
            only(fakes, expected(controller, fabric, enforcement))
        assert lost == []
        # Hosts may change over to new ports at any time from now on.
        before = told(controller, fabric)
        check_links(fakes, before)


def only(fakes: FakeFabric, rules: RuleSet) -> None:
    """A plan is active before the last rules of the one before it are gone: wait for that, too."""

    def wrong() -> dict[int, str]:
        return differences(fakes.held(), rules)

    eventually(lambda: not wrong(), "these rules and no others are held", shown=wrong)


def test_a_leaf_that_is_slow_to_leave_segment_routing_loses_no_packet(setup: Setup) -> None:
    fabric = clos(2, 2, 1)
    fakes, controller = started(setup, fabric, "--enforcement", "segment_routing")
    flow = {"src": "h1", "dst": "h2", "bytes": 5}
    assert controller.put("/v1/jobs/one", {"flows": [flow]}).status == 201
    settled(controller)
    fakes.temper("leaf1").mod_seconds = 0.8
    with fakes.watching((host, target, packet) for host, target, packet, _ in told(controller, fabric)) as lost:
        assert controller.put("/v1/mode", {"enforcement": "source_port"}).status == 200
        settled(controller)
        only(fakes, expected(controller, fabric, "source_port"))
    assert lost == []


Sent = tuple[str, str, dict[str, int | str], list[str]]
"""Of a piece of a flow: the host that sends, the host that should get it, its header fields, its links."""


def told(controller: Controller, fabric: Fabric) -> list[Sent]:
    """What /v1/routes tells all hosts."""
    pieces: list[Sent] = []
    for host in fabric.hosts:
        for flow in controller.get(f"/v1/routes?host={host.name}").body["flows"]:
            address = {"eth_type": 0x0800, "ipv4_src": host.ip, "ipv4_dst": flow["dst_ip"]}
            for piece in flow["pieces"]:
                ports = {"ip_proto": UDP, "udp_src": piece["udp_src"], "udp_dst": ROCE_PORT}
                pieces.append((host.name, flow["dst"], address | ports, piece["links"]))
    return pieces


def check_links(fakes: FakeFabric, pieces: list[Sent]) -> None:
    """A packet of each piece goes over its links, and is counted by ports and rules on its way."""
    planned: Counter[str] = Counter()
    before = Counter(fakes.received_packets())
    met = {name: sum(fakes.counts(name).values()) for name in names(fakes.fabric)}
    for source, target, packet, links in pieces:
        walk = fakes.walk(packet, source)
        assert walk.host == target
        assert [*(hop.switch for hop in walk.hops), walk.host] == [link.partition("->")[2] for link in links]
        planned.update(links[1:-1])
    assert len(planned) > 8
    carried = Counter(fakes.received_packets()) - before
    # Discovery packets go on meanwhile, one a second on each link.
    assert all(planned[link] <= carried[link] <= planned[link] + 20 for link in fakes.received_packets())
    assert sum(sum(fakes.counts(name).values()) - met[name] for name in names(fakes.fabric)) >= planned.total()


def test_a_fabric_of_16_leaves_and_4_spines_connects_and_loses_a_spine_and_gets_it_back(setup: Setup) -> None:
    fabric = clos(4, 16, 2)
    fakes, _ = started(setup, fabric)
    whole = compile_base(fabric)
    assert fakes.held() == whole
    fakes.kill_switch("spine3")
    without = compile_base(fabric.without_links(["spine3"]))

    def avoided() -> bool:
        held = fakes.held()
        return all(held[leaf.dpid] == without[leaf.dpid] for leaf in fabric.leaves)

    eventually(avoided, "leaves avoid it")
    fakes.start_switch("spine3")
    only(fakes, whole)
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
    controller.wait_for("it is back", lambda: controller.get("/healthz").body["switches"]["connected"] == 5)
    settled(controller)
    assert fakes.connects("leaf1") == 2
    assert sent(fakes) == 0
    fakes.kill_switch("leaf1")
    fakes.start_switch("leaf1")
    controller.wait_for("it holds its rules again", lambda: fakes.held() == rules)
    settled(controller)
    mods = Counter((mod.priority, str(sorted(mod.match.items()))) for mod in fakes.flow_mods("leaf1"))
    assert len(mods) == len(rules[fabric.leaves[0].dpid])
    # The cables fail with its power: if that is told after it is back, rules of its uplinks change once more.
    assert {times for (priority, _), times in mods.items() if priority != PREFIX} == {1}


def test_silence_is_noticed_and_what_was_said_meanwhile_is_carried_out(setup: Setup) -> None:
    fabric = clos(2, 2, 1)
    fakes, controller = started(setup, fabric)
    for quiet in ("silent", "echoes"):
        setattr(fakes.temper("leaf1"), quiet, quiet == "silent")
        controller.wait_for("it is missed", lambda: controller.get("/healthz").body["switches"]["connected"] == 3)
        setattr(fakes.temper("leaf1"), quiet, quiet != "silent")
        settled(controller)
    assert fakes.held() == compile_base(fabric)


def test_hosts_with_unknown_ports_are_found_by_probes(setup: Setup, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    document = fabric_document(fabric)
    for host in document["hosts"]:
        del host["port"]
    (tmp_path / "without.yaml").write_text(yaml.safe_dump(document))
    controller, address = setup.controller(fabric, "--fabric", str(tmp_path / "without.yaml"))
    fakes = setup.fakes(fabric, address)
    fakes.wait_connected()
    ports = {host.name: host.port for host in fabric.hosts}

    def found() -> bool:
        told = controller.get("/v1/fabric").body.get("hosts", [])
        return ports == {host["name"]: host["port"] for host in told}

    controller.wait_for("all hosts are placed", found)
    wait_for_pings(fakes)


def meter_mods(fakes: FakeFabric) -> int:
    return sum(len(fakes.meter_mods(name)) for name in names(fakes.fabric))


def test_meters_are_created_once_recreated_after_removal_and_left_out_if_unsupported(
    setup: Setup,
) -> None:
    fabric = clos(2, 2, 1)
    fakes, controller = started(setup, fabric, "--readback-seconds", "1")
    assert fakes.held() == compile_base(fabric)
    assert meter_mods(fakes) == len(METERS) * len(names(fabric))
    fakes.forget_messages()
    controller.kill()
    controller.start()
    settled(controller)
    assert sent(fakes) == meter_mods(fakes) == 0
    fakes.remove_meter("leaf1", ARP_METER.id)
    controller.wait_for("it is made again", lambda: len(fakes.meter_mods("leaf1")) == 1)
    controller.wait_for("its rules are there again", lambda: fakes.held() == compile_base(fabric))
    assert len(fakes.meter_mods("leaf1")) == 1


@pytest.mark.parametrize("options", [(), ("--switch-meters", "off")])
def test_switches_without_meters_get_the_rules_without_them(setup: Setup, options: tuple[str, ...]) -> None:
    fabric = clos(2, 2, 1)
    fakes, _ = started(setup, fabric, *options, most_meters=16 if options else 0)
    wanted = compile_base(fabric)
    assert fakes.held() == RuleSet({dpid: unmetered(wanted[dpid]) for dpid in wanted})
    assert meter_mods(fakes) == 0
    assert fakes.ping_all() == []
