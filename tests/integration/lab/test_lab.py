"""The lab is the fabric that it was given: names, ids, ports, rates, cables; and it obeys when a test breaks it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.model.errors import InputError
from controller.model.fabric import Cable, Fabric, Host, Switch
from controller.model.files.clos import clos
from emulation import isolate
from emulation.errors import LabError
from emulation.lab import HOST_MTU, SWITCH_MTU, Lab
from emulation.processes import FIRST
from emulation.wiring import CableEnd, wire_up
from tests.rig.bench import Bench
from tests.rig.priority import nice
from tests.rig.switches.static_rules import install, next_hops
from tests.rig.waiting import eventually, wait_for_pings

pytestmark = pytest.mark.switches

MakeLab = Callable[..., Lab]

STRANGE = Fabric(
    layers=(
        (Switch("rack-12.row-3.tor-a", 0xFFFF_FFFF_FFFF_FFFE), Switch("b", 7)),
        (Switch("lo", 0x1234_5678_9ABC),),
    ),
    hosts=(
        Host("gpu-node-0001-nic-3.example", "rack-12.row-3.tor-a", 1.0, "10.9.8.7", "02:aa:00:00:00:01", "n1", port=40),
        Host("h", "b", 1.0, "10.200.0.1", "02:aa:00:00:00:02", "n2", port=None),
    ),
    cables=(
        Cable("rack-12.row-3.tor-a", "lo", 1.0, lower_port=65279, upper_port=2),
        Cable("rack-12.row-3.tor-a", "lo", 1.0, lower_port=3, upper_port=None),
        Cable("b", "lo", 1.0, lower_port=None, upper_port=200),
    ),
)
"""Nothing here is as usual, and all of it is allowed."""


def links() -> dict[str, str]:
    """Every interface of the switches' namespace with what ``ip link`` says of it."""
    text = output(["ip", "-o", "link", "show"])
    return {found[1]: line for line in text.splitlines() if (found := re.match(r"\d+: ([^:@]+)", line))}


def mtu(line: str) -> int:
    found = re.search(r" mtu (\d+) ", line)
    assert found is not None
    return int(found[1])


@pytest.mark.parametrize("fabric", [clos(2, 2, 1), clos(4, 4, 4), clos(1, 2, 2, parallel=3), STRANGE])
def test_switches_ports_and_hosts_are_as_the_fabric_says(lab: MakeLab, fabric: Fabric) -> None:
    running = lab(fabric)
    wiring = wire_up(fabric)
    for switch in wiring.switches:
        shown = running.ofctl("show", switch.name)
        assert f"dpid:{switch.dpid:016x}" in shown
        ports = port_names(running, switch.name)
        assert ports == {end.port: end.interface for end in wiring.ends(switch.name)}
        assert dark_ports(running, switch.name) == set()
    shown_links = links()
    for switch in wiring.switches:
        for end in wiring.ends(switch.name):
            assert mtu(shown_links[end.interface]) == SWITCH_MTU
            assert "tx-checksumming: off" in output(["ethtool", "-k", end.interface])
    for host in wiring.hosts:
        (end,) = wiring.ends(host.name)
        shown = running.run(host.name, ["ip", "-o", "addr", "show", "dev", end.interface]).stdout
        assert f" inet {host.ip}/8 " in shown
        assert "inet6" not in shown
        link = running.run(host.name, ["ip", "-o", "link", "show", "dev", end.interface]).stdout
        assert f"link/ether {host.mac} " in link
        assert mtu(link) == HOST_MTU
        assert "tx-checksumming: off" in running.run(host.name, ["ethtool", "-k", end.interface]).stdout


def test_each_cable_joins_the_two_ports_that_the_wiring_names_and_each_host_its_own(lab: MakeLab) -> None:
    fabric = clos(2, 2, 2, parallel=2)
    running = lab(fabric)
    install(running, fabric)
    wait_for_pings(running)
    for wire in running.wiring.wires:
        if wire.a.port:
            assert leads_to(running, wire.a, wire.b), wire.name


def leads_to(lab: Lab, here: CableEnd, there: CableEnd) -> bool:
    """Whether a packet sent out of one switch port comes in at another one."""
    before = lab.port_counters(there.node)[there.port].rx_packets
    lab.ofctl("packet-out", here.node, f"in_port=LOCAL packet={64 * '00'} actions=output:{here.port}")
    try:
        eventually(lambda: lab.port_counters(there.node)[there.port].rx_packets > before, "it arrives")
    except LabError:
        return False
    return True


