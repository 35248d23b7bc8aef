"""Link discovery on real switches: forged packets do nothing, silent cables are noticed, the rule for it comes back."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from pathlib import Path

import pytest
from ryu.ofproto import ofproto_v1_3_parser as parser

from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.southbound.discovery.lldp import Seal, head
from controller.southbound.forwarding.base import LISTEN_RULE, compile_base
from emulation.lab import Lab
from tests.fake_switch.refusal import table_full
from tests.rig.bench import Bench
from tests.rig.both_kinds import Setup
from tests.rig.checks.cabling import as_intended, cabling, names, started
from tests.rig.checks.rule_text import held, wanted
from tests.rig.controller import Controller
from tests.rig.waiting import eventually, standing, wait_for_pings

FABRIC = clos(2, 3, 2)
SEND = """
import socket, sys, time
name, frames, rate, seconds = sys.argv[1], [bytes.fromhex(f) for f in sys.argv[2].split(",")], *map(float, sys.argv[3:])
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((name, 0))
end, sent = time.monotonic() + seconds, 0
while time.monotonic() < end:
    raw.send(frames[sent % len(frames)])
    sent += 1
    time.sleep(1 / rate)
"""


def ryus(dpid: int, port: int) -> bytes:
    """A discovery packet as Ryu's own application sends it."""
    chassis = b"\x07dpid:%016x" % dpid
    tlvs = struct.pack("!H", 1 << 9 | len(chassis)) + chassis
    tlvs += struct.pack("!HBI", 2 << 9 | 5, 2, port) + struct.pack("!HH", 3 << 9 | 2, 120) + b"\0\0"
    return (bytes.fromhex("0180c200000e02000000000188cc") + tlvs).ljust(60, b"\0")


def forged(dpid: int, port: int) -> bytes:
    """One of the right form, made with another key."""
    return Seal().frame(head(dpid, port), time.monotonic_ns() // 1000)


def uplink(fabric: Fabric, name: str) -> tuple[str, int]:
    cable = fabric.cables[fabric.cable_names.index(name)]
    assert cable.lower_port is not None
    return cable.lower, cable.lower_port


def metric(controller: Controller, name: str) -> float:
    return sum(
        float(line.split()[-1]) for line in controller.get("/metrics").body.splitlines() if line.startswith(name)
    )


@pytest.mark.switches
@pytest.mark.parametrize("file", [True, False], ids=["file", "discovery"])
def test_forged_discovery_packets_of_a_host_cost_no_ping_and_no_rule(bench: Bench, tmp_path: Path, file: bool) -> None:
    if file:
        lab, controller = started(bench, FABRIC, tmp_path)
        controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    else:
        lab, controller = bench.lab(FABRIC), bench.controller("controller.app")
        lab.wait_connected()
        wait_for_pings(lab)
        controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    before = standing(lambda: {name: held(lab, name) for name in names(FABRIC)})
    spine = FABRIC.spines[0].dpid
    frames = [
        make(dpid, port)
        for make in (ryus, forged)
        for dpid, port in ((spine, 1), (spine, 2), (2, 1), (3, 1), (2, 3), (FABRIC.spines[1].dpid, 1))
    ]
    text = ",".join(frame.hex() for frame in frames)
    with lab.pinging() as pings:
        for rate in (12, 120):
            out = lab.run("h1", [sys.executable, "-c", SEND, lab.host("h1").defaultIntf().name, text, str(rate), "3"])
            assert (out.returncode, out.stderr) == (0, "")
    assert pings.unanswered == []
    assert {name: held(lab, name) for name in names(FABRIC)} == before
    assert cabling(controller) == []
    assert [host["up"] for host in controller.get("/v1/fabric").body["hosts"]] == [True] * 6
    ignored = metric(controller, 'fairspine_discovery_packets_ignored_total{kind="forged"}')
    if file:
        # The leaf drops what its hosts' ports send.
        assert ignored == 0
        return
    told = "forged or foreign discovery packets at leaf1 port 1: ignored"
    eventually(lambda: controller.get("/healthz").body["reasons"] == [told], "it is told")
    # Once a minute.
    assert 1 <= controller.log.read_text().count(told) <= 3
    assert ignored > 30


@pytest.mark.switches
def test_after_the_controller_stood_still_a_cable_that_fails_silently_is_noticed(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, FABRIC, tmp_path)
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    os.kill(controller.pid, signal.SIGSTOP)
    time.sleep(2)
    os.kill(controller.pid, signal.SIGCONT)
    sent = metric(controller, "fairspine_discovery_packets_received_total")
    controller.wait_for(
        "it goes on", lambda: metric(controller, "fairspine_discovery_packets_received_total") > sent + 24
    )
    assert cabling(controller) == []
    leaf, port = uplink(FABRIC, "leaf1-spine1")
    # Its ports stay up.
    lab.ofctl("mod-port", leaf, str(port), "no-receive")
    missing = ["leaf1-spine1 is missing: discovery packets are lost"]
    controller.wait_for("it is noticed", lambda: cabling(controller) == missing)
    eventually(lambda: rules_are(lab, FABRIC.without_links(["leaf1-spine1"])), "nothing is sent over it")
    lab.ofctl("mod-port", leaf, str(port), "receive")
    controller.wait_for("it is used again", lambda: as_intended(controller))


def rules_are(lab: Lab, fabric: Fabric) -> bool:
    rules = compile_base(fabric)
    return all(held(lab, each.name) == wanted(rules[each.dpid]) for each in fabric.switches)


@pytest.mark.switches
def test_a_deleted_rule_for_discovery_comes_back_and_no_cable_is_missed_meanwhile(bench: Bench, tmp_path: Path) -> None:
    lab, controller = started(bench, FABRIC, tmp_path, "--readback-seconds", "9")
    controller.wait_for("the cabling is as intended", lambda: as_intended(controller))
    seen: list[str] = []

    def back() -> bool:
        seen.extend(cabling(controller))
        return "88cc" in lab.ofctl("dump-flows", "leaf1")

    lab.ofctl("del-flows", "leaf1", "dl_type=0x88cc")
    repaired = 'fairspine_rules_repaired_total{switch="leaf1"}'
    eventually(lambda: back() and metric(controller, repaired) > 0, "the rule is back")
    assert seen == []
    controller.wait_for("all is well", controller.is_well)


def test_a_rule_for_discovery_that_was_refused_once_is_put_again(setup: Setup) -> None:
    controller, address = setup.controller(FABRIC)
    fakes = setup.fakes(FABRIC, address)
    fakes.refuse_next("leaf1", parser.OFPFlowMod, table_full())
    fakes.wait_connected()
    controller.wait_for("all is well", controller.is_well)
    assert LISTEN_RULE.key in fakes.rules("leaf1").rules
    assert controller.get("/v1/fabric").body["cabling"]["findings"] == []
