"""The requirement of enforcements that choose ports: jobs leave the UDP source port of every flow to the controller."""

from __future__ import annotations

import numpy as np

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.errors import InputError
from controller.model.job import Job
from controller.model.packets.flow_ports import flow_ports, is_roce
from controller.model.packets.port_numbers import MAX_PORT
from controller.model.traffic import ANY_PORT
from controller.workload.expand import JobTraffic


def check_free(job: Job, enforcement: str) -> None:
    """See whether a job leaves its ports to the controller.

    Args:
        job: the job.
        enforcement: the name of the enforcement that requires it.

    Raises:
        InputError: it names one, its ports are unknown, or some of it is not RoCEv2.
    """
    if not job.ports_known:
        reason = f"{enforcement} enforcement requires hosts to send from the ports that the controller assigns"
        raise InputError(reason, field="ports", value="unknown")
    _check_protocols(job, enforcement)
    claims = np.flatnonzero(job.flows.udp_src != ANY_PORT)
    if len(claims):
        reason = f"with {enforcement} enforcement the controller chooses the port: leave it out"
        first = int(claims[0])
        raise InputError(reason, field=f"flows[{first}].udp_src", value=int(job.flows.udp_src[first]))


def _check_protocols(job: Job, enforcement: str) -> None:
    """Check that all of a job is RoCEv2, whose source ports the controller can choose."""
    stated: list[tuple[str, Protocol]] = [("protocol", job.protocol)]
    stated += [(f"collectives[{i}].protocol", job.protocol_of(call)) for i, call in enumerate(job.collectives)]
    stated += [
        (f"flows[{i}].protocol", flow_ports(int(job.flows.udp_src[i])).protocol)
        for i in np.flatnonzero(~is_roce(job.flows.udp_src)).tolist()[:1]
    ]
    for field, protocol in stated:
        if protocol != ROCE:
            reason = f"{enforcement} enforcement selects paths by ports that the controller chooses, for RoCEv2 alone"
            raise InputError(reason, field=field, value=protocol)


def own_ports(traffic: JobTraffic, enforcement: str) -> str:
    """Return, in words, why a job with an ``own_port`` cannot be planned under an enforcement that chooses ports."""
    assert traffic.own_port is not None
    port, flow = int(traffic.udp_src[traffic.own_port]), traffic.flow_id(traffic.own_port)
    if port > MAX_PORT:
        return f"{enforcement} enforcement does not support it: the protocol of {flow} is {flow_ports(port).protocol}"
    what = (
        f"the source port of {flow} is unknown" if port == ANY_PORT else f"it specifies source port {port} for {flow}"
    )
    return f"{enforcement} enforcement does not support it: {what}"
