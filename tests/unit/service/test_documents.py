"""What readers of the HTTP interface are told of a step."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.planning.make_plan import make_plan
from controller.rest import schemas
from controller.service import documents
from controller.service.step import Admitted, Step
from controller.southbound.cabling import Survey
from controller.workload.expand import JobTraffic, combine, expand
from controller.workload.job_file import parse_job
from tests.unit.workload.documents import FABRIC, HOSTS, jobs

ACTIVE = st.none() | st.tuples(st.integers(0, 9), st.floats(0, 2e9))


def step_of(fabric: Fabric, descriptions: list[dict[str, Any]], epoch: int = 5) -> Step:
    admitted: list[JobTraffic] = []
    for i, description in enumerate(descriptions):
        admitted.append(expand(FABRIC, parse_job(description | {"name": f"job{i}"}), admitted))
    traffic = combine(admitted)
    return Step(
        epoch=epoch,
        survey=Survey(fabric, ()),
        jobs=tuple(Admitted(job.name, b"", job) for job in admitted),
        traffic=traffic,
        plan=make_plan(fabric, traffic, policy="greedy", clock=lambda: 0.0),
    )


STEPS = st.builds(
    step_of,
    st.sampled_from([FABRIC, FABRIC.without_links(["leaf1-spine1"]), FABRIC.without_links(["leaf1"])]),
    st.lists(jobs(claims=False), max_size=3),
)


@given(STEPS, ACTIVE)
def test_every_document_has_its_declared_shape(step: Step, active: tuple[int, float] | None) -> None:
    plan = schemas.PlanDocument.model_validate_json(documents.plan(step, 1.5, active))
    assert (plan.computed.epoch, plan.computed.since.timestamp()) == (5, 1.5)
    assert (plan.active.epoch if plan.active else None) == (active[0] if active else None)
    listed = schemas.JobList.model_validate_json(documents.jobs(step, active)).jobs
    assert [row.name for row in listed] == [job.name for job in step.jobs]
    for row in listed:
        shown = schemas.JobDocument.model_validate_json(documents.job(step, row.name, active))
        assert (shown.name, shown.weight, shown.bytes, shown.min_speed, shown.active) == (
            row.name,
            row.weight,
            row.bytes,
            row.min_speed,
            row.active,
        )
        assert (shown.epoch, len(shown.flows), len(shown.collectives)) == (5, row.flows, row.collectives)
    for host in HOSTS:
        routes = schemas.Routes.model_validate_json(documents.routes(step, host))
        assert (routes.host, routes.epoch) == (host, 5)


@given(ACTIVE)
def test_a_job_is_active_once_the_switches_enforce_the_newest_plan(active: tuple[int, float] | None) -> None:
    step = step_of(FABRIC, [{}])
    told = orjson.loads(documents.job(step, "job0", active))["active"]
    assert told == (active is not None and active[0] >= 5)
    assert orjson.loads(documents.jobs(step, active))["jobs"][0]["active"] == told


def test_jobs_are_listed_without_speed_and_nothing_else_is_answered_while_there_is_no_plan() -> None:
    planned = step_of(FABRIC, [{"flows": [{"src": "h1", "dst": "h4", "bytes": 8}]}])
    step = Step(jobs=planned.jobs)
    (row,) = schemas.JobList.model_validate_json(documents.jobs(step, None)).jobs
    assert (row.bytes, row.flows, row.min_speed) == (8, 1, None)
    for answer in (
        lambda: documents.job(step, "job0", None),
        lambda: documents.plan(step, 0.0, None),
        lambda: documents.routes(step, "h1"),
    ):
        with pytest.raises(UnavailableError):
            answer()
