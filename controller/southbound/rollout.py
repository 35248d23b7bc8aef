"""The way of a plan onto all switches, and what is known when one of them does not take it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller.southbound.rules import RuleSet
from controller.southbound.update import Stage


@dataclass
class Rollout:
    """One target's way onto the switches: who has still to confirm what before the others go on.

    Switches are named by datapath id. Those that connect later follow, and nobody waits for them.
    """

    rules: RuleSet
    epoch: int
    names: Mapping[int, str]
    owed: dict[int, set[Stage]] = field(default_factory=dict)
    """By switch: stages that others wait for; all of them until its work is known."""

    def begin(self, members: Iterable[int]) -> Rollout:
        """Itself, anew, with the switches that are there now."""
        return Rollout(
            self.rules, self.epoch, self.names, {dpid: {Stage.PREPARE, Stage.SWITCH} for dpid in members}
        )  # fmt: skip

    def owes(self, dpid: int, stages: Iterable[Stage]) -> None:
        """A switch's work is known."""
        if dpid in self.owed:
            self.owed[dpid] &= set(stages)

    def confirmed(self, dpid: int, stage: Stage) -> None:
        """A switch has done all of a stage."""
        self.owed.get(dpid, set()).discard(stage)

    def leave(self, dpid: int) -> None:
        """A switch is gone, or does not answer: the others go on without it."""
        self.owed.pop(dpid, None)

    def may_begin(self, stage: Stage) -> bool:
        """Whether switches may begin a stage now."""
        return not any(earlier < stage for stages in self.owed.values() for earlier in stages)


@dataclass(frozen=True)
class Refusal:
    """A switch does not take a plan.

    Attributes:
        epoch: the plan's; ``stays``: the plan that all switches have gone back to, ``None``: there is no former one.
        kind: ``table full``, ``groups full``, ``bad group``, ``overlap``, ``bad port`` or ``refused``.
        table: of the rules that were refused, ``None``: groups were.
        room: how many of our rules that table (or how many groups the switch) holds.
        short: how many more the plan needs beside them.
        detail: the error in OpenFlow's words.
    """

    epoch: int
    stays: int | None
    dpid: int
    switch: str
    kind: str
    table: int | None
    room: int
    short: int
    detail: str

    @property
    def text(self) -> str:
        """For people."""
        where = "its groups" if self.table is None else f"table {self.table}"
        if self.kind in ("table full", "groups full"):
            things = "groups" if self.table is None else "rules"
            what = f"{where} are full" if self.table is None else f"{where} is full"
            reason = f"{what}: {self.short} {things} short, with {self.room} of ours in it"
        else:
            reason = f"refuses a change of {where}: {self.kind}"
        after = "" if self.stays is None else f"; plan {self.stays} stays active on all switches"
        return f"{self.switch} does not take plan {self.epoch}, {reason} ({self.detail}){after}"
