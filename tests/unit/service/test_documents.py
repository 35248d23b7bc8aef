"""What readers of the HTTP interface are told of a step."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.config import Settings
from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.rest import schemas
from controller.rest.backend import Mode
from controller.service import documents
from controller.service.draft import make_draft
from controller.service.step import Step
from controller.service.wanted import Admitted, Wanted
from controller.southbound.cabling import Survey
from controller.workload.expand import JobTraffic, expand
from controller.workload.job_file import parse_job
from tests.unit.workload.documents import FABRIC, HOSTS, jobs

ACTIVE = st.none() | st.tuples(st.integers(0, 9), st.floats(0, 2e9))


def step_of(fabric: Fabric, descriptions: list[dict[str, Any]], epoch: int = 5, mode: Mode = "planned") -> Step:
    admitted: list[JobTraffic] = []
    for i, description in enumerate(descriptions):
        admitted.append(expand(FABRIC, parse_job(description | {"name": f"job{i}"}), admitted))
    jobs = tuple(Admitted(job.name, b"{}", "r1", i, 7.5, "ann", job.udp_src, job) for i, job in enumerate(admitted))
    wanted = Wanted(jobs, mode=mode)
    draft = make_draft(Settings(policy="greedy"), None, fabric, wanted, None, lambda: 0.0)
    return Step(epoch=epoch, survey=Survey(fabric, ()), wanted=wanted, draft=draft, enforced=epoch)


STEPS = st.builds(
    step_of,
    st.sampled_from([FABRIC, FABRIC.without_links(["leaf1-spine1"]), FABRIC.without_links(["leaf1"])]),
    st.lists(jobs(claims=False), max_size=3),
    mode=st.sampled_from(["planned", "ecmp", "frozen"]),
)


@given(STEPS, ACTIVE)
def test_every_document_has_its_declared_shape(step: Step, active: tuple[int, float] | None) -> None:
    plan = schemas.PlanDocument.model_validate_json(documents.plan(step, 1.5, active))
    assert (plan.mode, plan.computed.epoch, plan.computed.since.timestamp()) == (step.wanted.mode, 5, 1.5)
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
        assert (routes.host, routes.mode, routes.epoch) == (host, step.wanted.mode, 5)
        if step.wanted.mode == "ecmp":
            assert not any(piece.path or piece.links for flow in routes.flows for piece in flow.pieces)


@given(ACTIVE)
def test_a_job_is_active_once_the_switches_enforce_the_newest_plan(active: tuple[int, float] | None) -> None:
    step = step_of(FABRIC, [{}])
    told = orjson.loads(documents.job(step, "job0", active))["active"]
    assert told == (active is not None and active[0] >= 5)
    assert orjson.loads(documents.jobs(step, active))["jobs"][0]["active"] == told


def test_nothing_is_active_while_the_switches_hash_everything() -> None:
    step = step_of(FABRIC, [{}], mode="ecmp")
    assert not orjson.loads(documents.job(step, "job0", (5, 0.0)))["active"]


def test_a_job_that_is_left_out_is_listed_with_the_reason() -> None:
    job = Admitted("a", b'{"weight": 2.5}', "r", 0, 7.5, "ann", np.zeros(3, np.int32), None, "hosts[0]: no such host")
    known = step_of(FABRIC, [])
    step = dataclasses.replace(known, wanted=Wanted((job,)))
    (row,) = schemas.JobList.model_validate_json(documents.jobs(step, (9, 0.0))).jobs
    assert (row.flows, row.weight, row.active, row.left_out) == (0, 2.5, False, "hosts[0]: no such host")
    shown = schemas.JobDocument.model_validate_json(documents.job(step, "a", (9, 0.0)))
    assert (shown.flows, shown.left_out) == ([], "hosts[0]: no such host")


def test_jobs_are_listed_without_speed_and_nothing_else_is_answered_while_there_is_no_plan() -> None:
    planned = step_of(FABRIC, [{"flows": [{"src": "h1", "dst": "h4", "bytes": 8}]}])
    step = Step(wanted=planned.wanted)
    (row,) = schemas.JobList.model_validate_json(documents.jobs(step, None)).jobs
    assert (row.bytes, row.flows, row.min_speed) == (8, 1, None)
    for answer in (
        lambda: documents.job(step, "job0", None),
        lambda: documents.plan(step, 0.0, None),
        lambda: documents.routes(step, "h1"),
    ):
        with pytest.raises(UnavailableError):
            answer()
