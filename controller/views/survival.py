"""The failure analysis of the present jobs: the effect of failures on the plan of a state. Nothing is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from controller.config import Settings, options_of
from controller.core.controller_state import ControllerState
from controller.core.requests.survival_request import SurvivalRequest
from controller.model.errors import InputError, UnavailableError
from controller.planning.headroom import with_headroom
from controller.planning.survival import (
    Failure,
    Outcome,
    Outcomes,
    Situation,
    pairs,
    single_failures,
    survive,
    worst_sequence,
)
from controller.planning.survival_document import survival_document

MOST_FAILURES = 10_000
"""Failures of one analysis: the controller has other work."""

MOST_IN_SEQUENCE = 16

PART = 32
"""Failures between two looks at whether the client is still there."""


def analyse(
    settings: Settings,
    state: ControllerState,
    request: SurvivalRequest,
    gone: Callable[[], bool],
    compute: Outcomes,
) -> dict[str, Any]:
    """Plan anew after each failure, as the controller would.

    Args:
        settings: headroom, policy, and its seed and options.
        state: with a candidate.
        request: the failures to analyse.
        gone: whether the client has disconnected; then the analysis ends.
        compute: computes the outcomes of at most ``PART`` failures at a time.

    Raises:
        InputError: these are too many failures.
        UnavailableError: the state has no plan, or the client has disconnected.
    """
    fabric, candidate = state.fabric, state.candidate
    if fabric is None or candidate is None:
        raise UnavailableError("there is no plan yet")
    candidate = candidate.pushed
    situation = Situation(
        fabric=with_headroom(fabric, settings.headroom),
        traffic=candidate.traffic,
        policy=settings.policy,
        seed=settings.seed,
        options=options_of(settings),
        previous=candidate.paths,
        healthy_seconds=candidate.plan.objective.healthy_seconds,
        drained=state.desired.drained,
    )
    # What is drained and not used can fail without an effect.
    single = single_failures(candidate.planned_on, request.kinds)
    count = len(single) * (len(single) - 1) // 2 if request.pairs else len(single)
    if count > MOST_FAILURES:
        reason = f"{count:,} failures are too many (at most {MOST_FAILURES:,}); choose fewer kinds"
        raise InputError(reason, field="pairs" if request.pairs else "kinds")

    def outcomes(situation: Situation, failures: Sequence[Failure]) -> Iterator[Outcome]:
        for first in range(0, len(failures), PART):
            if gone():
                raise UnavailableError("the client has disconnected")
            yield from compute(situation, failures[first : first + PART])

    survival = survive(situation, pairs(single) if request.pairs else single, outcomes)
    above = request.above
    sequence = None
    if above is not None:
        sequence = worst_sequence(situation, single, above, most=MOST_IN_SEQUENCE, outcomes=outcomes)
    return {
        "epoch": state.epoch,
        "above": None,
        "sequence": None,
        "bears_at_most": None,
        **survival_document(survival, above, sequence),
    }
