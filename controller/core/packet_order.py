"""Whether jobs, the policy and the enforcement agree on the order in which packets arrive."""

from __future__ import annotations

from collections.abc import Iterable

from controller.model.errors import InputError
from controller.model.traffic import Collective
from controller.routing import POLICIES
from controller.southbound.enforcement.registry import ENFORCEMENTS, check_order


def check_policy(policy: str, enforcement: str) -> None:
    """See whether an enforcement can carry out what a policy plans.

    Raises:
        InputError: the policy spreads packets over all paths, and the enforcement cannot.
    """
    if POLICIES.named(policy).spreads_evenly and not ENFORCEMENTS.named(enforcement).spreads:
        able = ", ".join(name for name, each in ENFORCEMENTS.items() if each.spreads)
        reason = f"it spreads packets, which {enforcement} enforcement does not (of those here, {able} does)"
        raise InputError(reason, field="policy", value=policy)


def check_spread(collectives: Iterable[Collective], policy: str) -> None:
    """See whether jobs allow that a policy spreads their packets.

    Raises:
        InputError: the policy spreads all, and a job needs their order.
    """
    kept = next((row.job for row in collectives if not row.any_order), None)
    if kept is not None and POLICIES.named(policy).spreads_evenly:
        reason = f"policy {policy} spreads packets over all paths, and {kept} does not state order: any"
        raise InputError(reason, field="order")


def unplanned(collectives: Iterable[Collective], policy: str, enforcement: str) -> str:
    """Return, in words, why a stored job cannot be planned as its packets need it; empty: it can."""
    rows = list(collectives)
    try:
        check_order(rows, enforcement)
        check_spread(rows, policy)
    except InputError as error:
        return str(error)
    return ""
