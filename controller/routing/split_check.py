"""Whether the flows of a traffic may be cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.errors import InputError
from controller.model.traffic import Traffic
from controller.routing.base import Options


def check_splits(traffic: Traffic, policies: Sequence[str], options: Options) -> None:
    """Check that no policy is asked to cut flows of a job whose messages take turns on its QPs.

    Such a QP carries whole messages in turn, and none of them can carry another share. Policies that are asked for by
    name (``ethereal``, ``spray``) are references, and may.

    Raises:
        InputError: some policy would.
    """
    in_turn = next((row for row in traffic.collectives if row.qps.mode == "round_robin" and row.qps.count > 1), None)
    if in_turn is None:
        return
    cause = f"{in_turn.job} has qp_mode round_robin, and its flows cannot be cut into pieces"
    if "split" in policies:
        raise InputError(cause, field="policy", value="split")
    if options.max_splits and "fair" in policies:
        raise InputError(cause, field="option max_splits", value=options.max_splits)
