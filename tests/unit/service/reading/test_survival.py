"""Failure analyses of a running controller: what they tell is what then happens, and nothing changes before."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from functools import partial
from typing import Any

import pytest

from controller.model.errors import InputError, UnavailableError
from controller.model.files.clos import clos
from controller.planning.survival import one_by_one
from controller.rest.schemas import SurvivalDocument
from controller.views import survival
from controller.views.survival import MOST_IN_SEQUENCE
from tests.unit.service.world import ANN, Threads, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(3, 3, 2)
JOBS = {"a": [flow("h1", "h3"), flow("h2", "h4")], "b": [flow("h3", "h5"), flow("h4", "h6")]}


@pytest.fixture
def world() -> World:
    return planned_world()


def planned_world() -> World:
    made = World(FABRIC, seen(FABRIC)).planned()
    for name, flows in JOBS.items():
        made.put(name, flows)
    return made.planned()


def asked(world: World, gone: Any = lambda: False, **form: Any) -> SurvivalDocument:
    body = json.dumps(form).encode()
    return SurvivalDocument.model_validate(dict(world.service.survive(body, gone)))  # type: ignore[arg-type]


def test_the_speeds_are_those_that_jobs_then_have(world: World) -> None:
    state = world.service.state
    told = asked(world, kinds=["spine"])
    assert world.service.state is state
    assert told.jobs == list(JOBS)
    assert len(told.failures) == FABRIC.n_spines
    for row in told.failures:
        without = FABRIC.without_links(row.names)
        world.show(seen(without), partial(lambda fabric, state: state.fabric == fabric, without))
        slowdown = world.service.state.speeds.slowdown
        assert slowdown is not None
        assert [1 / slowdown[job] for job in told.jobs] == pytest.approx(row.speeds)
        world.show(seen(FABRIC), lambda state: state.fabric == FABRIC)


def test_what_is_drained_comes_back_where_a_failure_leaves_nothing_else(world: World) -> None:
    for spine in ("spine2", "spine3"):
        world.service.drain(spine, True, ANN)
    (row,) = asked(world, kinds=["spine"]).failures
    assert row.names == ["spine1"]
    assert row.unroutable == 0
    assert row.min_speed > 0


def test_pairs_and_sequences_are_analysed_on_request(world: World) -> None:
    told = asked(world, kinds=["spine"], pairs=True, above=0.9)
    names = {tuple(sorted(row.names)) for row in told.failures}
    assert names == set(itertools.combinations(("spine1", "spine2", "spine3"), 2))
    assert told.sequence is not None
    assert 0 < len(told.sequence) <= MOST_IN_SEQUENCE
    assert told.bears_at_most == len(told.sequence) - 1
    assert all(row.min_speed >= 0.9 for row in told.sequence[:-1])
    assert told.sequence[-1].min_speed < 0.9


def test_many_failures_are_computed_in_another_process_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start(_runtime: Threads, command: list[str]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(Threads, "start_process", start)
    world = planned_world()
    here = asked(world, above=0.9)
    assert not started
    monkeypatch.setattr(survival, "PART", 4)
    there = asked(world, above=0.9)
    world.service.close()
    assert [process.wait() for process in started] == [-signal.SIGKILL]
    assert there == here


def test_an_analysis_ends_with_its_client_and_leaves_room_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival, "PART", 1)
    monkeypatch.setattr(world.service._analyst, "outcomes", one_by_one)
    looks = iter([False, False, True])
    with pytest.raises(UnavailableError, match="the client has disconnected"):
        asked(world, lambda: next(looks))
    assert next(looks, None) is None
    assert asked(world).failures


@pytest.mark.parametrize(
    ("form", "field"),
    [({"kinds": ["leaf"]}, "kinds[0]"), ({"kinds": []}, "kinds"), ({"above": 2}, "above"), ({"colour": 1}, "colour")],
)
def test_bad_requests_say_which_field(world: World, form: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(world, **form)
    assert caught.value.field == field


def test_too_many_failures_are_refused_before_any_is_analysed() -> None:
    large = clos(16, 16, 1)
    world = World(large, seen(large)).planned()
    with pytest.raises(InputError, match="32,640 failures are too many") as caught:
        asked(world, lambda: pytest.fail("nothing is analysed"), kinds=["cable"], pairs=True)
    assert caught.value.field == "pairs"
