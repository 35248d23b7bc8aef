"""The service between its doors, on threads in place of greenlets: what is answered, refused, and held back."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import Any

import pytest

from controller.config import Settings
from controller.model.clos import clos
from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.model.fabric import Fabric
from controller.model.observed import Observed
from controller.service import service as module
from controller.service.admission import Admission
from controller.service.service import Service
from controller.service.step import Step
from tests.unit.southbound.test_cabling import seen

JOB = json.dumps({"flows": [{"src": "h1", "dst": "h2", "bytes": 1000}]}).encode()
OTHER = json.dumps({"flows": [{"src": "h2", "dst": "h1", "bytes": 1000}]}).encode()


class Threads:
    """A runtime of threads; heavy work is done on the spot."""

    def spawn(self, task: Callable[[], None]) -> None:
        threading.Thread(target=task, daemon=True).start()

    def sleep(self, seconds: float) -> None:
        time.sleep(0)

    def signal(self) -> threading.Event:
        return threading.Event()

    def lock(self) -> AbstractContextManager[Any]:
        return threading.Lock()

    def offload(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    def start_process(self, command: list[str]) -> Any:
        raise AssertionError("small jobs need no process")

    def now(self) -> float:
        return 0.0

    def clock(self) -> float:
        return 0.0


class World:
    """A service, what it is shown, and what it installed."""

    def __init__(self, intended: Fabric | None, observed: Observed, **settings: Any) -> None:
        runtime = Threads()
        self.observed = observed
        self.installed: list[Step] = []
        self.switches = [SimpleNamespace(dpid=1, name="leaf1", epoch=-1, error="")]
        self.service = Service(
            Settings(debounce_ms=0, **settings),
            intended,
            runtime,
            observe=lambda: self.observed,
            install=self.installed.append,
            switches=lambda: self.switches,
            admission=Admission(runtime),
        )
        self.service.start()

    def until(self, ready: Callable[[], bool]) -> None:
        for _ in range(500):
            if ready():
                return
            time.sleep(0.01)
        raise AssertionError("it did not come about")


@pytest.fixture
def fabric() -> Fabric:
    return clos(2, 2, 1)


@pytest.fixture
def world(fabric: Fabric) -> World:
    made = World(fabric, seen(fabric))
    made.until(lambda: made.service.step.plan is not None)
    return made


def test_a_job_that_is_answered_is_in_the_plan_and_stays_until_it_is_deleted(world: World) -> None:
    outcome = world.service.put_job("a", JOB)
    assert outcome.created
    assert json.loads(outcome.document)["flows"][0]["id"] == "a/all/0"
    assert world.installed[-1].traffic.n_flows == 1
    assert not world.service.put_job("a", JOB).created
    assert not world.service.put_job("a", OTHER).created
    assert world.installed[-1].traffic.src.tolist() == [1]
    world.service.delete_job("a")
    assert world.installed[-1].traffic.n_flows == 0
    with pytest.raises(NotFoundError):
        world.service.delete_job("a")


def test_the_same_job_again_makes_no_new_plan(world: World) -> None:
    world.service.put_job("a", JOB)
    epoch = world.service.step.epoch
    world.service.put_job("a", JOB)
    assert world.service.step.epoch == epoch


def test_a_job_for_which_no_plan_can_be_made_is_refused_and_the_others_go_on(world: World, monkeypatch: Any) -> None:
    world.service.put_job("good", JOB)
    real = module.advance

    def broken(settings: Any, intended: Any, observed: Any, jobs: Any, *rest: Any) -> Step:
        if any(job.name == "bad" for job in jobs):
            raise RuntimeError("no")
        return real(settings, intended, observed, jobs, *rest)

    monkeypatch.setattr(module, "advance", broken)
    with pytest.raises(UnavailableError, match="RuntimeError: no"):
        world.service.put_job("bad", OTHER)
    with pytest.raises(NotFoundError):
        world.service.job("bad")
    world.service.put_job("next", OTHER)
    assert {job.name for job in world.service.step.jobs} == {"good", "next"}


def test_a_network_that_cannot_be_read_once_costs_one_plan_and_not_the_service(world: World) -> None:
    whole, world.observed = world.observed, None  # type: ignore[assignment]
    world.service.network_changed()
    world.until(lambda: "no new plan" in str(world.service.health()["reasons"]))  # type: ignore[index, call-overload]
    world.observed = whole
    assert world.service.put_job("a", JOB).created
    assert "no new plan" not in str(world.service.health())


def test_more_flows_than_allowed_are_refused_over_all_jobs(fabric: Fabric) -> None:
    world = World(fabric, seen(fabric), max_flows=1)
    world.until(lambda: world.service.step.plan is not None)
    world.service.put_job("a", JOB)
    with pytest.raises(InputError, match="room for 0") as caught:
        world.service.put_job("b", OTHER)
    assert caught.value.field == "flows"
    assert not world.service.put_job("a", OTHER).created


def test_while_switches_have_only_begun_to_connect_only_the_intended_fabric_is_installed(fabric: Fabric) -> None:
    world = World(fabric, Observed(starting=True))
    world.until(lambda: world.service.step.plan is not None)
    assert world.installed == []
    world.observed = seen(fabric)
    world.service.network_changed()
    world.until(lambda: len(world.installed) == 1)


def test_discovery_alone_installs_nothing_while_switches_have_only_begun_to_connect(fabric: Fabric) -> None:
    shown = seen(fabric, hosts=True)
    world = World(None, dataclasses.replace(shown, starting=True))
    world.until(lambda: world.service.step.plan is not None)
    assert world.installed == []
    world.observed = shown
    world.service.network_changed()
    world.until(lambda: len(world.installed) == 1)


def test_a_plan_is_active_while_every_switch_holds_it_and_not_when_one_comes_back_without(world: World) -> None:
    epoch = world.service.step.epoch
    assert json.loads(world.service.plan())["active"] is None  # type: ignore[arg-type]
    world.switches[0].epoch = epoch
    world.service.settled()
    assert json.loads(world.service.plan())["active"]["epoch"] == epoch  # type: ignore[arg-type]
    world.switches[0].epoch = -1
    world.service.settled()
    assert json.loads(world.service.plan())["active"] is None  # type: ignore[arg-type]
