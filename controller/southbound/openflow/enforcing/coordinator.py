"""The installer as a session sees it."""

from __future__ import annotations

from typing import Any, Protocol

from controller.southbound.limits.quiet_log import QuietLog
from controller.southbound.rollout.rollout import OpenFlowRefusal, Rollout
from controller.southbound.rollout.write_permission import WritePermission
from controller.southbound.rules.rule_set import SwitchRules


class Coordinator(Protocol):
    """The part of the installer that a session uses."""

    @property
    def rollout(self) -> Rollout | None:
        """The newest rollout."""

    @property
    def permission(self) -> WritePermission:
        """The permission to change switches."""

    @property
    def instance(self) -> int:
        """The number of this controller's store; cookies of rules carry it."""

    @property
    def meters(self) -> bool:
        """True if switches that have meters are given some."""

    @property
    def quiet(self) -> QuietLog:
        """A rate-limited log for events that switches cause."""

    def offload(self, function: Any, *args: Any) -> Any:
        """Run a function in a thread and return its result; other greenlets go on meanwhile."""

    def likely(self, dpid: int) -> SwitchRules:
        """Return the rules that a switch is likely to hold when it connects."""

    def moved_on(self) -> None:
        """Let the other sessions begin a stage: a rollout has progressed."""

    def settled(self) -> None:
        """Note that a switch has reached its target, or lost it."""

    def confirmed(self, edits: int) -> None:
        """Count changes that a switch has confirmed."""

    def silent(self, session: Any) -> None:
        """Let the other sessions go on without this one, whose switch does not say what it holds."""

    def heard(self, dpid: int) -> None:
        """Let the other sessions wait for this switch again: it has confirmed its rules."""

    def was_read(self, dpid: int, held: SwitchRules) -> None:
        """Take the rules that a switch held when it was read."""

    def go_back(self, rollout: Rollout, refusal: OpenFlowRefusal) -> bool:
        """Begin a fall-back because a switch does not take its part; return whether there is one for all switches."""
