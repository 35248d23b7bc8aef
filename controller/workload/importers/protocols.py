"""The protocol of imported jobs: files of other tools say what ranks send, and rarely by which protocol."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.choices.protocol import ROCE, Protocol
from controller.model.errors import InputError
from controller.model.packets.flow_ports import port_code
from controller.workload.importers.base import Imported

_NO_QPS = "only RoCEv2 has queue pairs: those that the files state are left out"


def with_protocol(imported: Imported, protocol: Protocol) -> Imported:
    """Return an import whose job sends by a protocol, of ports that are not known.

    Args:
        imported: of an importer, which takes all packets for RoCEv2.
        protocol: of all flows of the job.

    Raises:
        InputError: the files describe no job, or they state ports of RoCEv2.
    """
    if protocol == ROCE:
        return imported
    job = imported.job
    if imported.fabric is not None and not imported.ranks:
        raise InputError("the files describe a fabric, which has no protocol", field="protocol", value=protocol)
    if job.flows.qp_ports or np.any(job.flows.udp_src):
        raise InputError("the files state source ports of RoCEv2", field="protocol", value=protocol)
    calls = tuple(dataclasses.replace(call, qps=None, protocol=None) for call in job.collectives)
    stated = job.qps is not None or any(call.qps is not None for call in job.collectives)
    codes = np.full(len(job.flows.src), port_code(protocol), dtype=np.int32)
    flows = dataclasses.replace(job.flows, udp_src=codes)
    return dataclasses.replace(
        imported,
        job=dataclasses.replace(job, protocol=protocol, qps=None, collectives=calls, flows=flows),
        notes=(*imported.notes, _NO_QPS) if stated else imported.notes,
    )