def test_without_rules_nothing_is_forwarded_and_with_them_everything(lab: MakeLab) -> None:
    fabric = clos(2, 2, 2)
    running = lab(fabric)
    everybody = [(a.name, b.name) for a in fabric.hosts for b in fabric.hosts if a is not b]
    assert running.ping_all(timeout=0.2) == sorted(everybody)
    install(running, fabric)
    wait_for_pings(running)
    assert running.ping_all([("h1", "h4")]) == []
    rules = {(entry.match, entry.actions) for entry in running.flows("leaf1")}
    port = next_hops(fabric)["leaf1"]["h4"]
    assert ("ip,nw_dst=10.0.2.2", f"output:{port}") in rules


def test_packets_of_the_full_mtu_get_through(lab: MakeLab) -> None:
    fabric = clos(1, 2, 1)
    running = lab(fabric)
    install(running, fabric)
    headers = 20 + 8
    full = running.run("h1", ["ping", "-c1", "-W2", "-Mdo", f"-s{HOST_MTU - headers}", "10.0.2.1"])
    assert full.returncode == 0, full.stdout


def test_tcp_gets_through_and_links_carry_their_scaled_rate_and_no_more(lab: MakeLab) -> None:
    fabric = clos(1, 2, 1, host_gbps=100.0, uplink_gbps=50.0)
    running = lab(fabric, mbps_per_gbps=0.4)
    install(running, fabric)
    for interface, mbps in (("leaf1-eth1", 40), ("leaf1-eth2", 20), ("spine1-eth1", 20)):
        assert f" rate {mbps}Mbit " in output(["tc", "class", "show", "dev", interface])
    assert " rate 40Mbit " in running.run("h1", ["tc", "class", "show", "dev", "h1-eth0"]).stdout

    running.spawn("iperf3", ["iperf3", "-s", "-1", "--forceflush"], host="h2")
    eventually(lambda: "listening" in running.log_path("iperf3").read_text(), "iperf3 listens")
    sent = running.run("h1", ["iperf3", "-c", "10.0.2.1", "-t", "1", "-J"])
    assert sent.returncode == 0, sent.stdout
    received = json.loads(sent.stdout)["end"]["sum_received"]
    # Two more may be measured than are sent: a burst at the start, and clocks that are not read at the same moment.
    assert 0 < received["bits_per_second"] / 1e6 < 22


def test_a_switch_that_comes_back_has_its_rates_again(lab: MakeLab) -> None:
    running = lab(clos(1, 1, 1), mbps_per_gbps=0.1)
    before = output(["tc", "class", "show", "dev", "spine1-eth1"])
    running.kill_switch("spine1")
    running.start_switch("spine1")
    assert output(["tc", "class", "show", "dev", "spine1-eth1"]) == before
    running.restart_switches()
    assert output(["tc", "class", "show", "dev", "spine1-eth1"]) == before


def test_cables_that_are_down_in_the_fabric_are_there_and_dark(lab: MakeLab) -> None:
    fabric = clos(2, 2, 1).without_links(["leaf1-spine2", "h2-leaf2"])
    running = lab(fabric)
    assert dark_ports(running, "leaf1") == {3}
    assert dark_ports(running, "spine2") == {1}
    assert dark_ports(running, "leaf2") == {1}
    assert dark_ports(running, "spine1") == set()
    running.set_cable("leaf1-spine2", up=True)
    eventually(lambda: dark_ports(running, "leaf1") | dark_ports(running, "spine2") == set(), "the cable is up")


def test_one_end_set_down_darkens_both_and_a_switch_killed_darkens_its_neighbours(lab: MakeLab) -> None:
    running = lab(clos(2, 2, 1))
    running.set_port("leaf1", 2, up=False)
    eventually(lambda: dark_ports(running, "leaf1") == {2}, "the port is down")
    eventually(lambda: dark_ports(running, "spine1") == {1}, "its neighbour sees no carrier")
    running.set_port("leaf1", 2, up=True)
    running.kill_switch("spine1")
    eventually(lambda: dark_ports(running, "leaf2") == {2}, "the neighbours see no carrier")
    running.start_switch("spine1")
    eventually(lambda: dark_ports(running, "leaf2") == dark_ports(running, "spine1") == set(), "all is up again")
    with pytest.raises(InputError, match="the switch has no such port"):
        running.set_port("leaf1", 9, up=False)


def test_pings_in_the_background_count_what_an_outage_swallows(lab: MakeLab) -> None:
    fabric = clos(1, 2, 1)
    running = lab(fabric)
    install(running, fabric)
    with running.pinging(interval=0.01) as calm:
        eventually(lambda: calm.sent.get(("h1", "h2"), 0) >= 5, "five rounds were sent")
    assert calm.unanswered == []
    with running.pinging(interval=0.01, timeout=0.1) as broken:
        running.set_cable("leaf1-spine1", up=False)
        eventually(lambda: broken.lost.get(("h1", "h2"), 0) >= 3, "three were lost")
        running.set_cable("leaf1-spine1", up=True)
        lost = dict(broken.lost)
        eventually(lambda: broken.sent[("h1", "h2")] >= sum(lost.values()) + 10, "more rounds were sent")
    assert sorted(broken.unanswered) == [("h1", "h2"), ("h2", "h1")]
    wait_for_pings(running)


