"""Rules put on switches without a controller, and the links that packets take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.forwarding.leaf_guards import unmetered
from controller.southbound.openflow.enforcing import messages
from controller.southbound.rules.rule_set import EMPTY, RuleSet, difference
from emulation.lab import Lab
from tests.fake_switch.decode import PROTOCOL
from tests.rig.switches.raw_openflow import Talk
from tests.rig.waiting import READY_SECONDS

PACKETS = 20


SEND = """
import socket, sys, time
for line in sys.stdin:
    source, destination, port = line.split()
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((source, int(port)))
    for number in range(int(sys.argv[1])):
        # One as large as RoCE's are; buffers must hold the rest while a busy machine runs something else.
        s.sendto(b"x" * (100 if number else 4096), (destination, 4791))
        time.sleep(0.001)
    s.close()
"""


COUNT = """
import collections, json, socket, sys
seen = collections.Counter()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE
s.bind(("", 4791))
print("ready", flush=True)
for _ in range(int(sys.argv[1])):
    _, (address, port) = s.recvfrom(9000)
    seen[f"{address} {port}"] += 1
s.settimeout(0.5)
try:
    while True:
        _, (address, port) = s.recvfrom(9000)
        seen[f"{address} {port}"] += 1
except TimeoutError:
    pass
print(json.dumps(seen))
"""


def put(talks: dict[int, Talk], rules: RuleSet) -> None:
    """Make the switches hold these rules."""
    for dpid, talk in talks.items():
        talk.clear()
        changes = difference(EMPTY, unmetered(rules[dpid]))
        groups = [messages.put_group(PROTOCOL, group) for group in changes.new_groups]
        assert talk.say([*groups, *(messages.put_rule(PROTOCOL, rule, 1) for rule in changes.put_rules)]) == []


def link_packets(lab: Lab, fabric: Fabric) -> Counter[str]:
    """Packets that have left switches by each link between them."""
    counters = {switch.name: lab.port_counters(switch.name) for switch in fabric.switches}
    seen: Counter[str] = Counter()
    for cable, up in zip(fabric.cables, fabric.link_ids[fabric.first_cable_link :: 2], strict=True):
        number = up.partition(":")[1] + up.partition(":")[2]
        assert cable.lower_port is not None
        assert cable.upper_port is not None
        seen[up] = counters[cable.lower][cable.lower_port].tx_packets
        seen[f"{cable.upper}->{cable.lower}{number}"] = counters[cable.upper][cable.upper_port].tx_packets
    return seen


def sent(lab: Lab, fabric: Fabric, traffic: Traffic, wire: FlowEncoding) -> Counter[tuple[str, str]]:
    """Send PACKETS RoCE packets on every row of the wire; what each host has received, by address and port.

    Each host waits for as many packets as were sent to it, and counts what comes besides for half a second more.
    """
    expected = Counter(address for address, _ in wanted(fabric, traffic, wire).elements())
    sinks = {
        host.name: lab.popen(
            host.name, [sys.executable, "-S", "-c", COUNT, str(expected[host.ip])], stdout=subprocess.PIPE, text=True
        )
        for host in fabric.hosts
    }
    for sink in sinks.values():
        assert sink.stdout is not None
        assert sink.stdout.readline() == "ready\n"
    lines: dict[str, list[str]] = {host.name: [] for host in fabric.hosts}
    for flow, port in zip(wire.flow.tolist(), wire.udp_src.tolist(), strict=True):
        source, target = fabric.hosts[traffic.src[flow]], fabric.hosts[traffic.dst[flow]]
        lines[source.name].append(f"{source.ip} {target.ip} {port}")
    senders = [
        lab.popen(name, [sys.executable, "-S", "-c", SEND, str(PACKETS)], stdin=subprocess.PIPE, text=True)
        for name in lines
    ]
    for sender, own in zip(senders, lines.values(), strict=True):
        sender.communicate("\n".join(own), timeout=READY_SECONDS)
    received: Counter[tuple[str, str]] = Counter()
    for host in fabric.hosts:
        output, _ = sinks[host.name].communicate(timeout=READY_SECONDS)
        received.update({(host.ip, source): count for source, count in json.loads(output).items()})
    return received


def wanted(fabric: Fabric, traffic: Traffic, wire: FlowEncoding) -> Counter[tuple[str, str]]:
    return Counter(
        {
            (fabric.hosts[traffic.dst[flow]].ip, f"{fabric.hosts[traffic.src[flow]].ip} {port}"): PACKETS
            for flow, port in zip(wire.flow.tolist(), wire.udp_src.tolist(), strict=True)
        }
    )
