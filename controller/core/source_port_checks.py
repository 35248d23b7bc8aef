"""The requirement of ``source_port`` enforcement: the controller may choose the UDP source port of every flow."""

from __future__ import annotations

import numpy as np

from controller.model.errors import InputError
from controller.model.job import Job
from controller.model.traffic import ANY_PORT
from controller.workload.expand import JobTraffic


def check_free(job: Job) -> None:
    """See whether a job leaves its ports to the controller.

    Raises:
        InputError: it names one, or its ports are unknown.
    """
    if not job.ports_known:
        reason = "source_port enforcement requires hosts to send from the ports that the controller assigns"
        raise InputError(reason, field="ports", value="unknown")
    claims = np.flatnonzero(job.flows.udp_src != ANY_PORT)
    if len(claims):
        reason = "with source_port enforcement the controller chooses the port: leave it out"
        first = int(claims[0])
        raise InputError(reason, field=f"flows[{first}].udp_src", value=int(job.flows.udp_src[first]))


def own_ports(traffic: JobTraffic) -> str:
    """Return, in words, why a job with an ``own_port`` cannot be steered."""
    assert traffic.own_port is not None
    port, flow = int(traffic.udp_src[traffic.own_port]), traffic.flow_id(traffic.own_port)
    what = (
        f"the source port of {flow} is unknown" if port == ANY_PORT else f"it specifies source port {port} for {flow}"
    )
    return f"source_port enforcement does not support it: {what}"
