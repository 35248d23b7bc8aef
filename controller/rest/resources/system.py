"""The controller: its mode, events, health and metrics."""

from __future__ import annotations

from http import HTTPStatus

import falcon
import orjson

from controller.core.caller import Role
from controller.core.ports.api import Backend, Document
from controller.model.choices.enforcement import BUILT_IN_ENFORCEMENTS
from controller.model.errors import InputError
from controller.rest import schemas
from controller.rest.events import EventStream
from controller.rest.forms import read_form
from controller.rest.operation import EVENT_STREAM, OPEN_METRICS, PROMETHEUS, Body, Call, Operation, Resource
from controller.rest.resources.answers import answering, reading, refuse_members
from controller.rest.resources.parameters import AFTER, LAST, LAST_EVENT_ID


def _set_mode(backend: Backend, call: Call) -> Document:
    form = read_form(call.body, schemas.ModeForm)
    if form.mode is None and form.enforcement is None:
        raise InputError("give a mode, an enforcement, or both", field="mode")
    return backend.set_mode(form.mode, form.enforcement, call.who)


def _who(_backend: Backend, call: Call) -> Document:
    limits = {"most_jobs": call.who.quota.jobs, "most_changes": call.who.quota.changes}
    return {
        "name": call.who.name,
        "role": call.who.role,
        "secured": call.secured,
        **{name: limit for name, limit in limits.items() if limit is not None},
        **({} if call.who.tenant is None else {"tenant": call.who.tenant}),
    }


def _health(backend: Backend, call: Call) -> Document:
    health = backend.health()
    if call.caller is not None:
        return health
    known = orjson.loads(health) if isinstance(health, bytes) else health
    return {"status": known["status"]}


def _step_down(backend: Backend, call: Call, response: falcon.Response) -> None:
    refuse_members(call.body)
    backend.step_down()
    response.status = HTTPStatus.NO_CONTENT


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


SYSTEM_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "mode",
        "/v1/mode",
        {
            "GET": reading(
                "getMode",
                lambda b: b.mode(),
                "The operating mode and the kind of rules",
                schemas.ModeDocument,
                of_store=True,
            ),
            "PUT": Operation(
                "putMode",
                answering(_set_mode),
                "Set the operating mode (enforce plans, hash all traffic, leave the rules unchanged) and the kind of "
                "rules",
                {200: schemas.ModeDocument},
                role=Role.WRITE,
                body=Body(schemas.ModeForm, {"mode": "planned", "enforcement": BUILT_IN_ENFORCEMENTS[1]}),
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
                confirmed=False,
                media_type=EVENT_STREAM,
                description="The data of each event is an EventDocument. The stream continues until the client or "
                "the server closes it.",
            )
        },
    ),
    Resource(
        "whoami",
        "/v1/whoami",
        {"GET": Operation("whoAmI", answering(_who), "The caller and its role", {200: schemas.WhoAmI})},
    ),
    Resource(
        "cluster",
        "/v1/cluster",
        {
            "GET": Operation(
                "getCluster",
                answering(lambda backend, _call: backend.cluster()),
                "The cluster of this controller: its replicas, and which of them leads",
                {200: schemas.ClusterDocument},
                of_replica=True,
                description="Every replica answers. role: single means that the controller is in no cluster.",
            )
        },
    ),
    Resource(
        "stepDown",
        "/v1/cluster:step-down",
        {
            "POST": Operation(
                "stepDown",
                _step_down,
                "Let another replica of the cluster lead",
                {204: None},
                role=Role.WRITE,
                body=Body(schemas.EmptyForm, {}, optional=True),
                problems=frozenset({409}),
                description="409: this controller is in no cluster.",
            )
        },
    ),
    Resource(
        "serviceHealth",
        "/v1/health",
        {
            "GET": Operation(
                "getServiceHealth",
                answering(lambda backend, _call: backend.health()),
                "The controller's health; of a cluster, that of the leader",
                {200: schemas.Health},
                confirmed=False,
            )
        },
    ),
    Resource(
        "health",
        "/healthz",
        {
            "GET": Operation(
                "getHealth",
                answering(_health),
                "The health of this controller, or of this replica of a cluster",
                {200: schemas.HealthAnswer},
                open=True,
                of_replica=True,
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
                of_replica=True,
                media_type=PROMETHEUS,
                also=(OPEN_METRICS,),
                description="OpenMetrics by content negotiation. docs/reference/telemetry.md lists the metrics.",
            )
        },
    ),
)
