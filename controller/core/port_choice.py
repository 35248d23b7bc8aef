"""The requirement of enforcements that choose ports: jobs leave the UDP source port of every flow to the controller."""

from __future__ import annotations

import numpy as np

from controller.model.errors import InputError
from controller.model.job import Job
from controller.model.traffic import ANY_PORT
from controller.workload.expand import JobTraffic


def check_free(job: Job, enforcement: str) -> None:
    """See whether a job leaves its ports to the controller.

    Args:
        job: the job.
        enforcement: the name of the enforcement that requires it.

    Raises:
        InputError: it names one, or its ports are unknown.
    """
    if not job.ports_known:
        reason = f"{enforcement} enforcement requires hosts to send from the ports that the controller assigns"
        raise InputError(reason, field="ports", value="unknown")
    claims = np.flatnonzero(job.flows.udp_src != ANY_PORT)
    if len(claims):
        reason = f"with {enforcement} enforcement the controller chooses the port: leave it out"
        first = int(claims[0])
        raise InputError(reason, field=f"flows[{first}].udp_src", value=int(job.flows.udp_src[first]))


def own_ports(traffic: JobTraffic, enforcement: str) -> str:
    """Return, in words, why a job with an ``own_port`` cannot be planned under an enforcement that chooses ports."""
    assert traffic.own_port is not None
    port, flow = int(traffic.udp_src[traffic.own_port]), traffic.flow_id(traffic.own_port)
    what = (
        f"the source port of {flow} is unknown" if port == ANY_PORT else f"it specifies source port {port} for {flow}"
    )
    return f"{enforcement} enforcement does not support it: {what}"
