"""An agent that is told changes of plans has what whole plans say, whatever is lost between it and the controller."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, cast

import orjson
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from agent.connection.carrier_conversation import CarrierConversation
from agent.connection.controller_connection import ControllerConnection
from agent.errors import HostAgentError
from agent.linux.carrier_tags import MOST_TAGS
from agent.linux.kernel_state import KernelState, StateMaker
from agent.plans.host_plan import HostPlan, read_plan
from agent.plans.saved_files import SavedFiles
from controller.core.errors import ConflictError
from controller.core.ports.enforcer import Target
from controller.core.ports.host_agents import AgentHas, HostReport, PlanId
from controller.southbound.enforcement.host_plans import NO_HOST_PLANS
from tests.unit.service.host_world import FABRIC, NAMES, World

HOST, OTHER = "h1", (1, 4, 0)
DAMAGED = FABRIC.without_links(["leaf1-spine2"])
PORTS = range(50000, 50024)

Way = tuple[int, int]
"""Receiver and path of a flow of h1."""
Flows = Mapping[int, Way]

ways = st.tuples(st.sampled_from([2, 4]), st.integers(0, 1))
flows_of_many = st.fixed_dictionaries(dict.fromkeys(PORTS, ways))
some_flows = st.dictionaries(st.sampled_from(PORTS), st.one_of(st.none(), ways), max_size=6)
damaged = st.sampled_from([False] * 4 + [True])


class Controller:
    """Answers the requests of one agent as a controller does that may start again."""

    def __init__(self, flows: Flows) -> None:
        self.flows, self.usable, self.epoch = dict(flows), FABRIC, 1
        self.fate, self.sent = "poll", list[dict[str, Any]]()
        self.restart()

    def restart(self, epoch: int = 1) -> None:
        """Start again; the number of the plan may be one that was used before."""
        self.world, self.epoch = World(), epoch
        self.install()

    def install(self) -> None:
        flows = [(0, dst, path) for dst, path in self.flows.values()]
        self.world.install(self.epoch, [*flows, OTHER], ports=[*self.flows, 50000], usable=self.usable)

    def change(self, changed: Mapping[int, Way | None], is_damaged: bool = False) -> None:
        """Make another plan: flows take other ways (``None``: they end), and a cable is down or not."""
        flows = {**self.flows, **changed}
        self.flows = {port: way for port, way in flows.items() if way is not None}
        self.usable, self.epoch = DAMAGED if is_damaged else FABRIC, self.epoch + 1
        self.install()

    def whole(self) -> dict[str, Any]:
        """The whole plan of a controller that knows of no other one."""
        other = World()
        self.world, ours = other, self.world
        self.install()
        self.world = ours
        plan = other.ask(HOST)
        assert plan is not None
        return plan

    def plan(
        self, after: tuple[int, str] | None, *, destinations: str = "", report: Any = None, changes: bool = False
    ) -> Any:
        has = AgentHas(None if after is None else PlanId(*after), destinations, by_table=True, changes=changes)
        try:
            if report is not None:
                self.world.enforcer.report(HOST, HostReport(PlanId(*report)))
            body = self.world.enforcer.plan(HOST, has, 0.0, bool)
        except ConflictError as error:
            raise HostAgentError(str(error)) from None
        if self.fate == "lose":
            raise HostAgentError("no answer in time")
        if body is None:
            return None
        document = orjson.loads(body)
        self.sent.append(document)
        if self.fate == "damage":
            document["flows"].append({"src": "h1"})
        return document

    def table(self) -> Any:
        return orjson.loads(self.world.enforcer.table(HOST))


class Agent:
    """Follows plans as the agent does, in a kernel that is a value; it may start again."""

    def __init__(self, controller: Controller, folder: Path) -> None:
        self.controller, self.files = controller, SavedFiles(folder)
        self.held = KernelState()
        self.start()

    def start(self) -> None:
        self.plan: HostPlan | None = self.files.plan(HOST)
        connection = cast(ControllerConnection, self.controller)
        self.talk = CarrierConversation(HOST, connection, connection, lambda *_: None)
        self.maker = StateMaker(held=self.held)
        if self.plan is not None:
            self.held = self.maker.state(self.plan, lambda _: True)
        self.confirmed: tuple[int, str] | None = None

    def poll(self, *, saves: bool = True) -> None:
        document = self.talk._ask(None if self.plan is None else self.plan.id, cast(Any, self.confirmed))
        if document is None:
            return
        plan, said = self.talk._read(document)
        step = None if self.plan is None else self.maker.step(self.held, self.plan, plan, lambda _: True)
        self.held = self.maker.state(plan, lambda _: True) if step is None else step[0]
        self.plan, self.confirmed = plan, plan.id
        if saves:
            self.files.save_plan(said)


def carriers(state: KernelState) -> dict[bytes, IPv6Address]:
    """The carrier of each flow."""
    return {key: IPv6Address(int(state.carriers[mark]) & ~MOST_TAGS) for key, mark in state.flows.items()}


def same(plan: HostPlan | None, other: HostPlan) -> bool:
    """Whether two plans say the same, whatever their numbers."""
    return plan is not None and replace(plan, epoch=0) == replace(other, epoch=0)


new_plan = st.tuples(some_flows, damaged)
events = st.one_of(
    st.just(("poll",)),
    st.tuples(st.sampled_from(["lose", "damage", "unsaved", "agent", "rules", "poll"])),
    st.tuples(st.just("controller"), st.integers(1, 4)),
)


@given(flows_of_many, st.lists(st.tuples(new_plan, events), min_size=2, max_size=8))
def test_whatever_is_lost_an_agent_ends_with_what_the_whole_plan_says(
    flows: Flows, drawn: list[tuple[tuple[dict[int, Way | None], bool], tuple[Any, ...]]]
) -> None:
    controller = Controller(flows)
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(controller, Path(folder))
        for (changed, is_damaged), (kind, *what) in drawn:
            if kind == "controller":
                controller.restart(*what)
            elif kind == "agent":
                agent.start()
            elif kind == "rules":
                # Another enforcement, and back.
                controller.world.enforcer.install(Target(NO_HOST_PLANS, controller.epoch, NAMES))
                with pytest.raises(HostAgentError):
                    agent.poll()
            controller.change(changed, is_damaged)
            if kind in ("lose", "damage"):
                controller.fate = kind
                with suppress(HostAgentError):
                    agent.poll()
                controller.fate = "poll"
            elif kind in ("poll", "unsaved"):
                agent.poll(saves=kind == "poll")
                whole = read_plan(controller.whole())
                assert same(agent.plan, whole)
                assert carriers(agent.held) == carriers(StateMaker().state(whole, lambda _: True))
        # The second request confirms.
        agent.poll()
        agent.poll()
        assert same(agent.plan, read_plan(controller.whole()))
        if not any(kind == "unsaved" for _, (kind, *_) in drawn):
            assert SavedFiles(Path(folder)).plan(HOST) == agent.plan
    assert HOST not in controller.world.waiting()
    event("changes were told" if any(each.get("changes_of") for each in controller.sent) else "whole plans only")


@given(flows_of_many, st.lists(some_flows, min_size=1, max_size=5), st.data())
def test_whatever_part_of_saved_changes_is_left_it_is_a_plan_that_was_followed(
    flows: Flows, changed: list[dict[int, Way | None]], data: st.DataObject
) -> None:
    controller = Controller(flows)
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(controller, Path(folder))
        agent.poll()
        followed = [agent.plan]
        for each in changed:
            controller.change(each)
            agent.poll()
            followed.append(agent.plan)
        path = Path(folder) / "plan.changes"
        lines = path.read_bytes() if path.exists() else b""
        path.write_bytes(lines[: data.draw(st.integers(0, len(lines)))])
        assert SavedFiles(Path(folder)).plan(HOST) in followed
        # What is saved after a line that was written in part is read again, if it is of the plan that is left.
        agent.start()
        controller.change(flows)
        agent.poll()
        assert same(SavedFiles(Path(folder)).plan(HOST), read_plan(controller.whole()))


def test_a_host_to_which_a_new_plan_says_the_same_is_not_told_and_counts_as_having_confirmed_it() -> None:
    world = World()
    world.install(1, [(0, 2, 0), (1, 4, 0)])
    held = {host: world.follow(host) for host in ("h1", "h2", "h3", "h5")}
    assert world.waiting() == []
    world.install(2, [(0, 2, 0), (1, 4, 1)])
    assert world.waiting() == ["h2"]
    asked = [(host, AgentHas(plan, by_table=True, changes=True)) for host, plan in held.items()]
    answers = dict(zip(held, world.enforcer.plans(asked).answers, strict=True))
    assert [host for host, answer in answers.items() if answer is not None] == ["h2"]
    assert all(world.enforcer.plan(host, has, 0.0, bool) is None for host, has in asked if host != "h2")
    # An agent that cannot take changes knows plans by their numbers.
    assert world.ask("h1", held["h1"]) is not None
    # Another controller finds out when the agents ask it.
    other = World()
    other.install(5, [(0, 2, 0), (1, 4, 0)])
    for host, plan in held.items():
        other.enforcer.report(host, HostReport(plan))
    assert other.waiting() == ["h1", "h2", "h3", "h5"]
    assert other.enforcer.plans(asked).answers == [None] * 4
    assert other.waiting() == []
