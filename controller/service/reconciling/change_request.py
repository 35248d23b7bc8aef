"""A requested change on its way through the reconciler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredStateChange
from controller.core.events import EventKind
from controller.core.ports.runtime import Signal
from controller.core.saved.plan_record import PlanRecord
from controller.core.saved.saved_state import StateChange
from controller.routing import PreviousPlan

REQUEST = "request"
"""Member of events that names the id of the request."""


@dataclass
class ChangeRequest:
    """A requested change of the desired state.

    Attributes:
        apply: makes the change to a desired state.
        change: what the store saves of it, besides the plan that it leads to.
        cause: for people: ``job gpt3-a pushed``.
        reason, request_id: those of the caller (``core.caller``); empty: none.
        events: kind and data of each.
        take: paths for the flows (a rollback to the plan ``rollback_of``).
        keep_learned: learned flows stay on their live paths, because the change only takes ended ones out of the plan.
    """

    apply: DesiredStateChange
    change: StateChange
    cause: str
    by: str
    events: Sequence[tuple[EventKind, Mapping[str, Any]]] = ()
    take: PreviousPlan | None = None
    rollback_of: int | None = None
    keep_learned: bool = False
    reason: str = ""
    request_id: str = ""

    @property
    def origin(self) -> dict[str, str]:
        """Who requested it, and why, as members of its events."""
        given = {"reason": self.reason, REQUEST: self.request_id}
        return {"by": self.by} | {name: value for name, value in given.items() if value}


@dataclass
class PendingRequest:
    """A request that waits for its end, and then its result, or the error that it ended with."""

    request: ChangeRequest
    done: Signal
    state: ControllerState | None = None
    record: PlanRecord | None = None
    error: Exception | None = field(default=None)
