"""The flows that leaves forward at present, with their bytes: the exact-match entries of Open vSwitch's flow cache.

A leaf that hashes a flow has no rule for it, but its flow cache has an entry, since the hash reads all fields of the
5-tuple; so has a flow that a rule of its own forwards. It is what Hedera's edge switches have: an entry for each flow,
put when its first packet was hashed, with counters (Al-Fares et al., NSDI 2010). In Open vSwitch, counters of rules are
up to a second late; these are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from controller.model.packets.port_numbers import ROCE_PORT
from emulation.experiments.learned.learned_truth import Edge
from emulation.lab import Lab

_ENTRY = re.compile(
    r"in_port\((?P<port>\w+)\).*?ipv4\(src=(?P<src>[\d.]+),dst=(?P<dst>[\d.]+),proto=17\b.*?"
    rf"udp\(src=(?P<udp_src>\d+),dst={ROCE_PORT}\), packets:\d+, bytes:(?P<bytes>\d+),"
)
_PORT = re.compile(r"port (\d+): (\S+)")


def parse_entries(text: str, first: Mapping[str, str]) -> dict[tuple[str, str, int], int]:
    """Return the bytes of each flow of RoCEv2: (source address, destination address, UDP source port).

    Args:
        text: output of ``ovs-appctl dpctl/dump-flows``.
        first: address of the host at each datapath port that has one. Other ports, between switches, count the same
            packets again; so do packets of other hosts' addresses.
    """
    byte_counts: dict[tuple[str, str, int], int] = {}
    for line in text.splitlines():
        entry = _ENTRY.search(line)
        if entry is None or first.get(entry["port"]) != entry["src"]:
            continue
        flow = entry["src"], entry["dst"], int(entry["udp_src"])
        byte_counts[flow] = byte_counts.get(flow, 0) + int(entry["bytes"])
    return byte_counts


class FlowCache:
    """Reads the flow cache of all leaves of a lab, which one process keeps."""

    def __init__(self, lab: Lab) -> None:
        """Look up the ports of hosts."""
        self._lab = lab
        self._host = {station.ip: station.name for station in lab.wiring.hosts}
        number = {name: port for port, name in _PORT.findall(lab.ovs.appctl("dpctl/show"))}
        address = {station.name: station.ip for station in lab.wiring.hosts}
        self._first = {
            number[wire.b.interface]: address[wire.a.node] for wire in lab.wiring.wires if wire.a.node in address
        }

    def read(self) -> dict[Edge, int]:
        """Return the bytes that each flow has sent since its entry was made; entries end after some idle seconds."""
        text = self._lab.ovs.appctl("dpctl/dump-flows")
        return {
            (self._host[src], self._host[dst], port): size
            for (src, dst, port), size in parse_entries(text, self._first).items()
            if dst in self._host
        }
