"""The resources of the HTTP interface: which there are, what can be done with each, and how it is answered.

``RESOURCES`` is the one table of all of it; the server routes by it, and ``/openapi.json`` is made from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from http import HTTPStatus

import orjson
from pydantic import BaseModel

from controller.model.errors import InputError
from controller.rest import schemas
from controller.rest.backend import Backend, Document, JobAnswer, Role, etag
from controller.rest.events import EventStream
from controller.rest.forms import read_form
from controller.rest.messages import EVENT_STREAM, JSON, OPEN_METRICS, PROMETHEUS, Response
from controller.rest.openapi import openapi_document
from controller.rest.operation import Body, Call, Operation, Parameter, Resource, Text, Whole
from controller.workload.import_form import BodyForm
from controller.workload.job_file import JobForm

EVENT_ID = r"[A-Za-z0-9._-]{1,64}"

NAME = Parameter("name", "the job's name", Text(schemas.JOB_NAME), "gpt3-a", place="path")
LINK = Parameter("id", "of a cable (leaf1-spine2), a spine or a leaf", Text(), "leaf1-spine2", place="path")
EPOCH = Parameter("epoch", "the plan's number", Whole(0, schemas.LARGEST_EPOCH), 7, place="path")
HOST = Parameter("host", "name of the sending host", Text(), "h1", required=True)
BEFORE = Parameter("before", "only plans with a smaller number", Whole(0, schemas.LARGEST_EPOCH), 100)
LIMIT = Parameter("limit", "plans in one answer", Whole(1, schemas.MOST_PLANS, default=50), 20)
UNDER = Parameter(
    "under",
    "plan (where it is left out) or ecmp: with the paths that hashing would choose",
    Text("(?:plan|ecmp)"),
    "ecmp",
)
AFTER = Parameter("after", "id of the last event seen: resume behind it", Text(EVENT_ID), "6a0f-41")
JOB = Parameter("job", "only this job's flows", Text(schemas.JOB_NAME), "gpt3-a")
COMPARE = Parameter("compare", "a policy to compare with", Text("ecmp"), "ecmp")
LAST_EVENT_ID = Parameter(
    "Last-Event-ID", "as ?after=, which it overrides: what browsers send", Text(EVENT_ID), "6a0f-41", place="header"
)

EXAMPLE_JOB = {
    "hosts": ["h1", "h5", "h9", "h13"],
    "collectives": [
        {"name": "dp0", "op": "all_reduce", "algorithm": "ring", "ranks": [0, 1, 2, 3], "bytes": 1_000_000_000}
    ],
}


def _document(document: Document, status: int = HTTPStatus.OK, *headers: tuple[str, str]) -> Response:
    body = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(status, body, JSON, headers)


def _job(job: JobAnswer, status: int = HTTPStatus.OK, *headers: tuple[str, str]) -> Response:
    return _document(job.document, status, ("ETag", etag(job.revision)), *headers)


def _put_job(backend: Backend, call: Call) -> Response:
    outcome = backend.put_job(call.variables["name"], call.body, call.condition, call.who)
    if outcome.created:
        return _job(outcome.job, HTTPStatus.CREATED, ("Location", call.path))
    return _job(outcome.job)


def _delete_job(backend: Backend, call: Call) -> Response:
    backend.delete_job(call.variables["name"], call.condition, call.who)
    return Response(HTTPStatus.NO_CONTENT)


def _links(backend: Backend, call: Call) -> Response:
    return _document(backend.links(call.parameters.get("under", "plan")))


def _plan(backend: Backend, call: Call) -> Response:
    return _document(backend.plan(call.parameters.get("under", "plan")))


def _who(_backend: Backend, call: Call) -> Response:
    return _document({"name": call.who.name, "role": call.who.role, "secured": call.secured})


def _drain(backend: Backend, call: Call) -> Response:
    form = read_form(call.body, schemas.DrainForm)
    return _document(backend.drain(call.variables["id"], form.drained, call.who))


def _set_mode(backend: Backend, call: Call) -> Response:
    form = read_form(call.body, schemas.ModeForm)
    if form.mode is None and form.enforcement is None:
        raise InputError("say a mode, an enforcement, or both", field="mode")
    return _document(backend.set_mode(form.mode, form.enforcement, call.who))


def _plans(backend: Backend, call: Call) -> Response:
    return _document(backend.plans(call.parameters.get("before"), call.parameters.get("limit", 50)))


def _events(backend: Backend, call: Call) -> Response:
    if call.method == "HEAD":
        return Response(HTTPStatus.OK, media_type=EVENT_STREAM)
    after = call.parameters.get("Last-Event-ID", call.parameters.get("after"))
    return Response(HTTPStatus.OK, media_type=EVENT_STREAM, stream=EventStream(backend.subscribe(after)))


def _health(backend: Backend, call: Call) -> Response:
    health = backend.health()
    if call.caller is not None:
        return _document(health)
    known = orjson.loads(health) if isinstance(health, bytes) else health
    return _document({"status": known["status"]})


def _metrics(backend: Backend, call: Call) -> Response:
    told = backend.metrics(call.accept)
    return Response(HTTPStatus.OK, told.body, told.media_type)


@functools.cache
def _openapi(secured: bool) -> bytes:
    return orjson.dumps(openapi_document(RESOURCES, secured=secured))


def _read(id: str, call: Callable[[Backend], Document], summary: str, model: type[BaseModel]) -> Operation:
    """A GET that needs nothing of the request."""
    return Operation(id, lambda backend, _call: _document(call(backend)), summary, {200: model})


RESOURCES: tuple[Resource, ...] = (
    Resource(
        "job",
        "/v1/jobs/{name}",
        {
            "GET": Operation(
                "getJob",
                lambda backend, call: _job(backend.job(call.variables["name"])),
                "A job with its part of the plan",
                {200: schemas.JobDocument},
                problems=frozenset({404}),
                tagged=True,
                description="The ETag tells versions of what was pushed apart, not the plans that were made of it.",
            ),
            "PUT": Operation(
                "putJob",
                _put_job,
                "Take a job, or replace it, and answer with its part of the plan",
                {200: schemas.JobDocument, 201: schemas.JobDocument},
                role=Role.WRITE,
                body=Body(JobForm, EXAMPLE_JOB, most_bytes=None, or_form=BodyForm),
                conditional=True,
                tagged=True,
            ),
            "DELETE": Operation(
                "deleteJob",
                _delete_job,
                "Forget a job and take its rules off the switches",
                {204: None},
                role=Role.WRITE,
                problems=frozenset({404}),
                conditional=True,
            ),
        },
        variables=(NAME,),
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
                lambda backend, call: _document(backend.drainable(call.variables["id"])),
                "Whether a cable, a spine or a leaf is drained",
                {200: schemas.DrainDocument},
                problems=frozenset({404}),
            ),
            "PUT": Operation(
                "putDrain",
                _drain,
                "Drain a cable, a spine or a leaf, or take it back into use",
                {200: schemas.DrainDocument},
                role=Role.WRITE,
                body=Body(schemas.DrainForm, {"drained": True}),
                problems=frozenset({404}),
                description="What is drained stays in use where nothing else joins two leaves; the answer says so.",
            ),
        },
        variables=(LINK,),
    ),
    Resource(
        "links",
        "/v1/links",
        {
            "GET": Operation(
                "listLinks", _links, "Every directed link and its load", {200: schemas.LinkList}, parameters=(UNDER,)
            )
        },
    ),
    Resource(
        "plan",
        "/v1/plan",
        {
            "GET": Operation(
                "getPlan",
                _plan,
                "The newest plan, and which is active",
                {200: schemas.PlanDocument},
                parameters=(UNDER,),
            )
        },
    ),
    # Before the plan of an epoch: the first template that fits is taken, and an epoch could be anything up to a slash.
    Resource(
        "rollback",
        "/v1/plans/{epoch}:rollback",
        {
            "POST": Operation(
                "rollBack",
                lambda backend, call: _document(backend.rollback(call.variables["epoch"], call.who)),
                "Make a new plan with the paths of an old one",
                {200: schemas.PlanSummary},
                role=Role.WRITE,
                problems=frozenset({404, 409}),
                description="Flows of today take the old plan's paths where those are live; jobs do not come or go.",
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
                lambda backend, call: _document(backend.plan_record(call.variables["epoch"])),
                "A plan that was made before, with its paths",
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
                lambda backend, call: _document(backend.preview(call.body)),
                "What a change would do, without making it",
                {200: schemas.PreviewDocument},
                body=Body(schemas.PreviewForm, {"drain": ["spine1"]}, most_bytes=None),
                problems=frozenset({404}),
            )
        },
    ),
    Resource(
        "history",
        "/v1/plans",
        {
            "GET": Operation(
                "listPlans",
                _plans,
                "The plans that were made, newest first",
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
                lambda backend, call: _document(backend.routes(call.parameters["host"])),
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
                lambda b, call: _document(b.trace(call.parameters.get("job"), call.parameters.get("compare"))),
                "The path that each flow really takes, and how unevenly links are used",
                {200: schemas.TraceDocument},
                parameters=(JOB, COMPARE),
                problems=frozenset({404}),
                description="Made from the rules and counters of the switches, read when somebody asks, not the plan.",
                slow=True,
            )
        },
    ),
    Resource(
        "mode",
        "/v1/mode",
        {
            "GET": _read("getMode", lambda b: b.mode(), "How plans are enforced", schemas.ModeDocument),
            "PUT": Operation(
                "putMode",
                _set_mode,
                "Enforce plans, hash everything, or leave the switches as they are; and by which kind of rules",
                {200: schemas.ModeDocument},
                role=Role.WRITE,
                body=Body(schemas.ModeForm, {"mode": "planned", "enforcement": "segment_routing"}),
                problems=frozenset({409}),
                description="409: there is something now (a job that names its own ports) that cannot be enforced so.",
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
                "What happens, as it happens (server-sent events)",
                {200: schemas.EventDocument},
                parameters=(AFTER, LAST_EVENT_ID),
                media_type=EVENT_STREAM,
                description="Each event's data is an EventDocument. The stream ends only when either side closes it.",
            )
        },
    ),
    Resource(
        "whoami",
        "/v1/whoami",
        {"GET": Operation("whoAmI", _who, "Who asks, and what they may do", {200: schemas.WhoAmI})},
    ),
    Resource(
        "health",
        "/healthz",
        {
            "GET": Operation(
                "getHealth",
                _health,
                "Whether the controller does its work",
                {200: schemas.HealthAnswer},
                open=True,
                description="Without a token, where tokens are required, the status alone.",
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
                "What Prometheus scrapes",
                {200: schemas.Metrics},
                media_type=PROMETHEUS,
                also=(OPEN_METRICS,),
                description="OpenMetrics for those who ask for it. docs/telemetry.md lists the metrics.",
            )
        },
    ),
    Resource(
        "openapi",
        "/openapi.json",
        {
            "GET": Operation(
                "getOpenApi",
                lambda _backend, call: _document(_openapi(call.secured)),
                "This description",
                {200: schemas.OpenApi},
            )
        },
    ),
)
