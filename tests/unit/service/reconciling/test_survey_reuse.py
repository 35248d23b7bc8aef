"""A look at all cables is made when the network shows itself otherwise, and not for each job."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import Settings
from controller.core import reconcile as reconciling
from controller.core.controller_state import ControllerState
from controller.core.desired_state import DesiredState
from controller.core.reconcile import reconcile
from controller.model.files.clos import clos
from controller.southbound.cabling.survey import survey
from controller.southbound.enforcement.openflow_rules import OpenFlowCompiler
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(2, 2, 1)
LINKS = ["leaf1-spine1", "leaf2-spine2"]

COMPILER = OpenFlowCompiler("bundle", Settings())


@given(st.lists(st.sampled_from(["drained", "network", "same"]), max_size=8))
def test_one_look_for_each_change_of_the_network_and_none_for_other_changes(changes: list[str]) -> None:
    looks: list[Any] = []

    def counted(*args: Any, **options: Any) -> Any:
        looks.append(args)
        return survey(*args, **options)

    state, desired, down, expected = ControllerState(), DesiredState(), False, 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciling, "survey", counted)
        for change in ["same", *changes]:
            if change == "network":
                down, expected = not down, expected + 1
            elif change == "drained":
                desired = dataclasses.replace(desired, drained=desired.drained ^ {"leaf1-spine2"})
            # As in the controller: each snapshot is a new object, whatever it shows.
            network = seen(FABRIC.without_links(LINKS if down else []))
            state = reconcile(Settings(), FABRIC, network, desired, state, lambda: 0.0, COMPILER)
            assert len(looks) == expected
            # What was reused is what a new look would find.
            assert state.survey == survey(FABRIC, network, before=state.fabric)


def test_a_fabric_that_is_as_before_is_the_same_object() -> None:
    down = FABRIC.without_links(LINKS)
    first = survey(FABRIC, seen(down)).fabric
    again = survey(FABRIC, seen(down), before=first).fabric
    assert again is first
    assert again == down
