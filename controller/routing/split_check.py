"""Whether the flows of jobs may be cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.model.errors import InputError
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Collective
from controller.routing.base import Options


def check_splits(collectives: Iterable[Collective], policies: Sequence[str], options: Options) -> None:
    """Check that no policy is asked to cut flows of a job whose messages take turns on its QPs.

    Such a QP carries whole messages, and none of them can carry another share. Policies that are asked for by name
    (``ethereal``, ``spray``) are references, and may.

    Raises:
        InputError: some policy would.
    """
    for row in collectives:
        check_qps(row.qps, policies, options, f" of {row.job}")


def check_qps(qps: QueuePairs, policies: Sequence[str], options: Options, of: str = "") -> None:
    """Check that no policy is asked to cut flows of connections with these QPs; ``of``: whose they are.

    Raises:
        InputError: some policy would.
    """
    if not qps.in_turn:
        return
    if "split" in policies:
        cause = "policy split cuts"
    elif options.max_splits and "fair" in policies:
        cause = f"option max_splits={options.max_splits} lets fair cut"
    else:
        return
    reason = f"QPs{of} carry whole messages in turn, and {cause} them into pieces"
    raise InputError(reason, field="qp_mode", value=qps.mode)
