"""The state of the controller at its start, from what the store has saved."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.saved.applied_plan import AppliedPlan
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import LearningSetting, ModeSetting, SavedState
from controller.model.choices.enforcement import Mode
from controller.model.choices.learning import LEARNING, Learning
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.plan import Bound
from controller.planning.drain import known
from controller.planning.plan_inputs import PlanInputs
from controller.routing import PreviousPlan
from controller.southbound.enforcement.registry import ENFORCEMENTS

_MODES: Mapping[str, Mode] = {"planned": "planned", "ecmp": "ecmp", "frozen": "frozen"}
_LEARNING: Mapping[str, Learning] = {name: name for name in LEARNING}

NO_PATHS = PreviousPlan((), (), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0))
"""The paths of a plan that gave the switches none."""


def restore(saved: SavedState, intended: Fabric | None, option: str, learning: str = "observe") -> ControllerState:
    """Return the state before the restart, as far as it does not depend on the network.

    Args:
        saved: what the store held.
        intended: the fabric of the file; ``None``: discovery alone.
        option: the value of the option ``enforcement``.
        learning: the value of the option ``learning``.

    Raises:
        InputError: an enforcement that the store names does not exist.
    """
    check_saved_enforcements(saved, option)
    mode: Mode = "planned" if saved.mode is None else _MODES[saved.mode.mode]
    desired = DesiredState(
        saved.jobs,
        saved.drained,
        mode,
        restored_enforcement(saved.mode, option),
        _LEARNING[_learning(saved.learning, learning)],
    )
    applied = None if saved.plan is None else applied_plan_of(saved.plan)
    fabric = None
    if intended is not None and applied is not None:
        fabric = intended.without_links(known(intended, applied.links_down))
    return ControllerState(epoch=saved.epoch, desired=desired, applied=applied, saved_fabric=fabric)


def check_saved_enforcements(saved: SavedState, option: str) -> None:
    """See whether the enforcements that a store names exist: their plug-ins may have been removed.

    Args:
        saved: what the store holds.
        option: the value of the option ``enforcement``.

    Raises:
        InputError: one does not.
    """
    names = {"the setting": restored_enforcement(saved.mode, option)}
    if saved.plan is not None:
        names["the newest plan"] = saved.plan.enforcement
    for what, name in names.items():
        try:
            ENFORCEMENTS.named(name)
        except InputError as error:
            raise InputError(
                f"{error.reason}; install the plug-in that {what} in the store needs", field=error.field, value=name
            ) from None


def restored_enforcement(saved: ModeSetting | None, option: str) -> str:
    """Return the most recent enforcement, by name: the one set at run time, until the option has another value.

    ``option``: its value.
    """
    if saved is None or saved.enforcement is None or saved.option != option:
        return option
    return saved.enforcement


def _learning(saved: LearningSetting | None, option: str) -> str:
    """Return the most recent one: that set at run time, until the option has another value."""
    return option if saved is None or saved.option != option else saved.learning


def applied_plan_of(record: PlanRecord) -> AppliedPlan:
    """Return the plan of a record as what switches hold. One without paths gave them base forwarding alone."""
    return AppliedPlan(
        epoch=record.epoch,
        inputs=PlanInputs(record.fabric_version, record.traffic_version, record.policy, record.seed),
        paths=NO_PATHS if record.paths is None else record.paths,
        bound=Bound(record.bound_split, record.bound_single),
        links_down=tuple(record.links_down),
        drained=frozenset(record.drained),
        enforced=record.paths is not None and record.mode != "ecmp",
        enforcement=record.enforcement,
    )
