"""The requirement of enforcements that choose ports: jobs leave the source port of every flow to them."""

from __future__ import annotations

import numpy as np

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.errors import InputError
from controller.model.job import Job
from controller.model.packets.flow_ports import ALL_TCP, flow_ports, is_roce
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.traffic import ANY_PORT
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.workload.expand import JobTraffic


def check_free(job: Job, enforcement: str) -> None:
    """See whether a job leaves its ports to the controller.

    Args:
        job: the job.
        enforcement: the name of the enforcement that requires it.

    Raises:
        InputError: it names one, its ports are unknown, or the enforcement does not support its protocol.
    """
    by_hosts = ENFORCEMENTS.named(enforcement).tcp_by_hosts
    if by_hosts and _is_tcp(job):
        return
    if not job.ports_known:
        reason = f"{enforcement} enforcement requires hosts to send from the ports that the controller assigns"
        raise InputError(reason, field="ports", value="unknown")
    _check_protocols(job, enforcement, by_hosts=by_hosts)
    claims = np.flatnonzero((job.flows.udp_src != ANY_PORT) & ~(by_hosts & (job.flows.udp_src == ALL_TCP)))
    if len(claims):
        reason = f"with {enforcement} enforcement the controller chooses the port: leave it out"
        first = int(claims[0])
        raise InputError(reason, field=f"flows[{first}].udp_src", value=int(job.flows.udp_src[first]))


def _is_tcp(job: Job) -> bool:
    """Return whether all of a job is TCP without ports."""
    protocols = [job.protocol_of(call) for call in job.collectives] or [job.protocol]
    return all(protocol == "tcp" for protocol in protocols) and bool(np.all(job.flows.udp_src == ALL_TCP))


def _check_protocols(job: Job, enforcement: str, *, by_hosts: bool) -> None:
    """Check that all of a job is RoCEv2, whose source ports the controller can choose, or TCP, if hosts do."""
    stated: list[tuple[str, Protocol]] = [("protocol", job.protocol)]
    stated += [(f"collectives[{i}].protocol", job.protocol_of(call)) for i, call in enumerate(job.collectives)]
    stated += [
        (f"flows[{i}].protocol", flow_ports(int(job.flows.udp_src[i])).protocol)
        for i in np.flatnonzero(~is_roce(job.flows.udp_src)).tolist()[:1]
    ]
    supported: tuple[Protocol, ...] = (ROCE, "tcp") if by_hosts else (ROCE,)
    for field, protocol in stated:
        if protocol not in supported:
            names = "RoCEv2 and TCP" if by_hosts else "RoCEv2"
            reason = f"{enforcement} enforcement selects paths by ports that are not stated, for {names} alone"
            raise InputError(reason, field=field, value=protocol)


def own_ports(traffic: JobTraffic, enforcement: str) -> str:
    """Return, in words, why a job cannot be planned under an enforcement that chooses ports; empty: it can be."""
    if traffic.own_port is None:
        return ""
    if traffic.udp_src[traffic.own_port] == ALL_TCP and ENFORCEMENTS.named(enforcement).tcp_by_hosts:
        return ""
    port, flow = int(traffic.udp_src[traffic.own_port]), traffic.flow_id(traffic.own_port)
    if port > MAX_PORT:
        return f"{enforcement} enforcement does not support it: the protocol of {flow} is {flow_ports(port).protocol}"
    what = (
        f"the source port of {flow} is unknown" if port == ANY_PORT else f"it specifies source port {port} for {flow}"
    )
    return f"{enforcement} enforcement does not support it: {what}"
