"""What hosts check where routers carry out plans by a configuration that the controller does not see.

The port and the address of each flow say its path there. A port agent probes them, as it does those that it finds
itself (``probed_port.py``), and reports over which path each leads: it cannot choose others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric, IntArray
from controller.model.paces import paces_by_key
from controller.model.packets.flow_ports import is_roce
from controller.model.traffic import ANY_PORT, FIRST_PORT, Traffic
from controller.southbound.enforcement.base import Enforcement, OptionValues, RuleInputs
from controller.southbound.enforcement.flow_encoding import FlowEncoding
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS, HostContent, HostPlans, not_compared
from controller.southbound.enforcement.learned_ports import LearnedPort, LearnedPorts
from controller.southbound.enforcement.probe_limits import CheckedPath, ProbeLimits, probe_limits, to_last_leaf
from controller.southbound.probed_ports.port_maps import map_name
from controller.southbound.probed_ports.probe_routes import check_probes
from controller.southbound.probed_ports.probe_tasks import AskedPair, task_document
from controller.southbound.report_rate import report_seconds


class _Flow(NamedTuple):
    """A flow that a host sends: the receiver, the address and the source port of its packets."""

    dst: int
    address: str
    port: int


CheckedPaths = Mapping[_Flow, int]
"""The path of each flow of a host to another leaf."""


def checked_plans(chosen: Enforcement, inputs: RuleInputs) -> HostPlans:
    """Return what hosts check of a plan; nothing on fabrics whose paths probes cannot tell apart.

    Args:
        chosen: the enforcement that has made the encoding.
        inputs: the plan.
    """
    fabric, traffic, encoding = inputs.fabric, inputs.traffic, inputs.encoding
    try:
        check_probes(fabric, last_leaf=to_last_leaf(inputs.options))
    except InputError:
        return NO_HOST_PLANS
    rows = np.flatnonzero(encoding.path >= 0)
    flow = encoding.flow[rows]
    shown = _shown_ports(encoding.udp_src[rows])
    columns = traffic.src[flow], traffic.dst[flow], shown, encoding.path[rows]
    sent: dict[int, dict[_Flow, int]] = defaultdict(dict)
    keys: list[tuple[int, _Flow]] = []
    for src, dst, port, path in zip(*(column.tolist() for column in columns), strict=True):
        address = chosen.destination(fabric, dst, path, inputs.options) or fabric.hosts[dst].ip
        keys.append((src, _Flow(dst, address, port)))
        sent[src].setdefault(keys[-1][1], path)
    paces = paces_by_key(inputs.paces, zip(rows.tolist(), keys, strict=True))
    paths = (CheckedPath(src, each.dst, path) for src, flows in sent.items() for each, path in flows.items())
    limits = probe_limits(fabric, inputs.options, paths, len(sent))
    return HostPlans(fabric, frozenset(sent), _Checks(fabric, sent, paces, limits), form="ports", checks=True)


def _shown_ports(ports: IntArray) -> IntArray:
    """Return the ports that are probed: what has no port of RoCE is told apart by its address, whatever the port."""
    return np.where(is_roce(ports) & (ports != ANY_PORT), ports, FIRST_PORT)


def checked_rows(
    chosen: Enforcement,
    fabric: Fabric,
    traffic: Traffic,
    wire: FlowEncoding,
    learned: LearnedPorts,
    options: OptionValues,
) -> Sequence[LearnedPort | None]:
    """Return what hosts have seen of each row; ``None``: it has no path between leaves.

    Args:
        chosen: the enforcement that has made the rows.
        fabric: the fabric.
        traffic: the flows.
        wire: the rows.
        learned: what hosts have reported.
        options: of the enforcement.
    """
    columns = traffic.src[wire.flow], traffic.dst[wire.flow], _shown_ports(wire.udp_src), wire.path
    rows: list[LearnedPort | None] = []
    for src, dst, port, path in zip(*(column.tolist() for column in columns), strict=True):
        if path < 0:
            rows.append(None)
            continue
        address = chosen.destination(fabric, dst, path, options) or fabric.hosts[dst].ip
        rows.append(learned.get(fabric.hosts[src].name, {}).get((address, port), LearnedPort(port)))
    return rows


@dataclass(frozen=True)
class _Checks:
    """A ``HostContent``: which ports a host is to check."""

    fabric: Fabric
    sent: Mapping[int, CheckedPaths]
    paces: Mapping[tuple[int, _Flow], float | None]
    limits: ProbeLimits

    def __call__(self, host: int, known: str = "", *, by_table: bool = False) -> Mapping[str, Any]:
        flows, fabric = self.sent.get(host, {}), self.fabric
        ports: dict[tuple[int, str], dict[int, int]] = defaultdict(dict)
        for each, path in flows.items():
            ports[each.dst, each.address][each.port] = path
        leaf = int(fabric.host_leaf[host])
        asked = [
            AskedPair(dst, address, Counter(of.values()), map_name(fabric, leaf, int(fabric.host_leaf[dst])), of)
            for (dst, address), of in ports.items()
        ]
        return {
            **task_document(fabric, host, asked, self.limits.budget, last_leaf=self.limits.last_leaf),
            "flows": [
                {"dst": each.address, "number": each.port, "path": path, "wire_gbps": self.paces[host, each]}
                for each, path in flows.items()
            ],
            "connections": [],
            "check_seconds": self.limits.check_seconds,
            "report_seconds": report_seconds(fabric),
            "samples": self.limits.samples,
            "given": True,
        }

    def table(self, host: int) -> bytes:
        raise InputError("has no table of hosts", field="enforcement", value="")

    def unchanged(self, before: HostContent) -> Callable[[int], bool]:
        return not_compared
