"""Sightings, and the jobs that are learned from them."""

from __future__ import annotations

from http import HTTPStatus

import falcon

from controller.core.caller import Role
from controller.core.ports.api import Backend, Document
from controller.rest import schemas
from controller.rest.forms import read_form
from controller.rest.operation import Body, Call, Operation, Resource
from controller.rest.resources.answers import answer_job, answering, reading, refuse_members
from controller.rest.resources.parameters import NAME

MOST_SIGHTING_BYTES = 8 << 20


EXAMPLE_SIGHTINGS = {
    "qps": [{"src": "h1", "dst": "h5", "udp_src": 49152, "dst_qp": 17}],
    "qp": [0, 0],
    "at": [1700000000.0, 1700000000.5],
    "bytes": [0, 1_000_000_000],
}


def _set_learning(backend: Backend, call: Call) -> Document:
    return backend.set_learning(read_form(call.body, schemas.LearningForm).learning, call.who)


def _forget_learned(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.forget_learned(call.values["name"])
    response.status = HTTPStatus.NO_CONTENT


def _adopt(backend: Backend, call: Call, response: falcon.Response) -> None:
    refuse_members(call.body)
    answer_job(response, backend.adopt(call.values["name"], call.who).job)
    response.status = HTTPStatus.CREATED


LEARNING_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "learning",
        "/v1/learning",
        {
            "GET": reading(
                "getLearning",
                lambda b: b.learning(),
                "Whether jobs are learned from their traffic, and planned",
                schemas.LearningDocument,
            ),
            "PUT": Operation(
                "putLearning",
                answering(_set_learning),
                "Learn no jobs, show learned jobs, or plan them, too",
                {200: schemas.LearningDocument},
                role=Role.WRITE,
                body=Body(schemas.LearningForm, {"learning": "act"}),
            ),
        },
    ),
    Resource(
        "sightings",
        "/v1/sightings",
        {
            "POST": Operation(
                "postSightings",
                answering(lambda backend, call: backend.see(call.body)),
                "Report how much QPs have sent, for learning",
                {200: schemas.SightingsTaken},
                role=Role.WRITE,
                body=Body(schemas.SightingsForm, EXAMPLE_SIGHTINGS, most_bytes=MOST_SIGHTING_BYTES),
                problems=frozenset({409}),
                description="Sightings of one QP must come in order of time; older ones are ignored. 409: "
                "learning is off.",
            )
        },
    ),
    Resource(
        "learned",
        "/v1/learned",
        {"GET": reading("listLearned", lambda b: b.learned(), "Jobs learned from sightings", schemas.LearnedList)},
    ),
    Resource(
        "adopt",
        "/v1/learned/{name}:adopt",
        {
            "POST": Operation(
                "adoptLearned",
                _adopt,
                "Push a learned job under its name",
                {201: schemas.JobDocument},
                role=Role.WRITE,
                body=Body(schemas.EmptyForm, {}, optional=True),
                problems=frozenset({404, 412}),
                tagged=True,
            )
        },
        variables=(NAME,),
    ),
    Resource(
        "learned_job",
        "/v1/learned/{name}",
        {
            "GET": Operation(
                "getLearned",
                answering(lambda backend, call: backend.learned_job(call.values["name"])),
                "A learned job with its job document",
                {200: schemas.LearnedDocument},
                problems=frozenset({404}),
            ),
            "DELETE": Operation(
                "forgetLearned",
                _forget_learned,
                "Forget a learned job until it is seen again",
                {204: None},
                role=Role.WRITE,
                problems=frozenset({404}),
            ),
        },
        variables=(NAME,),
    ),
)
