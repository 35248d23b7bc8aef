"""Plans, and what is computed of them."""

from __future__ import annotations

from controller.core.caller import Role
from controller.core.ports.api import Backend, Document
from controller.model.units import MICROSECOND
from controller.rest import schemas
from controller.rest.operation import Body, Call, Operation, Resource
from controller.rest.resources.answers import answering, refuse_members
from controller.rest.resources.parameters import BEFORE, COMPARE, EPOCH, HOST, JOB, LIMIT, ROUND_TRIP, UNDER


def _roll_back(backend: Backend, call: Call) -> Document:
    refuse_members(call.body)
    return backend.rollback(call.values["epoch"], call.who)


def _routes(backend: Backend, call: Call) -> Document:
    round_trip_us = call.values.get("round_trip_us")
    return backend.routes(call.values["host"], None if round_trip_us is None else round_trip_us * MICROSECOND)


PLAN_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "plan",
        "/v1/plan",
        {
            "GET": Operation(
                "getPlan",
                answering(lambda b, call: b.plan(call.values.get("under", "plan"))),
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
                answering(_roll_back),
                "Compute a new plan with the paths of an earlier one",
                {200: schemas.PlanSummary},
                role=Role.WRITE,
                body=Body(schemas.EmptyForm, {}, optional=True),
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
                answering(lambda backend, call: backend.plan_record(call.values["epoch"])),
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
                answering(lambda backend, call: backend.preview(call.body)),
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
                answering(lambda backend, call: backend.survive(call.body, call.gone)),
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
                answering(lambda b, call: b.plans(call.values.get("before"), call.values.get("limit", 50))),
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
                answering(_routes),
                "Path, labels, UDP source port and rate of each flow that a host sends",
                {200: schemas.Routes},
                parameters=(HOST, ROUND_TRIP),
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
                answering(lambda b, call: b.trace(call.values.get("job"), call.values.get("compare"))),
                "The path of each flow on the switches, and the imbalance of links",
                {200: schemas.TraceDocument},
                parameters=(JOB, COMPARE),
                problems=frozenset({404}),
                description="Computed from the switches' rules and counters, read on each request, not from the plan.",
                slow=True,
            )
        },
    ),
)
