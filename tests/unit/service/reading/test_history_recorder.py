"""The history of links and jobs: what the newest counters and the rules in force say, and nothing that is not known."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import NotFoundError
from controller.model.files.clos import clos
from controller.rest import schemas
from controller.service.reading.history_recorder import PERIOD, until_sample
from controller.telemetry.falling_series import RESOLUTIONS
from tests.unit.service.world import World, flow
from tests.unit.southbound.cabling.networks import seen
from tests.unit.telemetry.readings import counted

FABRIC = clos(2, 2, 2)
LINK = "leaf1->spine2"


def newest(told: schemas.HistoryDocument) -> list[tuple[float | None, float | None]]:
    """The last slots, finest resolution first."""
    assert [(one.step_seconds, len(one.mean)) for one in told.series] == [(each.step, 1) for each in RESOLUTIONS]
    return [(one.mean[-1], one.worst[-1]) for one in told.series]


def link(world: World, name: str) -> schemas.HistoryDocument:
    return schemas.HistoryDocument.model_validate(world.read(lambda service: service.link_history(name)))


def job(world: World, name: str) -> schemas.HistoryDocument:
    return schemas.HistoryDocument.model_validate(world.read(lambda service: service.job_history(name)))


def test_the_load_of_a_link_is_that_of_its_counters_and_unknown_without() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    assert link(world, LINK).series == [], "no sample yet"
    world.service.recorder.sample()
    assert newest(link(world, LINK)) == [(None, None)] * 3
    sent = np.zeros(FABRIC.n_links)
    for seconds in (0, 1, 2):
        # A quarter of 100 Gbit/s in the first second, half in the second.
        sent[FABRIC.link_index[LINK]] += seconds * 100e9 / 8 / 4
        for reading in counted(FABRIC, sent, float(seconds)).values():
            world.readings.add(reading)
        if seconds:
            world.service.recorder.sample()
    told = newest(link(world, LINK))
    assert [mean for mean, _ in told] == [pytest.approx(0.375, abs=0.006)] * 3
    assert [worst for _, worst in told] == [pytest.approx(0.5, abs=0.006)] * 3
    assert newest(link(world, "spine2->leaf1")) == [(0.0, 0.0)] * 3


def test_the_speed_of_a_job_is_recorded_while_all_switches_have_its_rules_and_goes_with_the_job() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    world.put("a", [flow("h1", "h3"), flow("h2", "h3")])
    world.service.recorder.sample()
    assert newest(job(world, "a")) == [(None, None)] * 3, "not confirmed"
    dpids = [switch.dpid for switch in FABRIC.switches]
    epoch = world.service.state.enforced
    world.southbound.reports = [
        SimpleNamespace(key=dpid, name=str(dpid), epoch=epoch, error="", missing=(), connected=True, waits_for=())
        for dpid in dpids
    ]
    world.service.recorder.sample()
    speed = world.read(lambda service: service.jobs())["jobs"][0]["speed"]
    assert newest(job(world, "a")) == [(pytest.approx(speed, abs=1e-4),) * 2] * 3
    world.delete("a")
    with pytest.raises(NotFoundError):
        world.service.job_history("a")
    world.service.recorder.sample()
    world.put("a", [flow("h1", "h3")])
    assert job(world, "a").series == [], "another job of that name begins anew"


def test_there_is_no_history_of_what_there_is_not() -> None:
    world = World(FABRIC, seen(FABRIC)).planned()
    for unknown in ("leaf1-spine2", "leaf9->spine1", ""):
        with pytest.raises(NotFoundError):
            world.service.link_history(unknown)


@given(st.floats(0, 1e6), st.lists(st.floats(0, 0.4 * PERIOD), max_size=200))
def test_no_slot_is_left_out_however_long_each_sample_takes(clock: float, delays: list[float]) -> None:
    slots = []
    for delay in delays:
        clock += until_sample(clock) + delay
        slots.append(clock // PERIOD)
    assert all(after - before <= 1 for before, after in pairwise(slots))
