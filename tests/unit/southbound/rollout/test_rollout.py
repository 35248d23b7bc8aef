"""A rollout over a whole network, carried out in any order that it allows, with packets on their way all the time."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.southbound.enforcement.registry import rule_enforcements
from controller.southbound.forwarding.next_hops import NextHops
from controller.southbound.rollout.rollout import Rollout
from controller.southbound.rollout.update import HeldRules, RuleEdit, Stage, SwitchUpdate, work
from controller.southbound.rules.interpreter import RuleInterpreter
from controller.southbound.rules.rule_set import RuleSet
from tests.unit.laws import examples
from tests.unit.southbound.plans import packets
from tests.unit.southbound.rollout.changes import ALL_PORTS, changes


class Switch:
    """One switch that takes part, edit by edit."""

    def __init__(self, dpid: int, held: RuleSet, target: RuleSet) -> None:
        self.dpid, self.holding = dpid, HeldRules(held[dpid])
        self.work: SwitchUpdate = work(held[dpid], target[dpid], ALL_PORTS)
        self.stage, self._step, self._edits = Stage.PREPARE, 0, list[RuleEdit]()

    def advance(self, rollout: Rollout, order: Random) -> bool:
        """Carry out one edit, in any order within its step; whether the rollout and the work that is left allow it."""
        while not self._edits:
            if self.stage > rollout.reached:
                return False
            steps = self.work.stages[self.stage]
            if self._step < len(steps):
                self._edits = list(steps[self._step])
                order.shuffle(self._edits)
                self._step += 1
                continue
            rollout.confirmed(self.dpid, self.stage)
            if self.stage is Stage.REMOVE:
                return False
            self.stage, self._step = Stage(self.stage + 1), 0
        self.holding.carry_out([self._edits.pop()])
        return True


@pytest.mark.parametrize("before", rule_enforcements())
@pytest.mark.parametrize("after", rule_enforcements())
@settings(max_examples=examples(8, 45))
@given(data=st.data())
def test_every_packet_arrives_at_every_moment_of_a_change_from_any_enforcement_to_any(
    before: str, after: str, data: Any
) -> None:
    old, new = data.draw(changes(before, after))
    order = data.draw(st.randoms(use_true_random=False))
    network, hops = RuleInterpreter(old.fabric), NextHops(old.fabric)
    sent = [data.draw(packets(case)) for case in (old, new)]
    dpids = sorted({*old.rules, *new.rules})
    rollout = Rollout(new.rules, 1, {}, dpids)
    switches = [Switch(dpid, old.rules, new.rules) for dpid in dpids]
    for switch in switches:
        rollout.owes(switch.dpid, switch.work.others_use)
    while True:
        now = RuleSet({switch.dpid: switch.holding.as_rules() for switch in switches})
        for src, dst, packet in sent:
            walk = network.walk(now, packet, source=old.fabric.hosts[src].name)
            a, b = int(old.fabric.host_leaf[src]), int(old.fabric.host_leaf[dst])
            reachable = a == b or bool(hops.ports(a, b))
            assert walk.host == (old.fabric.hosts[dst].name if reachable else None)
        order.shuffle(switches)
        reached = rollout.reached
        # Each switch works at a speed of its own: one that may go on does, for some edits.
        moved = next((switch for switch in switches if switch.advance(rollout, order)), None)
        if moved is None and rollout.reached == reached:
            break
        if moved is not None:
            for _ in range(order.randrange(20)):
                moved.advance(rollout, order)
    assert all(switch.holding.as_rules() == new.rules[switch.dpid] for switch in switches)
