"""``probed_port`` enforcement: routers hash the 5-tuple, and hosts know which source ports lead over which paths.

Nothing is configured at a router. An agent on each host learns the ports by hop-limited probes
(``controller/southbound/probed_ports``), reports them, and checks them for as long as they are in use. The encoding has
the number of each flow among those of its two hosts, under which the agent reports the port. All TCP that one host
sends another has one path: the agent finds a source port for each connection when a program makes it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.paces import paces_by_key
from controller.model.packets.flow_ports import ALL_TCP, flow_ports, is_roce
from controller.model.traffic import ANY_PORT, Traffic
from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import FlowEncoding, kept_ports
from controller.southbound.enforcement.host_plans import HostContent, HostPlans, not_compared
from controller.southbound.enforcement.probe_limits import (
    PROBE_OPTIONS,
    CheckedPath,
    ProbeLimits,
    probe_limits,
    to_last_leaf,
)
from controller.southbound.enforcement.routers_only import check_routers, is_no_rule, no_rules
from controller.southbound.probed_ports.probe_routes import check_probes
from controller.southbound.probed_ports.probe_tasks import probe_document
from controller.southbound.report_rate import report_seconds

NAME = "probed_port"


class TcpPaths(NamedTuple):
    """The TCP connections between a host and another one, whichever of them connects.

    Attributes:
        path: of what the host sends; ``None``: any.
        comes_back: whether a path is planned for what the other one sends.
    """

    path: int | None = None
    comes_back: bool = False


class SentTo(NamedTuple):
    """Packets from one host to another: the numbers of both, and that of the flow, ``ALL_TCP`` for all of TCP."""

    src: int
    dst: int
    number: int


NO_TCP_PATHS = TcpPaths()

FlowPaths = Mapping[tuple[int, int], int]
"""The path of each flow that a host sends to other leaves, by receiver and number."""


def check(fabric: Fabric, options: OptionValues) -> None:
    """See whether probes can tell the paths of a fabric apart.

    Raises:
        InputError: a switch speaks OpenFlow, or ``check_probes`` refuses the fabric.
    """
    check_routers(fabric, "that hash the 5-tuple")
    check_probes(fabric, last_leaf=to_last_leaf(options))


def encode(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> FlowEncoding:
    """Return the numbers of flows and pieces, as ports.

    Raises:
        InputError: two hosts have more flows than there are ports for them; the port of a RoCEv2 flow is unknown; or
            another flow is not TCP, or states a port, or is of IPv6 hosts.
    """
    outside = np.flatnonzero((traffic.udp_src == ANY_PORT) | ~(is_roce(traffic.udp_src) | (traffic.udp_src == ALL_TCP)))
    if len(outside):
        flow, stated = int(outside[0]), int(traffic.udp_src[outside[0]])
        protocol = flow_ports(stated).protocol
        what = "port is stated" if protocol == "tcp" else f"protocol is {protocol}"
        what = "source port is unknown" if stated == ANY_PORT else what
        raise InputError(f"its {what}, so {NAME} enforcement does not support it", field=traffic.flow_id(flow))
    of_tcp = np.flatnonzero(np.isin(traffic.src, fabric.ipv6_hosts) & (traffic.udp_src == ALL_TCP))
    if len(of_tcp):
        flow = int(of_tcp[0])
        host = fabric.hosts[int(traffic.src[flow])]
        reason = f"{host.name} has an IPv6 address, and {NAME} enforcement gives ports to TCP of IPv4 hosts alone"
        raise InputError(reason, field=traffic.flow_id(flow), value=host.ip)
    return kept_ports(fabric, traffic, assignment)


def host_plans(inputs: RuleInputs) -> HostPlans:
    """Return for which paths hosts are to find ports."""
    fabric, traffic, encoding = inputs.fabric, inputs.traffic, inputs.encoding
    rows = np.flatnonzero(encoding.path >= 0)
    flow = encoding.flow[rows]
    columns = traffic.src[flow], traffic.dst[flow], encoding.udp_src[rows], encoding.path[rows]
    sent: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    connected: dict[int, dict[int, TcpPaths]] = defaultdict(dict)
    keys = [SentTo(src, dst, number) for src, dst, number, _ in zip(*(each.tolist() for each in columns), strict=True)]
    paces = paces_by_key(inputs.paces, zip(rows.tolist(), keys, strict=True))
    for (src, dst, number), path in zip(keys, columns[-1].tolist(), strict=True):
        if number == ALL_TCP:
            there, back = connected[src].get(dst, NO_TCP_PATHS), connected[dst].get(src, NO_TCP_PATHS)
            connected[src][dst] = there._replace(path=path if there.path is None else there.path)
            connected[dst][src] = back._replace(comes_back=True)
        else:
            # Flows that no packet shows to be two have one path.
            sent[src].setdefault((dst, number), path)
    # All hosts may search at the same time.
    hosts = frozenset(sent) | frozenset(connected)
    paths = (CheckedPath(src, dst, path) for src, flows in sent.items() for (dst, _), path in flows.items())
    limits = probe_limits(fabric, inputs.options, paths, len(hosts))
    return HostPlans(fabric, hosts, _Content(fabric, sent, connected, paces, limits), form="ports")


@dataclass(frozen=True)
class _Content:
    """A ``HostContent``: for which paths a host is to find ports."""

    fabric: Fabric
    sent: Mapping[int, FlowPaths]
    connected: Mapping[int, Mapping[int, TcpPaths]]
    paces: Mapping[SentTo, float | None]
    limits: ProbeLimits

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        flows, connected = self.sent.get(host, {}), self.connected.get(host, {})
        # Routes are told for all of them; ports of connections are searched when programs make these.
        wanted: dict[int, Counter[int]] = defaultdict(Counter, {dst: Counter() for dst in connected})
        for (dst, _), path in flows.items():
            wanted[dst][path] += 1
        return {
            **probe_document(self.fabric, host, wanted, self.limits.budget, last_leaf=self.limits.last_leaf),
            "flows": [
                {
                    "dst": self.fabric.hosts[dst].ip,
                    "number": number,
                    "path": path,
                    "wire_gbps": self.paces[SentTo(host, dst, number)],
                }
                for (dst, number), path in flows.items()
            ],
            "connections": [
                {
                    "dst": self.fabric.hosts[dst].ip,
                    **each._asdict(),
                    "wire_gbps": self.paces.get(SentTo(host, dst, ALL_TCP)),
                }
                for dst, each in sorted(connected.items())
            ],
            "check_seconds": self.limits.check_seconds,
            "report_seconds": report_seconds(self.fabric),
            "samples": self.limits.samples,
        }

    def table(self, host: int) -> bytes:
        raise InputError("has no table of hosts", field="enforcement", value=NAME)

    def unchanged(self, before: HostContent) -> Callable[[int], bool]:
        return not_compared


ENFORCEMENT = Enforcement(
    NAME,
    "the UDP source port of each flow, by the routers' own hash, which the host's agent has probed",
    hosts="run the port agent, use the source port of /v1/routes, and change it when a flow moves",
    encode=encode,
    compile=no_rules,
    is_planned=is_no_rule,
    check=check,
    carries_ipv6=True,
    options=PROBE_OPTIONS,
    chooses_ports=True,
    tcp_by_hosts=True,
    watchable=False,
    host_plans=host_plans,
    learns_ports=True,
)
