"""A follower knows what the store holds, and begins to lead with the plan and the rules that the leader had."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.core import plan_candidate
from controller.core.change_number import ChangeNumber
from controller.core.controller_state import ControllerState
from controller.core.saved.saved_state import SavedState
from controller.store.errors import StoreError
from tests.unit.laws import examples
from tests.unit.service.lives import FABRIC, OPERATIONS, Life, Operation, rules_equal, told
from tests.unit.service.world import World, flow
from tests.unit.southbound.cabling.networks import seen


class Followed(Life):
    """A leader with a follower beside it; a restart is a take-over by that one."""

    follower: World | None = None

    def started(self) -> World:
        if self.follower is None:
            world = super().started()
        else:
            self.follower.southbound.network = seen(self.fabric)
            world = self.follower.take_over().planned()
        self.follower = World(FABRIC, seen(self.fabric), self.store, follows=True, policy=self.policy)
        return world


@settings(max_examples=examples(30, 180))
@given(life=st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=8), policy=st.sampled_from(["fair", "ethereal"]))
def test_after_any_life_a_follower_that_takes_over_is_in_the_state_of_the_leader(
    life: list[tuple[Operation, bool]], policy: str
) -> None:
    alive = Followed(policy)
    for operation, is_heard in life:
        alive.do(operation)
        if is_heard and alive.follower is not None:
            alive.world.settle()
            alive.follower.hear()
    alive.world.settle()
    next_leader = alive.follower
    assert next_leader is not None
    fresh = alive.started()
    assert fresh is next_leader
    frozen = alive.world.service.state.desired.mode == "frozen"
    before, after = told(alive.world), told(fresh)
    if frozen:
        # What is only computed while the switches are frozen is not kept: it is computed anew.
        for document in (before, after):
            del document["paths"], document["levels"], document["gap"], document["routes"]
    assert after == before
    (mine, epoch), (theirs, other_epoch) = alive.world.installed[-1], fresh.installed[-1]
    assert rules_equal(mine, theirs)
    assert epoch == other_epoch
    for world in (alive.world, fresh, alive.follower):
        assert world is not None
        world.close()


@pytest.fixture
def leader() -> Iterator[World]:
    with closing(World(FABRIC, seen(FABRIC))) as world:
        yield world.planned()


@pytest.fixture
def follower(leader: World) -> Iterator[World]:
    with closing(World(FABRIC, seen(FABRIC), leader.store, follows=True)) as world:
        yield world


def test_neither_a_follower_nor_the_next_leader_plans_again_what_is_planned(leader: World, follower: World) -> None:
    leader.put("a", [flow("h1", "h3"), flow("h2", "h5")])
    with patch.object(plan_candidate, "make_plan", side_effect=AssertionError("it plans")):
        follower.hear()
        jobs, documents = leader.read(lambda s: s.jobs()), follower.read(lambda s: s.jobs())
        follower.take_over().planned()
    assert documents["jobs"][0]["min_speed"] == jobs["jobs"][0]["min_speed"] == 1.0
    assert rules_equal(follower.installed[-1][0], leader.installed[-1][0])
    assert follower.store.records.keys() == leader.store.records.keys()


def test_a_follower_says_what_it_knows(leader: World, follower: World) -> None:
    knows = follower.follower.knows
    assert not knows(ChangeNumber(0, 0), 0.0)
    leader.put("a", [flow("h1", "h3")])
    change = leader.store.change
    assert change is not None
    assert not knows(change, 0.0)
    assert [job.name for job in follower.hear().service.state.jobs] == ["a"]
    assert knows(change, 0.0)
    assert knows(ChangeNumber(0, 10**6), 0.0)
    assert not knows(ChangeNumber(2, 1), 0.0)
    follower.follower.end()
    assert not knows(change, 0.0)


def test_a_follower_knows_a_change_only_once_reads_show_it(leader: World, follower: World) -> None:
    leader.put("a", [flow("h1", "h3")])
    change = leader.store.change
    known: list[bool] = []

    def took(saved: SavedState, state: ControllerState) -> None:
        known.append(follower.follower.change == change)

    with patch.object(follower.follower, "_took", took):
        follower.hear()
    assert known
    assert not any(known)


def test_a_follower_without_a_fabric_file_cannot_know(leader: World) -> None:
    leader.put("a", [flow("h1", "h3")])
    with closing(World(None, seen(FABRIC), leader.store, follows=True)) as world:
        world.follower.hear(leader.store.change)
        assert not world.follower.knows(ChangeNumber(0, 1), 0.0)


def test_a_store_that_does_not_answer_is_asked_again(leader: World, follower: World) -> None:
    leader.put("a", [flow("h1", "h3")])
    with patch.object(leader.store, "read", side_effect=StoreError("no answer")) as read:
        follower.follower.hear(leader.store.change)
        while not read.call_count:
            time.sleep(0.005)
    follower.until(lambda: follower.follower.hear(leader.store.change) is None and follower.follower.change is not None)
    assert [job.name for job in follower.hear().service.state.jobs] == ["a"]


def test_a_follower_without_the_plug_in_of_an_enforcement_says_so_in_one_line(
    leader: World, follower: World, caplog: pytest.LogCaptureFixture
) -> None:
    leader.put("a", [flow("h1", "h3")])
    change, saved = leader.store.read()
    assert saved.plan is not None
    foreign = replace(saved, plan=replace(saved.plan, enforcement="tunnels"))
    with patch.object(leader.store, "read", return_value=(change, foreign)) as read:
        for reads in (1, 2):
            follower.follower.hear(None)
            follower.follower.hear(leader.store.change)
            while read.call_count < reads:
                time.sleep(0.005)
        follower.until(lambda: "cannot be followed" in caplog.text)
    assert "Traceback" not in caplog.text
    errors = [each.getMessage() for each in caplog.records if "cannot be followed" in each.getMessage()]
    assert len(errors) == 1
    assert "install the plug-in that the newest plan in the store needs" in errors[0]
    # It follows again as soon as it can.
    follower.follower.hear(None)
    follower.until(lambda: follower.follower.hear(leader.store.change) is None and follower.follower.change is not None)
