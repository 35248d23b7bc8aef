"""What works at hosts that carry out plans, for ``fairspine doctor --hosts``: pure functions of what agents report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controller.cli.local.machine_checks import CheckState

NOT_KNOWN = "unknown"
OLD_SECONDS = 60.0
"""Since an agent was heard; agents report at least every few tens of seconds."""


@dataclass(frozen=True)
class HostCheck:
    """What works at a host; what nothing reports is ``unknown``.

    Attributes:
        host: its name.
        state: the worst of all.
        agent: since when it was heard.
        icmp: whether routers answer its probes for source ports, or samples show paths in place of answers.
        ports: what is known of the source ports of its flows.
        shim: whether a program has the library that sets ports of queue pairs, by the queue pairs that it has told.
        device: its RDMA devices.
        hash: whether the routers' hash was seen to be linear.
        mend: what to do, empty if nothing is to be done.
    """

    host: str
    state: CheckState
    agent: str
    icmp: str
    ports: str
    shim: str
    device: str
    hash: str
    mend: str = ""


def host_check(row: Mapping[str, Any]) -> HostCheck:
    """Judge a row of ``GET /v1/hosts``."""
    heard, ports = row["heard_seconds"], row.get("ports")
    state, mend = CheckState.OK, ""
    if heard is None:
        agent = "not heard"
        if row["takes_part"]:
            state, mend = CheckState.PROBLEM, "start its agent, and see whether it reaches the controller"
    else:
        agent = f"heard {heard:.1f} s ago"
        if heard > OLD_SECONDS:
            state, mend = CheckState.WARNING, "see whether its agent runs and reaches the controller"
    if ports is None:
        return HostCheck(row["host"], state, agent, *(NOT_KNOWN,) * 5, mend)
    icmp, flows = _icmp(ports), f"{ports['state']}, {ports['known']} of {ports['planned']}"
    if state is CheckState.OK:
        state, mend = _of_ports(ports)
    seen = str(ports.get("hash") or NOT_KNOWN)
    return HostCheck(row["host"], state, agent, icmp, flows, _shim(ports), _device(ports), seen, mend)


def _shim(ports: Mapping[str, Any]) -> str:
    qps = ports.get("qps")
    if qps is None:
        return NOT_KNOWN
    return f"{ports.get('planned_qps')} of {qps} queue pairs planned" if qps else "no queue pair open"


def _device(ports: Mapping[str, Any]) -> str:
    devices = ports.get("devices")
    return NOT_KNOWN if devices is None else ", ".join(devices) or "none"


def _icmp(ports: Mapping[str, Any]) -> str:
    sent, unanswered = ports["probes"], ports["unanswered"]
    if not sent:
        return NOT_KNOWN
    if ports.get("sampled"):
        return f"samples show {ports['sampled']} of {ports['planned']}"
    return "silent" if unanswered >= sent else f"{sent - unanswered} of {sent} answered"


def _of_ports(ports: Mapping[str, Any]) -> tuple[CheckState, str]:
    if ports["probes"] and ports["unanswered"] >= ports["probes"] and not ports.get("sampled"):
        return CheckState.PROBLEM, "let routers send ICMP time exceeded or samples, or use another enforcement"
    if ports["state"] == "drifted":
        return CheckState.WARNING, "wait: its agent finds other ports"
    if ports["unreachable"]:
        return CheckState.WARNING, "give routers of each layer a hash seed of their own"
    if ports["state"] == "unknown":
        return CheckState.WARNING, "see in /healthz which routers do not answer"
    return CheckState.OK, ""
