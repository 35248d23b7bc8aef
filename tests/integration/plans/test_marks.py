"""Packets of planned flows are marked by their class at real switches: in their own header, and in labels."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.priority import CLASSES, DSCP
from controller.model.traffic import FIRST_PORT, Collective, Traffic
from controller.southbound.enforcement.registry import ENFORCEMENTS, compile_rules, encode_flows, rule_enforcements
from controller.southbound.forwarding.leaf_guards import unmetered
from controller.southbound.rules.rule import SetTrafficClass
from emulation.lab import Lab
from tests.rig.bench import Bench
from tests.rig.checks.enforcements import put
from tests.rig.switches.raw_openflow import Talk, talks_with_switches
from tests.rig.waiting import READY_SECONDS, wait_for_pings
from tests.traffic_columns import traffic_of_columns

pytestmark = pytest.mark.switches

BY_FLOW = [
    name for name in rule_enforcements() if ENFORCEMENTS[name].incremental and not ENFORCEMENTS[name].chooses_ports
]
EACH = 5
"""Packets of a flow."""
ECT = 2
"""Bits of congestion notification that senders set, and switches keep."""
ETH_P_ALL = 3

SEND = """
import socket, sys
source, destination, first, flows, each, tos = sys.argv[1:]
for number in range(int(flows)):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, int(tos))
        sender.bind((source, int(first) + number))
        for _ in range(int(each)):
            sender.sendto(b"x" * 100, (destination, 4791))
"""

RECEIVE = """
import collections, json, socket, sys
seen = collections.Counter()
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.IPPROTO_IP, 13, 1)  # IP_RECVTOS
receiver.bind(("", 4791))
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    _, ((_, _, tos),), _, (_, port) = receiver.recvmsg(2048, 64)
    seen[f"{port} {tos[0]}"] += 1
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    return clos(2, 2, 1)


@pytest.fixture
def lab(bench: Bench, fabric: Fabric) -> Lab:
    return bench.lab(fabric)


@pytest.fixture
def talks(lab: Lab, fabric: Fabric) -> Iterator[dict[int, Talk]]:
    with talks_with_switches(lab, fabric) as found:
        yield found


def flows_of_classes(turned: bool) -> Traffic:
    """A flow of each class between two hosts, from neighbouring ports; ``turned``: the classes in the other order."""
    rows = [Collective("job", f"c{each}", priority=CLASSES - 1 - each if turned else each) for each in range(CLASSES)]
    ports = [FIRST_PORT + each for each in range(CLASSES)]
    return traffic_of_columns([0] * CLASSES, [1] * CLASSES, ports, collective=range(CLASSES), collectives=rows)


def received(lab: Lab, fabric: Fabric) -> Counter[tuple[int, int]]:
    """Packets that arrive when each flow sends some, by source port and by type of service."""
    one, other = fabric.hosts
    sink = lab.popen(
        other.name, [sys.executable, "-S", "-c", RECEIVE, str(CLASSES * EACH)], stdout=subprocess.PIPE, text=True
    )
    assert sink.stdout is not None
    assert sink.stdout.readline() == "ready\n"
    sender = [sys.executable, "-S", "-c", SEND, one.ip, other.ip, *map(str, (FIRST_PORT, CLASSES, EACH, ECT))]
    lab.run(one.name, sender)
    output, _ = sink.communicate(timeout=READY_SECONDS)
    counted = [(*map(int, key.split()), count) for key, count in json.loads(output).items()]
    return Counter({(port, tos): count for port, tos, count in counted})


def labels_at(interface: str, lab: Lab, fabric: Fabric) -> Counter[tuple[int, int]]:
    """The traffic classes of the labels, outer and inner, of packets that a port takes in while flows send."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL)) as wire:
        wire.bind((interface, ETH_P_ALL))
        wire.settimeout(READY_SECONDS)
        received(lab, fabric)
        seen: Counter[tuple[int, int]] = Counter()
        while seen.total() < CLASSES * EACH:
            frame, (_, _, kind, *_) = wire.recvfrom(2048)
            if frame[12:14] == b"\x88\x47" and kind != socket.PACKET_OUTGOING:
                seen[frame[16] >> 1 & 7, frame[20] >> 1 & 7] += 1
        return seen


@pytest.mark.parametrize("enforcement", BY_FLOW)
def test_packets_arrive_with_the_dscp_of_their_class_and_their_congestion_bits(
    lab: Lab, fabric: Fabric, talks: dict[int, Talk], enforcement: str
) -> None:
    path = int(fabric.live_paths(0, 1)[0])
    assignment = Assignment.single(np.full(CLASSES, path, dtype=np.int32))
    for turned in (False, True):
        traffic = flows_of_classes(turned)
        rules = compile_rules(enforcement, fabric, traffic, encode_flows(fabric, traffic, assignment, enforcement))
        put(talks, rules)
        for dpid, talk in talks.items():
            assert talk.ours() == unmetered(rules[dpid])
        wait_for_pings(lab)
        assert received(lab, fabric) == {
            (FIRST_PORT + each, DSCP[traffic.collectives[each].priority] << 2 | ECT): EACH for each in range(CLASSES)
        }
    if any(
        isinstance(each, SetTrafficClass)
        for own in rules.switches.values()
        for rule in own.rules.values()
        for each in rule.actions
    ):
        taken = fabric.flow_links(0, 1, path)[1]
        cable = fabric.cables[(taken - fabric.first_cable_link) // 2]
        (port,) = (end for end in lab.wiring.ends(cable.upper) if end.port == cable.upper_port)
        assert labels_at(port.interface, lab, fabric) == {(each, each): EACH for each in range(CLASSES)}
