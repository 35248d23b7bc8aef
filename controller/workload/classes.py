"""Classes of priority of flows that packets do not tell apart: these are one QP, which has one class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import IntArray
from controller.model.traffic import Int64Array


def check_one_class(key: Int64Array, priority: IntArray, flow_id: Callable[[int], str]) -> None:
    """Check that flows of one key have one class.

    Args:
        key: [F] ``unit_key`` of each flow by its addresses.
        priority: [F] class of each flow.
        flow_id: returns the id of a flow.

    Raises:
        InputError: two flows of one key have two classes.
    """
    order = np.argsort(key, kind="stable")
    same = (key[order[1:]] == key[order[:-1]]) & (priority[order[1:]] != priority[order[:-1]])
    if not same.any():
        return
    at = int(np.flatnonzero(same)[0])
    one, other = int(order[at]), int(order[at + 1])
    reason = f"packets of {flow_id(other)} look like those of {flow_id(one)}, which has class {int(priority[one])}"
    raise InputError(reason, field="class", value=int(priority[other]))
