"""Host locations on real switches: forged ARP and floods of it have no effect, and real moves are followed."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path

import pytest
import yaml

from controller import ryu_compat
from tests.rig.bench import Bench

ryu_compat.prepare()

from controller.model.fabric import Fabric, Host  # noqa: E402
from controller.model.files.clos import clos  # noqa: E402 (Ryu first)
from controller.model.files.fabric_file import fabric_document  # noqa: E402
from controller.southbound.forwarding.leaf_guards import ARP_METER  # noqa: E402
from controller.southbound.openflow.observing import arp  # noqa: E402
from emulation.lab import Lab  # noqa: E402
from tests.rig.checks.cabling import as_intended, cabling, fabric_file, names  # noqa: E402
from tests.rig.checks.rule_text import held  # noqa: E402
from tests.rig.controller import Controller  # noqa: E402
from tests.rig.hosts.attacker import attacker  # noqa: E402
from tests.rig.waiting import eventually, standing, wait_for_pings  # noqa: E402

pytestmark = pytest.mark.switches


def claim(ip: str, mac: str, target: str = arp.NOBODY) -> str:
    """A reply that looks like the answer to a probe, or goes to an address that nobody has."""
    return arp.frame(arp.BROADCAST, arp.REPLY, mac, ip, arp.NOBODY_MAC, target).hex()


def memory(controller: Controller) -> int:
    """Bytes of the controller that are in memory."""
    status = Path(f"/proc/{controller.pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def metric(controller: Controller, name: str) -> float:
    lines = controller.get("/metrics").body.splitlines()
    return float(next(line for line in lines if line.startswith(f"fairspine_{name} ")).split()[1])


def place(controller: Controller, ip: str) -> tuple[str, int | None] | None:
    """Leaf and port of a host."""
    hosts = {host["ip"]: host for host in controller.get("/v1/fabric").body.get("hosts", [])}
    return (hosts[ip]["leaf"], hosts[ip]["port"]) if ip in hosts else None


def metered(lab: Lab, switch: str, meter: int) -> tuple[int, int]:
    """Packets that have passed a meter, and that it has dropped."""
    text = lab.ofctl("meter-stats", switch, f"meter={meter}")
    (came, dropped), *_ = re.findall(r"packet_in_count:(\d+).*?0: packet_count:(\d+)", text, re.DOTALL)
    return int(came) - int(dropped), int(dropped)


def test_a_forged_frame_moves_no_host_of_the_file_and_is_reported_and_a_flood_leaves_no_trace(
    bench: Bench, tmp_path: Path
) -> None:
    fabric = clos(2, 2, 2)
    victim = fabric.hosts[0]
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", fabric_file(fabric, tmp_path), "controller.app")
    lab.wait_connected()
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)
    before = standing(lambda: {name: held(lab, name) for name in names(fabric)})
    told = f"10.0.1.1 (h1) is claimed at leaf2 port 1 by {victim.mac}; it stays at leaf1 port 1"
    with attacker(lab, "h3") as send, lab.pinging([("h2", "h1"), ("h4", "h1"), ("h1", "h4")]) as pings:
        send(1, 0, claim(victim.ip, victim.mac))
        controller.wait_for("the claim is told", lambda: told in cabling(controller))
        assert controller.get("/healthz").body["status"] == "degraded"
        assert told in controller.get("/healthz").body["reasons"]
        small = memory(controller)
        # A fixed claim, and unsound frames, as fast as one host can.
        for frame in (claim(victim.ip, victim.mac), claim(victim.ip, victim.mac)[:60], "*"):
            assert send(2000, 1.5, frame) > 100
        eventually(lambda: min(pings.sent.values()) > 10, "hosts ping each other")
    assert pings.unanswered == []
    assert {name: held(lab, name) for name in names(fabric)} == before
    assert memory(controller) - small < 20e6
    assert metric(controller, "host_clashes_total") >= 1
    log = controller.log.read_text()
    assert 1 <= log.count("is claimed at leaf2 port 1") <= 3
    assert len(log.splitlines()) < 300


def test_a_host_at_another_port_is_reported_and_reached_after_the_file_is_corrected(
    bench: Bench, tmp_path: Path
) -> None:
    intended = clos(1, 2, 1)
    moved = dataclasses.replace(intended, hosts=(dataclasses.replace(intended.hosts[0], port=9), intended.hosts[1]))
    lab = bench.lab(moved)
    path = fabric_file(intended, tmp_path)
    controller = bench.controller("--fabric", path, "controller.app")
    lab.wait_connected()
    told = "10.0.1.1 (h1) answers at leaf1 port 9, not at leaf1 port 1, to which its traffic is sent"
    controller.wait_for("it is told", lambda: told in cabling(controller))
    assert place(controller, "10.0.1.1") == ("leaf1", 1)
    controller.stop()
    Path(path).write_text(yaml.safe_dump(fabric_document(moved)))
    controller.start()
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)


def test_discovery_alone_keeps_hosts_where_they_answer_bounds_floods_and_follows_real_moves(bench: Bench) -> None:
    fabric = clos(2, 2, 2)
    victim, other = fabric.hosts[0], fabric.hosts[2]
    lab = bench.lab(fabric)
    controller = bench.controller("--hosts-per-port", "4", "controller.app")
    lab.wait_connected()
    wait_for_pings(lab)
    controller.wait_for("its rules are on the switches", controller.plan_is_active)
    rules = standing(lambda: {name: len(held(lab, name)) for name in names(fabric)})
    told = f"10.0.1.1 is claimed at leaf2 port 1 by {victim.mac}; it stays at leaf1 port 1"
    with attacker(lab, "h3") as send:
        with lab.pinging([("h2", "h1"), ("h4", "h1"), ("h1", "h4")]) as pings:
            send(1, 0, claim(victim.ip, victim.mac, "10.99.99.99"))
            controller.wait_for("the claim is told", lambda: told in cabling(controller))
            small = memory(controller)
            began = time.monotonic()
            flood = send(1000, 5, "*")
            assert f"actions=meter:{ARP_METER.id},CONTROLLER:128" in lab.ofctl("dump-flows", "leaf2")
            eventually(lambda: sum(metered(lab, "leaf2", ARP_METER.id)) >= flood, "the switch has met all of it")
            passed, _ = metered(lab, "leaf2", ARP_METER.id)
            # The meter goes on while the counters are waited for.
            seconds = time.monotonic() - began
            assert passed <= ARP_METER.per_second * (seconds + 1) + ARP_METER.burst
        assert pings.unanswered == []
        assert memory(controller) - small < 20e6
        assert {name: len(held(lab, name)) for name in names(fabric)} == rules
        assert len(controller.get("/v1/fabric").body["hosts"]) == fabric.n_hosts
        assert place(controller, victim.ip) == ("leaf1", 1)
    # It says nothing of it that reaches the controller: rules deliver what it says.
    _moves(lab, victim, other)
    controller.wait_for("the move is followed", lambda: place(controller, victim.ip) == ("leaf2", 1), 180)
    reached = lab.run("h2", ["ping", "-c", "1", "-W", "2", "-w", "10", victim.ip])
    assert reached.returncode == 0, reached.stdout


def _moves(lab: Lab, what: Host, to: Host) -> None:
    """A host's address goes to another host, and the old one answers for it no more."""
    for name, change in ((what.name, "del"), (to.name, "add")):
        interface = lab.host(name).defaultIntf().name
        done = lab.run(name, ["ip", "addr", change, f"{what.ip}/8", "dev", interface])
        assert done.returncode == 0, done.stderr
    # Its neighbours must ask again.
    for name in ("h2", "h4"):
        lab.run(name, ["ip", "neigh", "flush", "all"])


