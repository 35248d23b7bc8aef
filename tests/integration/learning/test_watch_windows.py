"""Watch windows on Open vSwitch: leaves show and count RoCE flows, forward as before, and a flood ends the window."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from controller.learning.sightings import QpKey
from controller.model.files.clos import clos
from controller.southbound.forwarding.base import compile_base
from controller.southbound.openflow.connections.connection_context import WATCHED_PER_SECOND
from controller.southbound.rollout.watch_rules import COUNTING, WATCH
from controller.southbound.rules.rule import WATCH_PREFIX
from emulation.tables import FlowEntry
from tests.rig.bench import Bench
from tests.rig.both_kinds import Bridges, Setup
from tests.rig.checks.fakes import settled
from tests.rig.controller import Controller
from tests.rig.hosts.attacker import attacker
from tests.rig.waiting import eventually, wait_for_pings
from tests.unit.learning.sflow_packets import write_frame

pytestmark = pytest.mark.switches

FABRIC = clos(leaves=3, spines=2, hosts_per_leaf=1)
FLOODS = 15
"""Flows that begin one after the other."""
RATE = 10 * WATCHED_PER_SECOND
"""Packets a second: ten times as many as the controller takes."""


@pytest.fixture
def watched(bench: Bench, tmp_path: Path) -> Iterator[tuple[Bridges, Controller]]:
    setup = Setup(bench, tmp_path)
    controller, address = setup.controller(FABRIC, "--learning-watch", "on")
    lab = setup.switches("open_vswitch", FABRIC, address)
    assert isinstance(lab, Bridges)
    lab.wait_connected()
    settled(controller)
    wait_for_pings(lab)
    yield lab, controller
    setup.close()


def of_windows(lab: Bridges, priority: int) -> list[FlowEntry]:
    names = [leaf.name for leaf in FABRIC.leaves]
    found = [flow for name in names for flow in lab.flows(name) if flow.cookie >> 48 == WATCH_PREFIX]
    return [flow for flow in found if flow.priority == priority]


def frame(port: int = 50000, src: int = 0, dst: int = 1) -> str:
    a, b = (int(IPv4Address(FABRIC.hosts[i].ip)) for i in (src, dst))
    return write_frame(QpKey(a, b, port, 17), 5, 1024).hex()


def sightings(controller: Controller) -> float:
    lines = controller.get("/metrics").body.splitlines()
    return sum(float(line.split()[1]) for line in lines if line.startswith('fairspine_sightings_total{feeder="watch"'))


def test_a_flow_is_counted_and_nothing_else_changes_until_learning_is_off(
    watched: tuple[Bridges, Controller],
) -> None:
    lab, controller = watched
    with attacker(lab, "h1") as send, ThreadPoolExecutor(1) as beside:
        sending = beside.submit(send, 50, 8, frame())
        eventually(lambda: bool(of_windows(lab, COUNTING)), "the flow has a counting rule")
        sent = sending.result()
    (rule,) = of_windows(lab, COUNTING)
    assert "tp_src=50000" in rule.match
    # Up to the window its packets were counted by the watch rule; each reached the other host, or was on its way.
    eventually(lambda: 0 < of_windows(lab, COUNTING)[0].packets <= sent, "it has counted the flow")
    eventually(lambda: sightings(controller) > 1, "learning sees what it has counted")
    assert lab.held() == compile_base(FABRIC)
    controller.wait_for("all is well", controller.is_well)
    wait_for_pings(lab)
    # One uplink fewer: the rules of windows are copies of former ones, and go before those change.
    lab.set_cable("leaf1-spine1", False)
    (port,) = [cable.lower_port for cable in FABRIC.cables if (cable.lower, cable.upper) == ("leaf1", "spine2")]

    def follows() -> bool:
        counting = of_windows(lab, COUNTING)
        return len(counting) == 1 and str(port) in counting[0].actions and "bundle" not in counting[0].actions

    eventually(follows, "the counting rule follows the base rules")
    assert controller.put("/v1/learning", {"learning": "off"}).status == 200
    eventually(lambda: not of_windows(lab, COUNTING) + of_windows(lab, WATCH), "all of it is gone")
    assert controller.get("/v1/learned").body["jobs"] == []


def test_a_burst_of_new_flows_costs_no_packet_and_no_cable(watched: tuple[Bridges, Controller]) -> None:
    lab, controller = watched
    target = lab.host("h2").defaultIntf().name
    before = _received(lab, "h2", target)
    with attacker(lab, "h1") as send:
        sent = 0
        # Each port is another flow, which no rule counts yet: every packet in a window comes to the controller.
        for port in range(50000, 50000 + FLOODS):
            sent += send(RATE, 0.1, frame(port))
            assert controller.get("/healthz").status == 200
    eventually(lambda: _received(lab, "h2", target) - before >= sent, "every packet has arrived")
    controller.wait_for("all is well", controller.is_well)
    assert controller.get("/v1/links").body["links"]
    assert all(link["up"] for link in controller.get("/v1/links").body["links"])
    assert lab.held() == compile_base(FABRIC)


def _received(lab: Bridges, host: str, interface: str) -> int:
    return int(lab.host(host).cmd(f"cat /sys/class/net/{interface}/statistics/rx_packets"))
