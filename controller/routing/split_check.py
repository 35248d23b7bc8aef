"""Whether the flows of jobs may be cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.model.errors import InputError
from controller.model.queue_pairs import QueuePairs
from controller.model.traffic import Collective
from controller.routing.base import Options
from controller.routing.registry import POLICIES


def check_splits(collectives: Iterable[Collective], policies: Sequence[str], options: Options) -> None:
    """Check that no policy is asked to cut flows of a job whose messages take turns on its QPs.

    Such a QP carries whole messages, and none of them can carry another share. Policies that are references may
    (``Policy.cuts_messages``), and names of no policy are passed over.

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
    for policy in (POLICIES[name] for name in policies if name in POLICIES) if qps.in_turn else ():
        if policy.cuts_messages or not policy.splits_with(options):
            continue
        cause = f"policy {policy.name} cuts"
        if policy.split_option:
            cause = f"option {policy.split_option}={getattr(options, policy.split_option)} lets {policy.name} cut"
        reason = f"QPs{of} carry whole messages in turn, and {cause} them into pieces"
        raise InputError(reason, field="qp_mode", value=qps.mode)
