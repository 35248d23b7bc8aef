"""The resources of the HTTP interface, their operations, and how each is answered.

``RESOURCES`` is the one table of them: ``controller.rest.api`` routes by it, and ``/openapi.json`` is made from it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated

import falcon
import orjson
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from controller.core.caller import Role
from controller.core.ports.api import Backend, Document, JobAnswer, Under, etag
from controller.model.errors import InputError
from controller.rest import schemas
from controller.rest.events import EventStream
from controller.rest.forms import read_form
from controller.rest.openapi import openapi_document
from controller.rest.operation import (
    EVENT_STREAM,
    JSON,
    OPEN_METRICS,
    PROMETHEUS,
    Body,
    Call,
    Operation,
    Parameter,
    Resource,
)
from controller.workload.import_form import BodyForm
from controller.workload.job_file import JobForm

MOST_SIGHTING_BYTES = 8 << 20


def _decimal(text: str) -> str:
    """Refuse the other spellings of integers that pydantic reads, so that equal paths are equal strings."""
    if not re.fullmatch(r"0|[1-9][0-9]*", text):
        raise ValueError("must be an integer in decimal digits")
    return text


EventId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
EventCount = Annotated[int, Field(ge=0, le=schemas.MOST_EVENTS), BeforeValidator(_decimal)]
EpochNumber = Annotated[int, Field(ge=0, le=schemas.LARGEST_EPOCH), BeforeValidator(_decimal)]
PageSize = Annotated[int, Field(ge=1, le=schemas.MOST_PLANS, default=50), BeforeValidator(_decimal)]

NAME = Parameter("name", "the job's name", schemas.JobName, "gpt3-a", place="path")
LINK = Parameter("id", "id of a cable (leaf1-spine2), a spine or a leaf", schemas.ThingId, "leaf1-spine2", place="path")
EPOCH = Parameter("epoch", "the plan's number", EpochNumber, 7, place="path")
HOST = Parameter("host", "name of the sending host", schemas.ThingId, "h1", required=True)
BEFORE = Parameter("before", "only plans with a smaller number", EpochNumber, 100)
LIMIT = Parameter("limit", "plans in one answer", PageSize, 20)
UNDER = Parameter("under", "plan (the default), or ecmp: the loads of the same flows under ECMP hashing", Under, "ecmp")
AFTER = Parameter("after", "id of the last event received: continue after it", EventId, "6a0f-41")
DIRECTED = Parameter("id", "id of a directed link", schemas.ThingId, "leaf1->spine2", place="path")
LAST = Parameter("last", "begin with so many earlier events", EventCount, 100)
SINCE = Parameter("since", "version of an earlier list: only links that have changed", EventId, "6a0f-p-41")
JOB = Parameter("job", "only this job's flows", schemas.JobName, "gpt3-a")
COMPARE = Parameter("compare", "a policy to compare with", Annotated[str, StringConstraints(pattern="^ecmp$")], "ecmp")
LAST_EVENT_ID = Parameter(
    "Last-Event-ID", "like ?after=, over which it has priority; browsers send it", EventId, "6a0f-41", place="header"
)

EXAMPLE_JOB = {
    "hosts": ["h1", "h5", "h9", "h13"],
    "collectives": [
        {"name": "dp0", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 1_000_000_000}
    ],
}


EXAMPLE_SIGHTINGS = {
    "qps": [{"src": "h1", "dst": "h5", "udp_src": 49152, "dst_qp": 17}],
    "qp": [0, 0],
    "at": [1700000000.0, 1700000000.5],
    "bytes": [0, 1_000_000_000],
}


def _document(response: falcon.Response, document: Document) -> None:
    encoded = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    response.content_type, response.data = JSON, encoded


def _job(response: falcon.Response, job: JobAnswer) -> None:
    _document(response, job.document)
    response.etag = etag(job.revision)


def _put_job(backend: Backend, call: Call, response: falcon.Response) -> None:
    outcome = backend.put_job(call.values["name"], call.body, call.condition, call.who)
    _job(response, outcome.job)
    if outcome.created:
        response.status = HTTPStatus.CREATED
        # Not Falcon's property, which would encode the path once more.
        response.set_header("Location", call.request.path)


def _delete_job(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.delete_job(call.values["name"], call.condition, call.who)
    response.status = HTTPStatus.NO_CONTENT


def _drain(backend: Backend, call: Call) -> Document:
    form = read_form(call.body, schemas.DrainForm)
    return backend.drain(call.values["id"], form.drained, call.who)


def _set_mode(backend: Backend, call: Call) -> Document:
    form = read_form(call.body, schemas.ModeForm)
    if form.mode is None and form.enforcement is None:
        raise InputError("give a mode, an enforcement, or both", field="mode")
    return backend.set_mode(form.mode, form.enforcement, call.who)


def _roll_back(backend: Backend, call: Call) -> Document:
    if call.body:
        read_form(call.body, schemas.RollbackForm)
    return backend.rollback(call.values["epoch"], call.who)


def _forget_learned(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.forget_learned(call.values["name"])
    response.status = HTTPStatus.NO_CONTENT


def _adopt(backend: Backend, call: Call, response: falcon.Response) -> None:
    if call.body:
        read_form(call.body, schemas.RollbackForm)
    _job(response, backend.adopt(call.values["name"], call.who).job)
    response.status = HTTPStatus.CREATED


def _who(_backend: Backend, call: Call) -> Document:
    return {"name": call.who.name, "role": call.who.role, "secured": call.secured}


def _health(backend: Backend, call: Call) -> Document:
    health = backend.health()
    if call.caller is not None:
        return health
    known = orjson.loads(health) if isinstance(health, bytes) else health
    return {"status": known["status"]}


def _events(backend: Backend, call: Call, response: falcon.Response) -> None:
    response.content_type = EVENT_STREAM
    if call.request.method == "HEAD":
        # A stream without pieces: its length is not known.
        response.stream = ()
        return
    after = call.values.get("Last-Event-ID", call.values.get("after"))
    response.stream = EventStream(backend.subscribe(after, call.values.get("last", 0)))


def _metrics(backend: Backend, call: Call, response: falcon.Response) -> None:
    exposition = backend.metrics(call.request.get_header("Accept", default=""))
    response.content_type, response.data = exposition.media_type, exposition.body


@functools.cache
def _openapi(secured: bool) -> bytes:
    return orjson.dumps(openapi_document(RESOURCES, secured=secured))


def _answer(ask: Callable[[Backend, Call], Document]) -> Callable[[Backend, Call, falcon.Response], None]:
    """Make a handler whose response is a document."""
    return lambda backend, call, response: _document(response, ask(backend, call))


def _read(id: str, ask: Callable[[Backend], Document], summary: str, model: type[BaseModel]) -> Operation:
    """Declare a GET without parameters."""
    return Operation(id, _answer(lambda backend, _call: ask(backend)), summary, {200: model})


RESOURCES: tuple[Resource, ...] = (
    Resource(
        "job",
        "/v1/jobs/{name}",
        {
            "GET": Operation(
                "getJob",
                lambda backend, call, response: _job(response, backend.job(call.values["name"])),
                "A job with its part of the plan",
                {200: schemas.JobDocument},
                problems=frozenset({404}),
                tagged=True,
                description="The ETag identifies the job as it was sent, not the plan computed for it.",
            ),
            "PUT": Operation(
                "putJob",
                _put_job,
                "Create or replace a job, and return it with its part of the plan",
                {200: schemas.JobDocument, 201: schemas.JobDocument},
                role=Role.WRITE,
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
                _answer(lambda backend, call: backend.job_shift(call.values["name"])),
                "When the iterations of a job begin",
                {200: schemas.JobShiftDocument},
                problems=frozenset({404}),
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
                _answer(lambda backend, call: backend.job_history(call.values["name"])),
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
            "GET": _read(
                "getSchedule", lambda b: b.schedule(), "When the iterations of all jobs begin", schemas.ScheduleDocument
            )
        },
    ),
    Resource("jobs", "/v1/jobs", {"GET": _read("listJobs", lambda b: b.jobs(), "All jobs", schemas.JobList)}),
    Resource(
        "fabric",
        "/v1/fabric",
        {"GET": _read("getFabric", lambda b: b.fabric(), "The fabric and the cabling check", schemas.FabricDocument)},
    ),
    Resource(
        "drain",
        "/v1/fabric/links/{id}",
        {
            "GET": Operation(
                "getDrain",
                _answer(lambda backend, call: backend.drainable(call.values["id"])),
                "Whether a cable, a spine or a leaf is drained",
                {200: schemas.DrainDocument},
                problems=frozenset({404}),
            ),
            "PUT": Operation(
                "putDrain",
                _answer(_drain),
                "Drain a cable, a spine or a leaf, or put it back into use",
                {200: schemas.DrainDocument},
                role=Role.WRITE,
                body=Body(schemas.DrainForm, {"drained": True}),
                problems=frozenset({404}),
                description="A drained link stays in use if no other path connects two leaves; the response says so.",
            ),
        },
        variables=(LINK,),
    ),
    Resource(
        "links",
        "/v1/links",
        {
            "GET": Operation(
                "listLinks",
                _answer(lambda b, call: b.links(call.values.get("under", "plan"), call.values.get("since"))),
                "Every directed link and its load, or those that have changed",
                {200: schemas.LinkList},
                parameters=(UNDER, SINCE),
            )
        },
    ),
    Resource(
        "link_history",
        "/v1/links/{id}/history",
        {
            "GET": Operation(
                "getLinkHistory",
                _answer(lambda backend, call: backend.link_history(call.values["id"])),
                "The measured load of a directed link in the last 24 hours",
                {200: schemas.HistoryDocument},
                problems=frozenset({404}),
            )
        },
        variables=(DIRECTED,),
    ),
    Resource(
        "plan",
        "/v1/plan",
        {
            "GET": Operation(
                "getPlan",
                _answer(lambda b, call: b.plan(call.values.get("under", "plan"))),
                "The newest plan, and the number of the active one",
                {200: schemas.PlanDocument},
                parameters=(UNDER,),
            )
        },
    ),
    Resource(
        "rollback",
        "/v1/plans/{epoch}:rollback",
        {
            "POST": Operation(
                "rollBack",
                _answer(_roll_back),
                "Compute a new plan with the paths of an earlier one",
                {200: schemas.PlanSummary},
                role=Role.WRITE,
                body=Body(schemas.RollbackForm, {}, optional=True),
                problems=frozenset({404, 409}),
                description="Flows take those paths of the earlier plan that are live. Jobs stay as they are.",
            )
        },
        variables=(EPOCH,),
    ),
    Resource(
        "record",
        "/v1/plans/{epoch}",
        {
            "GET": Operation(
                "getPlanRecord",
                _answer(lambda backend, call: backend.plan_record(call.values["epoch"])),
                "An earlier plan with its paths",
                {200: schemas.PlanRecord},
                problems=frozenset({404}),
            )
        },
        variables=(EPOCH,),
    ),
    Resource(
        "preview",
        "/v1/plans:preview",
        {
            "POST": Operation(
                "preview",
                _answer(lambda backend, call: backend.preview(call.body)),
                "Compute the effect of a change without making it",
                {200: schemas.PreviewDocument},
                body=Body(schemas.PreviewForm, {"drain": ["spine1"]}, most_bytes=None),
                problems=frozenset({404}),
            )
        },
    ),
    Resource(
        "survive",
        "/v1/plans:survive",
        {
            "POST": Operation(
                "survive",
                _answer(lambda backend, call: backend.survive(call.body, call.gone)),
                "The effect of failures on the present jobs",
                {200: schemas.SurvivalDocument},
                body=Body(schemas.SurvivalForm, {"kinds": ["spine"], "above": 0.5}),
            )
        },
    ),
    Resource(
        "history",
        "/v1/plans",
        {
            "GET": Operation(
                "listPlans",
                _answer(lambda b, call: b.plans(call.values.get("before"), call.values.get("limit", 50))),
                "Plans, newest first",
                {200: schemas.PlanHistory},
                parameters=(BEFORE, LIMIT),
            )
        },
    ),
    Resource(
        "routes",
        "/v1/routes",
        {
            "GET": Operation(
                "getRoutes",
                _answer(lambda backend, call: backend.routes(call.values["host"])),
                "Path, labels, UDP source port and rate of each flow that a host sends",
                {200: schemas.Routes},
                parameters=(HOST,),
                problems=frozenset({404}),
            )
        },
    ),
    Resource(
        "trace",
        "/v1/trace",
        {
            "GET": Operation(
                "getTrace",
                _answer(lambda b, call: b.trace(call.values.get("job"), call.values.get("compare"))),
                "The path of each flow on the switches, and the imbalance of links",
                {200: schemas.TraceDocument},
                parameters=(JOB, COMPARE),
                problems=frozenset({404}),
                description="Computed from the switches' rules and counters, read on each request, not from the plan.",
                slow=True,
            )
        },
    ),
    Resource(
        "sightings",
        "/v1/sightings",
        {
            "POST": Operation(
                "postSightings",
                _answer(lambda backend, call: backend.see(call.body)),
                "Report how much QPs have sent, for learning",
                {200: schemas.SightingsTaken},
                role=Role.WRITE,
                body=Body(schemas.SightingsForm, EXAMPLE_SIGHTINGS, most_bytes=MOST_SIGHTING_BYTES),
                problems=frozenset({409}),
                description="Sightings of one QP must come in order of time; older ones are ignored. 409: the option "
                "learning is off.",
            )
        },
    ),
    Resource(
        "learned",
        "/v1/learned",
        {"GET": _read("listLearned", lambda b: b.learned(), "Jobs learned from sightings", schemas.LearnedList)},
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
                body=Body(schemas.RollbackForm, {}, optional=True),
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
                _answer(lambda backend, call: backend.learned_job(call.values["name"])),
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
    Resource(
        "mode",
        "/v1/mode",
        {
            "GET": _read(
                "getMode", lambda b: b.mode(), "The operating mode and the kind of rules", schemas.ModeDocument
            ),
            "PUT": Operation(
                "putMode",
                _answer(_set_mode),
                "Set the operating mode (enforce plans, hash all traffic, leave the rules unchanged) and the kind of "
                "rules",
                {200: schemas.ModeDocument},
                role=Role.WRITE,
                body=Body(schemas.ModeForm, {"mode": "planned", "enforcement": "segment_routing"}),
                problems=frozenset({409}),
                description="409: the present jobs or fabric do not support it; for example, a job specifies its "
                "source ports.",
            ),
        },
    ),
    Resource(
        "events",
        "/v1/events",
        {
            "GET": Operation(
                "getEvents",
                _events,
                "A stream of events (server-sent events)",
                {200: schemas.EventDocument},
                parameters=(AFTER, LAST, LAST_EVENT_ID),
                media_type=EVENT_STREAM,
                description="The data of each event is an EventDocument. The stream continues until the client or "
                "the server closes it.",
            )
        },
    ),
    Resource(
        "whoami",
        "/v1/whoami",
        {"GET": Operation("whoAmI", _answer(_who), "The caller and its role", {200: schemas.WhoAmI})},
    ),
    Resource(
        "health",
        "/healthz",
        {
            "GET": Operation(
                "getHealth",
                _answer(_health),
                "The controller's health",
                {200: schemas.HealthAnswer},
                open=True,
                description="A caller without a token, where tokens are required, gets only the status.",
            )
        },
    ),
    Resource(
        "metrics",
        "/metrics",
        {
            "GET": Operation(
                "getMetrics",
                _metrics,
                "Metrics for Prometheus",
                {200: schemas.Metrics},
                media_type=PROMETHEUS,
                also=(OPEN_METRICS,),
                description="OpenMetrics by content negotiation. docs/reference/telemetry.md lists the metrics.",
            )
        },
    ),
    Resource(
        "openapi",
        "/openapi.json",
        {
            "GET": Operation(
                "getOpenApi",
                _answer(lambda _backend, call: _openapi(call.secured)),
                "This OpenAPI document",
                {200: schemas.OpenApi},
            )
        },
    ),
)
