"""Jobs, their history and their schedule."""

from __future__ import annotations

from http import HTTPStatus

import falcon

from controller.core.caller import Role
from controller.core.ports.api import Backend
from controller.rest import schemas
from controller.rest.operation import Body, Call, Operation, Resource
from controller.rest.resources.answers import answer_job, answering, reading
from controller.rest.resources.parameters import NAME
from controller.workload.import_form import BodyForm
from controller.workload.job_file import JobForm

EXAMPLE_JOB = {
    "hosts": ["h1", "h5", "h9", "h13"],
    "collectives": [
        {"name": "dp0", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 1_000_000_000}
    ],
}


def _put_job(backend: Backend, call: Call, response: falcon.Response) -> None:
    outcome = backend.put_job(call.values["name"], call.body, call.condition, call.who)
    answer_job(response, outcome.job)
    if outcome.created:
        response.status = HTTPStatus.CREATED
        # Not Falcon's property, which would encode the path once more.
        response.set_header("Location", call.request.path)


def _delete_job(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.delete_job(call.values["name"], call.condition, call.who)
    response.status = HTTPStatus.NO_CONTENT


JOB_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "job",
        "/v1/jobs/{name}",
        {
            "GET": Operation(
                "getJob",
                lambda backend, call, response: answer_job(response, backend.job(call.values["name"])),
                "A job with its part of the plan",
                {200: schemas.JobDocument},
                problems=frozenset({404}),
                tagged=True,
                description="The ETag identifies the job as it was sent, not the plan computed for it.",
                of_store=True,
            ),
            "PUT": Operation(
                "putJob",
                _put_job,
                "Create or replace a job, and return it with its part of the plan",
                {200: schemas.JobDocument, 201: schemas.JobDocument},
                role=Role.WRITE,
                of_tenant=True,
                body=Body(JobForm, EXAMPLE_JOB, most_bytes=None, or_form=BodyForm),
                conditional=True,
                tagged=True,
            ),
            "DELETE": Operation(
                "deleteJob",
                _delete_job,
                "Delete a job and remove its rules from the switches",
                {204: None},
                role=Role.WRITE,
                of_tenant=True,
                problems=frozenset({404}),
                conditional=True,
            ),
        },
        variables=(NAME,),
    ),
    Resource(
        "job_shift",
        "/v1/jobs/{name}/schedule",
        {
            "GET": Operation(
                "getJobSchedule",
                answering(lambda backend, call: backend.job_shift(call.values["name"])),
                "When the iterations of a job begin",
                {200: schemas.JobShiftDocument},
                problems=frozenset({404}),
                of_store=True,
            )
        },
        variables=(NAME,),
    ),
    Resource(
        "job_history",
        "/v1/jobs/{name}/history",
        {
            "GET": Operation(
                "getJobHistory",
                answering(lambda backend, call: backend.job_history(call.values["name"])),
                "The speed of a job in the last 24 hours",
                {200: schemas.HistoryDocument},
                problems=frozenset({404}),
            )
        },
        variables=(NAME,),
    ),
    Resource(
        "schedule",
        "/v1/schedule",
        {
            "GET": reading(
                "getSchedule",
                lambda b: b.schedule(),
                "When the iterations of all jobs begin",
                schemas.ScheduleDocument,
                of_store=True,
            )
        },
    ),
    Resource(
        "jobs", "/v1/jobs", {"GET": reading("listJobs", lambda b: b.jobs(), "All jobs", schemas.JobList, of_store=True)}
    ),
)
