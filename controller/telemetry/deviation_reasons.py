"""Textual reasons why a flow is not on its planned path."""

from __future__ import annotations

from collections.abc import Sequence

from controller.model.fabric import Fabric
from controller.southbound.enforcement.registry import ENFORCEMENTS
from controller.southbound.rollout.drift import described
from controller.telemetry.fabric_snapshot import FabricSnapshot
from controller.telemetry.trace import Traced, TraceInputs, Way, uplink

MOST_NAMED = 4
"""Largest number of uplinks that a reason names; the rest are counted."""


def explain(situation: TraceInputs, reading: FabricSnapshot, row: int, traced: Traced, ways: Sequence[Way]) -> str:
    """Return why a row of the encoding is not, or not known to be, on its planned path; empty if it is.

    Args:
        situation: the desired state.
        reading: the snapshot of the switches.
        row: row of the encoding.
        traced: the result of tracing this row.
        ways: the ways of ``traced`` that are still possible.
    """
    if traced.planned is None:
        return "no live path joins its leaves"
    if not traced.ways:
        return traced.why_unknown
    if len(ways) == 1 and ways[0].arrives and ways[0].links == traced.planned:
        return ""
    return _Case(situation, reading, row, traced, ways).text()


class _Case:
    def __init__(
        self, situation: TraceInputs, reading: FabricSnapshot, row: int, traced: Traced, ways: Sequence[Way]
    ) -> None:
        self._situation, self._reading, self._traced, self._ways = situation, reading, traced, ways
        fabric, flow = situation.fabric, int(situation.wire.flow[row])
        self._leaf = fabric.leaves[fabric.host_leaf[situation.traffic.src[flow]]]
        assert traced.planned is not None
        self._planned_up = uplink(fabric, traced.planned)

    def text(self) -> str:
        fabric, mode = self._situation.fabric, self._situation.mode
        lost = next((way.end for way in self._ways if not way.arrives), "")
        foreign = self._foreign()
        if foreign:
            # What others have put there comes first: rules of this controller are not to blame.
            return _joined(foreign, lost or self._taken())
        if mode == "ecmp":
            return _joined(f"mode is ecmp: {self._taken()}", lost)
        if self._planned_up is not None and self._is_dead(self._planned_up):
            return _joined(f"its uplink {_cable(fabric, self._planned_up)} is down: fail-over, {self._taken()}", lost)
        if self._planned_up is None:
            return _joined(lost or f"{self._leaf.name} sends it up: {self._taken()}", self._late())
        if not self._has_own_rule():
            return _joined(f"{self._leaf.name} has no rule for it: {lost or self._taken()}", self._late())
        ups = {uplink(fabric, way.links) for way in self._ways}
        if ups != {self._planned_up}:
            return _joined(f"{self._leaf.name}'s rule for it leads elsewhere: {lost or self._taken()}", self._late())
        return lost or self._behind_the_leaf()

    def _foreign(self) -> str:
        """Return the first rule of others that the packets meet, in words; empty: they meet none."""
        dpids = {switch.name: switch.dpid for switch in self._situation.fabric.switches}
        for name, rule in self._traced.met:
            held = self._reading.switches.get(dpids[name])
            cookie = None if held is None else held.foreign.get(rule.key)
            if cookie is not None:
                return f"{name}: {described(cookie, rule)} matches it before the rules of fairspine"
        return ""

    def _behind_the_leaf(self) -> str:
        """Return the reason for a flow that takes its planned uplink, and then another cable than planned."""
        ids = self._situation.fabric.link_ids
        assert self._traced.planned is not None
        for place, meant in enumerate(self._traced.planned):
            taken = [ids[link] for link in dict.fromkeys(way.links[place] for way in self._ways if way.links[place:])]
            if taken not in ([], [ids[meant]]):
                switch = ids[meant].split("->")[0]
                if len(taken) == 1:
                    return f"{switch} sends it on by {taken[0]}, not by {ids[meant]}"
                return f"{switch} hashes it over {_some(taken)}"
        return "it uses more links than planned"

    def _taken(self) -> str:
        """Describe the uplinks that the flow takes, or may take, instead."""
        fabric = self._situation.fabric
        ups = [link for way in self._ways if (link := uplink(fabric, way.links)) is not None]
        names = [_cable(fabric, link) for link in dict.fromkeys(ups)]
        if not names:
            return "it takes no uplink"
        if len(names) == 1 and len(self._traced.ways) == 1:
            return f"it takes {names[0]}"
        return f"hashed, it takes {names[0]}" if len(names) == 1 else f"hashed over {_some(names)}"

    def _has_own_rule(self) -> bool:
        rule = self._traced.rule
        return rule is not None and ENFORCEMENTS.named(self._situation.enforcement).is_planned(rule)

    def _late(self) -> str:
        """Describe which part of the plan is not installed yet; empty if all of it is."""
        situation = self._situation
        if situation.mode == "frozen":
            waits = f"; plan {situation.epoch} waits" if situation.epoch > situation.enforced else ""
            return f"mode is frozen{waits}"
        confirmed = (situation.confirmed or {}).get(self._leaf.key, situation.enforced)
        if confirmed < situation.enforced:
            return f"plan {situation.enforced} is computed, {self._leaf.name} has not confirmed it yet"
        return ""

    def _is_dead(self, link: int) -> bool:
        """Return whether the planned uplink's port is down according to its leaf."""
        fabric = self._situation.fabric
        cable = fabric.cables[(link - fabric.first_cable_link) // 2]
        held = self._reading.switches.get(self._leaf.key)
        return held is not None and cable.lower_port in held.dead


def _cable(fabric: Fabric, link: int) -> str:
    return fabric.cable_names[(link - fabric.first_cable_link) // 2]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else "")


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