def without_ports(fabric: Fabric) -> Fabric:
    return dataclasses.replace(fabric, hosts=tuple(dataclasses.replace(h, port=None) for h in fabric.hosts))


def test_a_host_of_which_the_file_names_the_leaf_never_leaves_it(bench: Bench, tmp_path: Path) -> None:
    fabric = clos(2, 2, 2)
    victim = fabric.hosts[0]
    lab = bench.lab(fabric)
    controller = bench.controller("--fabric", fabric_file(without_ports(fabric), tmp_path), "controller.app")
    lab.wait_connected()
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    wait_for_pings(lab)
    with attacker(lab, "h3") as send:
        lab.set_cable("h1-leaf1", False)
        # The attacker's host answers probes for the victim's address, which nobody else does now.
        interface = lab.host("h3").defaultIntf().name
        lab.run("h3", ["ip", "addr", "add", f"{victim.ip}/8", "dev", interface])
        send(1, 0, claim(victim.ip, victim.mac, "10.99.99.99"))
        controller.wait_for(
            "it is told", lambda: any("10.0.1.1 (h1) answers at leaf2" in t for t in cabling(controller))
        )
        assert place(controller, victim.ip) == ("leaf1", 1)
        lab.run("h3", ["ip", "addr", "del", f"{victim.ip}/8", "dev", interface])
        lab.set_cable("h1-leaf1", True)
        eventually(lambda: lab.ping_all([("h2", "h1"), ("h1", "h2")]) == [], "it is reached at its port")
