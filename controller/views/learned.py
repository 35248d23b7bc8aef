"""Documents of learned jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from ipaddress import IPv4Address
from typing import Any

import numpy as np
import orjson

from controller.core.controller_state import ControllerState
from controller.core.learned_trial import LearnedSpeeds
from controller.core.ports.host_agents import AgentState
from controller.learning.acting import FlowIdentity
from controller.learning.learned_job import LearnedJob
from controller.learning.life import expires
from controller.learning.qp_ports import OpenQp, OpenQps
from controller.model.fabric import Fabric
from controller.model.packets.flow_ports import port_code
from controller.model.traffic import Traffic
from controller.model.units import GBIT
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.views.times import when


def host_finder(fabric: Fabric | None) -> Callable[[int], str | None]:
    """Return a function from an address, as a number of ``address_finder``, to the name of the host that has it."""
    known = {} if fabric is None else dict(zip(_numbers(fabric), fabric.host_names, strict=True))
    return known.get


def address_finder(fabric: Fabric) -> Callable[[str], int | None]:
    """Return a function from a host's name or IP address to an integer that stands for it.

    A port of a bond is known by its name alone: a packet tells no more than the address, which is not enough to know
    the port. Its number is above those of all IPv4 addresses, and so is the one that stands for an IPv6 address.
    """
    known = dict(zip(fabric.host_names, _numbers(fabric), strict=True))
    alone = [host for host, shared in zip(fabric.hosts, _are_shared(fabric), strict=True) if not shared]
    by_address = {host.ip: known[host.name] for host in alone}
    return lambda text: known.get(text, by_address.get(text))


def nic_speeds(fabric: Fabric | None) -> Callable[[int], float]:
    """Return a function from an address, as a number of ``address_finder``, to the bytes a second of its NIC.

    Of an address that no host has, nothing is known: infinite.
    """
    hosts = () if fabric is None else zip(_numbers(fabric), fabric.hosts, strict=True)
    known = {number: host.gbps / GBIT for number, host in hosts}
    return lambda number: known.get(number, math.inf)


def open_qps(fabric: Fabric, states: Iterable[AgentState]) -> OpenQps:
    """Return the QPs that programs of hosts have open, as agents that are heard have reported them.

    One that has the port of a planned flow is known by the number of that flow, which stays when the port changes.
    """
    address = address_finder(fabric)
    known: dict[tuple[int, int], list[OpenQp]] = defaultdict(list)
    for state in states:
        ports = None if state.silent or state.report is None else state.report.ports
        src = address(state.host)
        if ports is None or src is None:
            continue
        for each in ports.qps or ():
            if (dst := address(each.dst)) is not None:
                known[src, dst].append(OpenQp(each.remote_qp, each.number or each.port, each.port))
    return known


_ADDRESSES = 1 << 32


def _numbers(fabric: Fabric) -> list[int]:
    shared, plane, planes = _are_shared(fabric), fabric.planes.of_host.tolist(), fabric.planes.count
    return [
        _ADDRESSES * (1 + planes) + i
        if host.ip_version == 6
        else int(IPv4Address(host.ip)) + (_ADDRESSES * (1 + plane[i]) if shared[i] else 0)
        for i, host in enumerate(fabric.hosts)
    ]


def _are_shared(fabric: Fabric) -> list[bool]:
    """Return [H] whether another port of a bond has the address of a host, too."""
    address = fabric.planes.address
    shared: list[bool] = (np.bincount(address, minlength=fabric.n_hosts)[address] > 1).tolist()
    return shared


def flow_identities(fabric: Fabric, traffic: Traffic) -> frozenset[FlowIdentity]:
    """Return flows as packets show them; the port is ``ANY_PORT`` if a flow is all that its hosts send."""
    address = address_finder(fabric)
    by_host = [address(host.name) or 0 for host in fabric.hosts]
    rows = zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True)
    return frozenset((by_host[src], by_host[dst], port) for src, dst, port in rows)


def planned_flows(job: LearnedJob, planned: Collection[FlowIdentity]) -> int:
    """Return how many QPs of a job have a flow among the planned ones, whichever job that is of.

    Names do not tell: who sends to whom gives a learned job its name, so a job that has lost a QP has another name than
    the one that was planned.
    """
    of_pair = port_code(job.protocol)
    return sum(key[:3] in planned or (key.src, key.dst, of_pair) in planned for key in job.qps)


def summary(job: LearnedJob, planned: Collection[FlowIdentity], speeds: LearnedSpeeds | None) -> dict[str, Any]:
    """Return what lists tell of a learned job; ``planned``: the flows in the plan."""
    flows, of_plan = len(job.qps), planned_flows(job, planned)
    return {
        "name": job.name,
        "hosts": len({address for key in job.qps for address in (key.src, key.dst)}),
        "flows": flows,
        "bytes": sum(sum(group.bytes) for group in job.groups),
        "period_seconds": job.period_seconds or None,
        "iterations": job.iterations,
        "confidence": round(job.confidence, 3),
        "planned": of_plan == flows,
        "planned_flows": of_plan,
        "hashed_speed": None if speeds is None else speeds.hashed_speed,
        "planned_speed": None if speeds is None else speeds.planned_speed,
        "seen": when(job.seen),
        "expires": when(expires(job)),
        "groups": [
            {
                "shape": group.shape,
                "phase": group.phase,
                "flows": len(group.qps),
                "hosts": len({address for key in group.qps for address in (key.src, key.dst)}),
                "bytes": group.bytes[0],
            }
            for group in job.groups
        ],
    }


def learned_list(
    learning: str,
    qps: int,
    ignored: int,
    jobs: Collection[LearnedJob],
    state: ControllerState,
    speeds: Mapping[str, LearnedSpeeds],
) -> bytes:
    """Return the list of learned jobs; ``speeds`` are theirs by name, as far as they are known."""
    planned = _planned(jobs, state)
    rows = [summary(job, planned, speeds.get(job.name)) for job in jobs]
    return orjson.dumps({"learning": learning, "qps": qps, "ignored": ignored, "jobs": rows})


def learned_document(job: LearnedJob, state: ControllerState, speeds: Mapping[str, LearnedSpeeds]) -> bytes:
    """Return a learned job with the document that would be pushed for it."""
    listed = summary(job, _planned([job], state), speeds.get(job.name))
    return orjson.dumps({"summary": listed, "job": job_document(job, state.fabric, state.desired.enforcement)})


def job_document(job: LearnedJob, fabric: Fabric | None, enforcement: str) -> dict[str, Any]:
    """Return the document that is pushed for a learned job.

    Where agents give QPs the ports of their flows, these are not stated: they are any that lead over planned paths.
    """
    return job.document(host_finder(fabric), states_ports=not ENFORCEMENTS.named(enforcement).learns_ports)


def _planned(jobs: Collection[LearnedJob], state: ControllerState) -> frozenset[FlowIdentity]:
    """Return the flows in the plan of a state, if anybody asks for them."""
    if state.fabric is None or not jobs:
        return frozenset()
    return flow_identities(state.fabric, state.traffic)