def test_frozen_switches_forward_nothing_and_go_on_where_they_were(lab: MakeLab) -> None:
    fabric = clos(1, 2, 1)
    running = lab(fabric)
    install(running, fabric)
    wait_for_pings(running)
    with running.frozen():
        assert running.ping_all(timeout=0.2) == [("h1", "h2"), ("h2", "h1")]
    wait_for_pings(running)


def test_a_lab_may_be_wired_otherwise_than_the_fabric_says(lab: MakeLab) -> None:
    fabric = clos(2, 2, 1)
    wrong = wire_up(fabric).swapped("leaf1-spine1", "leaf2-spine1").without("leaf1-spine2")
    running = lab(fabric, wired_as=wrong.with_extra(("leaf1", 9), ("leaf2", 9)))
    assert set(port_names(running, "leaf1")) == {1, 2, 9}
    assert set(port_names(running, "spine2")) == {2}
    for here, there in ((("leaf1", 2), ("spine1", 2)), (("leaf2", 2), ("spine1", 1)), (("leaf1", 9), ("leaf2", 9))):
        assert leads_to(running, CableEnd(*here, ""), CableEnd(*there, "")), (here, there)


def test_a_rate_that_would_not_be_enforced_is_refused_before_anything_is_made() -> None:
    with pytest.raises(InputError, match=r"h1-leaf1 would have 1100 Mbit/s, and rates above 1000 are not enforced"):
        Lab(clos(1, 1, 1, host_gbps=100.0), mbps_per_gbps=11)


def test_a_lab_outside_a_namespace_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(isolate.NETNS_VARIABLE)
    with pytest.raises(LabError, match=r"its own network namespace: python -m emulation\.isolate"):
        Lab(clos(1, 1, 1), out=tmp_path).start()


def test_a_controller_that_never_comes_is_named_with_the_switches_that_miss_it(lab: MakeLab) -> None:
    running = lab(clos(1, 2, 1), controller=("127.0.0.1", 16653))
    with pytest.raises(LabError, match=r"not connected to tcp:127\.0\.0\.1:16653 within 0\.2 s: leaf1, leaf2, spine1"):
        running.wait_connected(timeout=0.2)


@pytest.mark.parametrize("controller", ["tcp:127.0.0.1:16653", "unix:{folder}/controller.sock"])
def test_trying_the_controller_again_keeps_the_rules_and_finds_it_wherever_it_listens(
    lab: MakeLab, tmp_path: Path, controller: str
) -> None:
    running = lab(clos(1, 1, 1), controller=controller.format(folder=tmp_path))
    running.ofctl("add-flow", "leaf1", "actions=drop")
    log = running.log_path("ovs-vswitchd")
    for _ in range(2):
        tries = log.read_text().count("connecting...")
        # One second is the shortest wait; the next one is two, and is cut short.
        eventually(lambda: "waiting 2 seconds" in log.read_text().rsplit("connecting...", 1)[1], "it waits")
        running.ovs.try_again()
        assert log.read_text().count("connecting...") > tries
        assert "unknown" not in log.read_text()
    assert [(entry.match, entry.actions) for entry in running.flows("leaf1")] == [("", "drop")]


def test_switches_get_the_processor_before_other_processes(lab: MakeLab) -> None:
    running = lab(clos(1, 1, 1))
    for _ in range(2):
        pid = running.ovs.daemon.pid
        alone, session = nice(pid)
        assert alone == FIRST
        assert session in (FIRST, None)
        running.restart_switches()


def test_an_openflow_error_on_a_switch_fails_the_bench(bench: Bench, lab: MakeLab) -> None:
    running = lab(clos(1, 1, 1))
    assert bench.problems() == []
    with pytest.raises(LabError, match="OFPGMFC_UNKNOWN_GROUP"):
        running.ofctl("mod-group", "leaf1", "group_id=77,type=all")
    assert any("OFPT_GROUP_MOD" in line for line in bench.problems())
    bench.harmless.append((r"error reply to OFPT_GROUP_MOD", "provoked here"))


def output(argv: list[str]) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def port_names(lab: Lab, switch: str) -> dict[int, str]:
    shown = re.findall(r"^ (\d+)\((\S+)\): addr", lab.ofctl("show", switch), re.MULTILINE)
    return {int(number): name for number, name in shown}


def dark_ports(lab: Lab, switch: str) -> set[int]:
    """Ports of a switch that have no carrier or are set down."""
    blocks = re.findall(r"^ (\d+)\(.*\n(?:     .*\n)*?     state:      (.*)$", lab.ofctl("show", switch), re.MULTILINE)
    return {int(number) for number, state in blocks if "LINK_DOWN" in state}
