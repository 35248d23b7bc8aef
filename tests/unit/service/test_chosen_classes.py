"""The running controller chooses classes of priority for jobs, and tells their hosts."""

from __future__ import annotations

import json
from typing import Any

from controller.core.ports.api import UNCONDITIONAL
from controller.model.files.clos import clos
from controller.model.priority import DSCP
from controller.rest import schemas
from tests.unit.service.world import ANN, FakeStore, World, flow
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(1, 2, 2)
TENTH = 10**10 // 8  # bytes of 0.1 s at 100 Gbit/s


def world(store: FakeStore | None = None) -> World:
    return World(FABRIC, seen(FABRIC), store, policy_options="classes=2").planned()


def put(there: World, name: str, src: str, dst: str, **more: Any) -> None:
    body = {"flows": [flow(src, dst, TENTH)], "compute_seconds": 0.1, **more}
    there.service.put_job(name, json.dumps(body).encode(), UNCONDITIONAL, ANN)


def chosen(there: World) -> dict[str, int]:
    """Return the chosen classes by job, as the plan has them; its document has its declared shape."""
    plan = there.read(lambda service: service.plan())
    schemas.PlanDocument.model_validate_json(json.dumps(plan))
    return {row["job"]: row["class"] for row in plan["plan"].get("classes", [])}


def marked(there: World, host: str) -> int:
    """Return the DSCP with which a host is told to mark its one flow."""
    (row,) = there.read(lambda service: service.routes(host))["flows"]
    return int(row.get("dscp", DSCP[0]))


def test_hosts_are_told_the_chosen_classes_also_after_a_restart() -> None:
    store = FakeStore()
    first = world(store)
    put(first, "a", "h1", "h3")
    assert chosen(first) == {}
    put(first, "b", "h2", "h4")
    classes = chosen(first)
    assert sorted(classes.values()) == [0, 1]
    assert {"a": marked(first, "h1"), "b": marked(first, "h2")} == {name: DSCP[q] for name, q in classes.items()}
    listed = schemas.JobList.model_validate_json(json.dumps(first.read(lambda service: service.jobs()))).jobs
    assert {row.name: (row.classes or [0])[0] for row in listed} == classes
    first.settle()
    first.close()
    second = world(store)
    try:
        assert chosen(second) == classes
        assert {"a": marked(second, "h1"), "b": marked(second, "h2")} == {name: DSCP[q] for name, q in classes.items()}
        second.delete("a")
        assert chosen(second) == {}
    finally:
        second.close()


def test_a_job_that_states_its_class_keeps_it() -> None:
    there = world()
    try:
        put(there, "a", "h1", "h3", **{"class": 1})
        put(there, "b", "h2", "h4")
        assert marked(there, "h1") == DSCP[1]
        assert marked(there, "h2") == DSCP[0]
    finally:
        there.close()
