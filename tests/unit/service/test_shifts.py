"""The running controller tells jobs when their iterations begin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller.core.ports.api import UNCONDITIONAL
from controller.model.errors import NotFoundError
from controller.model.files.clos import clos
from tests.unit.service.world import ANN, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(1, 2, 2)
TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s
ADVISE = "shifts=advise,rounds=5000"


def world(store: FakeStore | None = None, options: str = ADVISE) -> World:
    return World(FABRIC, seen(FABRIC), store, policy_options=options).planned()


def put(there: World, name: str, src: str, dst: str, **times: Any) -> None:
    body = {"flows": [flow(src, dst, TENTH)], **times}
    there.service.put_job(name, json.dumps(body).encode(), UNCONDITIONAL, ANN)


def shifts(there: World) -> dict[str, dict[str, Any]]:
    schedule = there.read(lambda service: service.schedule())["schedule"]
    return {row["job"]: row for row in schedule["jobs"]}


def test_jobs_that_share_a_link_are_told_to_send_by_turns_and_an_event_names_them() -> None:
    there = world()
    reader = there.service.subscribe(None)
    try:
        assert there.read(lambda service: service.schedule())["schedule"] is None
        put(there, "a", "h1", "h3", compute_seconds=0.1)
        put(there, "b", "h2", "h4", compute_seconds=0.1)
        rows = shifts(there)
        apart = abs(rows["a"]["shift_seconds"] - rows["b"]["shift_seconds"])
        assert apart == pytest.approx(0.1, abs=1e-3)
        assert there.read(lambda service: service.job_shift("b")) == {
            "epoch": there.service.state.epoch,
            "shift": rows["b"],
        }
        told = [event.data["jobs"] for event in reader.wait(0) if event.kind == "schedule"]
        assert told == [["a"], ["b"]]
        with pytest.raises(NotFoundError):
            there.service.job_shift("c")
        there.delete("b")
        assert shifts(there).keys() == {"a"}
    finally:
        reader.close()
        there.close()


def test_a_job_without_computing_times_is_told_nothing() -> None:
    there = world()
    try:
        put(there, "a", "h1", "h3", compute_seconds=0.1)
        put(there, "b", "h2", "h4")
        assert there.read(lambda service: service.job_shift("b"))["shift"] is None
        assert shifts(there).keys() == {"a"}
    finally:
        there.close()


def test_without_the_option_nobody_is_told_anything() -> None:
    there = world(options="")
    try:
        put(there, "a", "h1", "h3", compute_seconds=0.1)
        assert there.read(lambda service: service.schedule())["schedule"] is None
        assert there.read(lambda service: service.job_shift("a"))["shift"] is None
    finally:
        there.close()


def test_a_restarted_controller_tells_the_same_shifts() -> None:
    store = FakeStore()
    first = world(store)
    put(first, "a", "h1", "h3", compute_seconds=0.1)
    put(first, "b", "h2", "h4", compute_seconds=0.11)
    first.settle()
    before = shifts(first)
    first.close()
    second = world(store)
    try:
        assert shifts(second) == before
    finally:
        second.close()
