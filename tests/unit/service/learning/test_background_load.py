"""The controller shows what links carry beside the plan, and with ``learning = act`` plans jobs beside that."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from controller.service.learning.background_load import POLLS
from controller.southbound.rules.priorities import DISCOVERY, FLOW
from controller.telemetry.counters import PortCounters, RuleCounters, SwitchCounters
from tests.unit.service.learning.learned_ring import FABRIC
from tests.unit.service.world import ANN, World, flow, rules_of
from tests.unit.southbound.cabling.networks import seen
from tests.unit.telemetry.placed_traffic import place, with_ports

GBPS = 1e9 / 8
Rates = dict[str, float]
"""Gbit/s that links carry beside the plan."""


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), replan_seconds=0.0).planned()
    # Every switch confirms every plan.
    made.southbound.reports = [
        SimpleNamespace(
            key=switch.key, name=switch.name, epoch=10**9, error="", missing=(), connected=True, waits_for=()
        )
        for switch in FABRIC.switches
    ]
    yield made
    made.close()


class Counting:
    """Polls switches that count planned flows at their planned rates, and other traffic beside them."""

    def __init__(self, world: World) -> None:
        self.world, self.at = world, 0.0
        self.octets: dict[str, float] = dict.fromkeys(FABRIC.link_ids, 0.0)
        self.own: dict[Any, float] = {}

    def poll(self, unplanned: Rates, times: int = POLLS + 2, planned_gbps: float = 0.0) -> None:
        """Poll so many times, a second apart; each flow of the plan sends at one rate, each link of ``unplanned``."""
        for _ in range(times):
            self.at += 1
            state = self.world.service.state
            assert state.encoding is not None
            for name, gbps in unplanned.items():
                self.octets[name] += gbps * GBPS
            for each, path in zip(state.encoding.flow.tolist(), state.encoding.path.tolist(), strict=True):
                src, dst = int(state.traffic.src[each]), int(state.traffic.dst[each])
                leaves = int(FABRIC.host_leaf[src]), int(FABRIC.host_leaf[dst])
                for link in (src, *FABRIC.ways.links_of(*leaves, path), FABRIC.n_hosts + dst):
                    self.octets[FABRIC.link_ids[link]] += planned_gbps * GBPS
            ports = {dpid: {port: [0, 0] for port in of} for dpid, of in with_ports(FABRIC).items()}
            for name, octets in self.octets.items():
                dpid, port, receives = place(FABRIC, name)
                ports[dpid][port][0 if receives else 1] = int(octets)
            for dpid, of in ports.items():
                counts = {port: PortCounters(0, 0, rx, tx, 0, 0, 0, 0) for port, (rx, tx) in of.items()}
                rules = {}
                for key in rules_of(state)[dpid].rules:
                    if FLOW <= key[1] < DISCOVERY:
                        self.own[dpid, key] = self.own.get((dpid, key), 0.0) + planned_gbps * GBPS
                        rules[key] = RuleCounters(1, int(self.own[dpid, key]))
                self.world.readings.add(SwitchCounters(dpid, self.at, counts, rules))
            self.world.service._acting.background.step()
            self.world.planned()


def shown(world: World) -> dict[str, float | None]:
    rows = world.read(lambda service: service.links())["links"]
    return {row["id"]: row["background_gbps"] for row in rows}


def uplink(world: World) -> str:
    """The uplink of the only flow."""
    state = world.service.state
    assert state.encoding is not None
    leaf = FABRIC.host_leaf
    links = FABRIC.ways.links_of(
        int(leaf[state.traffic.src[0]]), int(leaf[state.traffic.dst[0]]), int(state.encoding.path[0])
    )
    return FABRIC.link_ids[links[0]]


def test_what_planned_flows_send_is_no_background_load(world: World) -> None:
    world.put("a", [flow("h1", "h3"), flow("h2", "h5")])
    world.service.set_learning("act", ANN)
    counting, state = Counting(world.planned()), world.service.state
    counting.poll({}, planned_gbps=60.0)
    assert set(shown(world).values()) == {0.0}
    assert world.service.state is state


def test_observed_background_load_is_shown_and_changes_nothing(world: World) -> None:
    world.put("a", [flow("h1", "h3")])
    counting, busy = Counting(world.planned()), uplink(world)
    state = world.service.state
    counting.poll({busy: 40.0}, planned_gbps=30.0)
    assert shown(world)[busy] == pytest.approx(40.0)
    assert world.service.state is state


def test_jobs_are_planned_beside_it_once_and_again_when_it_has_gone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller.service.learning.background_load.BETWEEN_CHANGES", 0.0)
    world.put("a", [flow("h1", "h3")])
    world.service.set_learning("act", ANN)
    counting, busy = Counting(world.planned()), uplink(world)
    counting.poll({busy: 40.0})
    state = world.service.state
    # 40 % is six sixteenths and a half.
    assert state.desired.background == {busy: 6}
    assert uplink(world) != busy
    for gbps in (40.0, 41.0, 39.0):
        counting.poll({busy: gbps}, planned_gbps=30.0)
        assert world.service.state is state
    counting.poll({}, 3 * POLLS)
    assert world.service.state.desired.background == {}


def test_learned_jobs_are_given_an_idle_time_before_they_are_planned_beside_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a", [flow("h1", "h3")])
    world.service.set_learning("act", ANN)
    counting, busy = Counting(world.planned()), uplink(world)
    epochs: list[int] = []
    monkeypatch.setattr(
        world.service._acting.background, "_wait_for_idle", lambda: epochs.append(world.service.state.epoch)
    )
    before = world.service.state.epoch
    counting.poll({busy: 40.0})
    assert epochs == [before]
    assert world.service.state.epoch > before


def test_without_acting_jobs_are_planned_on_whole_links_again(world: World) -> None:
    world.put("a", [flow("h1", "h3")])
    world.service.set_learning("act", ANN)
    counting = Counting(world.planned())
    counting.poll({uplink(world): 40.0})
    assert world.service.state.desired.background
    world.service.set_learning("off", ANN)
    assert world.service.state.desired.background == {}
    counting.poll({}, 1)
    assert set(shown(world).values()) == {None}


def look(world: World) -> bool:
    """Take a scheduled look at the plan."""
    made = world.service._acting.scheduled.step()
    world.planned()
    return made


def test_a_scheduled_look_plans_beside_a_load_that_is_too_small_for_another_plan_at_once(world: World) -> None:
    world.put("a", [flow("h1", "h3")])
    world.service.set_learning("act", ANN)
    counting, busy = Counting(world.planned()), uplink(world)
    assert not look(world), "nothing is measured yet"
    counting.poll({})
    assert not look(world)
    # 0.7 of a sixteenth.
    for _ in range(2):
        counting.poll({busy: 4.4})
        assert world.service.state.desired.background == {}
    epoch = world.service.state.epoch
    assert look(world)
    state = world.service.state
    assert (state.desired.background, state.epoch > epoch) == ({busy: 1}, True)
    assert uplink(world) != busy
    assert not look(world), "other rules count other flows"
    counting.poll({busy: 4.4}, 3 * POLLS)
    assert not look(world)
    assert world.service.state.epoch == state.epoch
    world.until(lambda: state.epoch in world.store.records)
    assert world.store.records[state.epoch].cause == "scheduled look: another plan pays"


def test_a_scheduled_look_moves_nothing_for_a_load_that_slows_nothing_down(world: World) -> None:
    world.put("a", [flow("h1", "h3")])
    world.service.set_learning("act", ANN)
    counting, busy = Counting(world.planned()), uplink(world)
    other = next(name for name in FABRIC.link_ids if name.partition("-")[0] == busy.partition("-")[0] and name != busy)
    state = world.service.state
    counting.poll({other: 4.4}, 3 * POLLS)
    assert not look(world)
    assert world.service.state is state


def test_a_scheduled_look_changes_nothing_without_acting_or_once_the_plan_has_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.put("a", [flow("h1", "h3")])
    counting, busy = Counting(world.planned()), uplink(world)
    counting.poll({busy: 4.4}, 3 * POLLS)
    assert not look(world), "learning = observe"
    world.service.set_learning("act", ANN)
    counting.poll({busy: 4.4}, 3 * POLLS)
    waited: list[bool] = []

    def wait() -> None:
        """Let a client change the jobs meanwhile."""
        waited.append(True)
        world.put("b", [flow("h2", "h4")])

    monkeypatch.setattr(world.service._acting.scheduled, "_wait_for_idle", wait)
    assert not look(world)
    assert (waited, world.service.state.desired.background) == ([True], {})
