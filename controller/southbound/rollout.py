"""The way of a plan onto all switches, and what is known when one of them does not take it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from controller.southbound.rules import RuleSet
from controller.southbound.update import Stage

WAITED_FOR = frozenset(Stage) - {Stage.REMOVE}
"""Nobody waits for the last one."""


class Rollout:
    """One target's way onto the switches: who has still to confirm what before the others go on.

    Switches are named by datapath id. Those that connect later follow, and nobody waits for them.
    """

    def __init__(self, rules: RuleSet, epoch: int, names: Mapping[int, str], members: Iterable[int] = ()) -> None:
        """
        Args:
            names: of switches.
            members: those that are there now. Each is waited for until its work is known.
        """
        self.rules, self.epoch, self.names = rules, epoch, names
        self._owed = {dpid: set(WAITED_FOR) for dpid in members}
        self._owing = Counter({stage: len(self._owed) for stage in WAITED_FOR})

    def again(self, members: Iterable[int]) -> Rollout:
        """The same target, from the beginning."""
        return Rollout(self.rules, self.epoch, self.names, members)

    def owes(self, dpid: int, stages: frozenset[Stage]) -> None:
        """A switch's work is known: others depend on these stages of it."""
        self._settle(dpid, WAITED_FOR - stages)

    def confirmed(self, dpid: int, stage: Stage) -> None:
        """A switch has done all of a stage."""
        self._settle(dpid, (stage,))

    def leave(self, dpid: int) -> None:
        """A switch is gone, or does not answer: the others go on without it."""
        self._settle(dpid, WAITED_FOR)
        self._owed.pop(dpid, None)

    @property
    def waits_for(self) -> frozenset[int]:
        """Switches for which others wait."""
        return frozenset(dpid for dpid, stages in self._owed.items() if stages)

    @property
    def reached(self) -> Stage:
        """The last stage that switches may begin now."""
        return next((stage for stage in Stage if self._owing[stage]), Stage.REMOVE)

    def _settle(self, dpid: int, stages: Iterable[Stage]) -> None:
        for stage in self._owed.get(dpid, set()).intersection(stages):
            self._owed[dpid].discard(stage)
            self._owing[stage] -= 1


Kind = Literal["table full", "groups full", "bad group", "overlap", "bad port", "refused"]


@dataclass(frozen=True)
class Refusal:
    """A switch does not take a plan.

    Attributes:
        epoch: the plan's; ``stays``: the plan that all switches have gone back to, ``None``: there is no former one.
        kind: what is wrong; ``refused``: something else.
        table: of the rules that were refused, ``None``: groups were.
        room: how many of our rules that table (or how many groups the switch) holds.
        short: how many more the plan needs beside them.
        detail: the error in OpenFlow's words.
    """

    epoch: int
    stays: int | None
    dpid: int
    switch: str
    kind: Kind
    table: int | None
    room: int
    short: int
    detail: str

    @property
    def is_full(self) -> bool:
        """Whether there is no room, rather than something wrong with what was sent."""
        return self.kind in ("table full", "groups full")

    @property
    def text(self) -> str:
        """For people."""
        where = "its groups" if self.table is None else f"table {self.table}"
        if self.is_full:
            things = "groups" if self.table is None else "rules"
            what = f"{where} are full" if self.table is None else f"{where} is full"
            reason = f"{what}: {self.short} {things} short, with {self.room} of ours in it"
        else:
            reason = f"refuses a change of {where}: {self.kind}"
        after = "" if self.stays is None else f"; plan {self.stays} stays active on all switches"
        return f"{self.switch} does not take plan {self.epoch}, {reason} ({self.detail}){after}"
