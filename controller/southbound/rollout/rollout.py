"""The installation of a plan on all switches, and the description of a refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from controller.model.switch_key import SwitchKey
from controller.southbound.rollout.update import Stage
from controller.southbound.rules.rule_set import RuleSet

WAITED_FOR = frozenset(Stage) - {Stage.REMOVE}
"""The stages that other switches wait for: all but the last."""


class Rollout:
    """The installation of one target: the switches that must confirm a stage before the others go on.

    Switches are named by datapath id. Those that connect later follow, and no switch waits for them.
    """

    def __init__(
        self,
        rules: RuleSet,
        epoch: int,
        names: Mapping[SwitchKey, str],
        members: Iterable[int] = (),
        *,
        first: Iterable[int] = (),
        bare: Iterable[int] = (),
        whole: bool = True,
    ) -> None:
        """Begin before the first stage.

        Args:
            rules: of all switches.
            epoch: of their plan.
            names: of switches.
            members: those that are there now. Each is waited for until its work is known.
            first: switches that refused these rules before. The others begin ``SWITCH`` only after them, so that one
                more refusal costs the others next to nothing.
            bare: switches that get only a part of the plan of this epoch.
            whole: whether these are the rules of a target, and not of a fall-back.
        """
        self.rules, self.epoch, self.names = rules, epoch, names
        self.bare, self.whole = frozenset(bare), whole
        self._first = frozenset(first)
        self._owed = {dpid: set(WAITED_FOR) for dpid in members}
        self._owing = Counter({stage: len(self._owed) for stage in WAITED_FOR})

    def owes(self, dpid: int, stages: frozenset[Stage]) -> None:
        """Record the stages in which a switch has work that others depend on."""
        self._settle(dpid, WAITED_FOR - stages)

    def confirmed(self, dpid: int, stage: Stage) -> None:
        """Record that a switch has completed a stage."""
        self._settle(dpid, (stage,))

    def leave(self, dpid: int) -> None:
        """Remove a switch that is gone or does not answer: the others go on without it."""
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

    @property
    def progress(self) -> tuple[Stage, bool]:
        """Changes whenever switches may begin what they might not before."""
        return self.reached, self._waits_for_first

    @property
    def _waits_for_first(self) -> bool:
        return any(Stage.SWITCH in self._owed.get(first, ()) for first in self._first)

    def may_begin(self, dpid: int, stage: Stage) -> bool:
        """Return whether a switch may begin a stage now."""
        if stage > self.reached:
            return False
        if stage is not Stage.SWITCH or dpid in self._first:
            return True
        return not self._waits_for_first

    def _settle(self, dpid: int, stages: Iterable[Stage]) -> None:
        for stage in self._owed.get(dpid, set()).intersection(stages):
            self._owed[dpid].discard(stage)
            self._owing[stage] -= 1


Kind = Literal["table full", "groups full", "bad group", "overlap", "bad port", "refused"]


@dataclass(frozen=True)
class OpenFlowRefusal:
    """A switch does not take a plan.

    Attributes:
        epoch: the plan's; ``stays``: the plan whose rules switches hold instead, with the newest base rules; ``None``:
            there is no former one.
        kind: what is wrong; ``refused``: something else.
        table: of the rules that were refused, ``None``: groups were.
        room: how many of our rules that table (or how many groups the switch) holds.
        short: how many more the plan needs beside them.
        detail: the error in OpenFlow's words.
        bare: names of switches that forward by base rules alone meanwhile.
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
    bare: tuple[str, ...] = ()

    @property
    def key(self) -> SwitchKey:
        """The switch that refuses."""
        return self.dpid

    @property
    def is_full(self) -> bool:
        """True if there is no room, false if the content was refused."""
        return self.kind in ("table full", "groups full")

    @property
    def text(self) -> str:
        """The refusal in words."""
        where = "its groups" if self.table is None else f"table {self.table}"
        if self.is_full:
            things = "groups" if self.table is None else "rules"
            what = f"{where} are full" if self.table is None else f"{where} is full"
            reason = f"{what}: {self.short} {things} too many, {self.room} of fairspine fit"
        else:
            reason = f"change of {where} failed, {self.kind}"
        return f"{self.switch} refuses plan {self.epoch}: {reason} ({self.detail}){self._instead}"

    @property
    def _instead(self) -> str:
        plan = "" if self.stays is None else f"plan {self.stays} stays active on all switches"
        if self.bare:
            plan = f"{', '.join(self.bare)} spread planned flows by ECMP"
            plan += "" if self.stays is None else f", plan {self.stays} stays active elsewhere"
        return f"; {plan}" if plan else ""
