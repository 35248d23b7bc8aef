"""Bytes of flows for simulators that store them in few bits."""

from __future__ import annotations

from decimal import ROUND_DOWN, Context

import numpy as np

from controller.model.errors import InputError
from controller.workload.expand import JobTraffic

_DOWN = Context(prec=2, rounding=ROUND_DOWN)


def scaled_bytes(job: JobTraffic, scale: float, most: int, whose: str) -> list[int]:
    """Return the bytes of a job's flows times a factor, rounded up.

    Args:
        job: the flows.
        scale: above 0 and at most 1.
        most: the most bytes that a flow may have.
        whose: the simulator, for messages.

    Raises:
        InputError: the factor is out of bounds, or a flow is too large.
    """
    if not 0 < scale <= 1:
        raise InputError("must be above 0 and at most 1", field="scale", value=scale)
    size = job.bytes if scale == 1.0 else np.ceil(job.bytes * scale).astype(np.int64)
    if job.n_flows and int(size.max()) > most:
        flow = int(size.argmax())
        raise InputError(
            f"{whose} flows have at most {most} bytes, {job.flow_id(flow)} has {size[flow]}: scale all by "
            f"{_DOWN.create_decimal_from_float(most / int(job.bytes[flow]))} or less",
            field="scale",
            value=scale,
        )
    sizes: list[int] = size.tolist()
    return sizes
