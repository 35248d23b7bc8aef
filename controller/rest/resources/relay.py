"""What replicas that do not lead ask the leader in the name of the agents that have asked them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import falcon
import orjson
from pydantic import Field

from controller.core.caller import Role
from controller.core.ports.api import Backend
from controller.core.ports.host_agents import AgentHas, HostRequest, PlanId
from controller.rest import schemas
from controller.rest.forms import read_form
from controller.rest.operation import Body, Call, Operation, Parameter, Resource
from controller.rest.problems import ProblemError
from controller.rest.resources.answers import answer_document
from controller.rest.resources.hosts import MOST_REPORT_BYTES, WAIT

MOST_VERSION = 64

EXAMPLE_RELAY = {
    "requests": [
        {
            "host": "h1",
            "authorization": "Bearer SECRET",
            "after": 7,
            "digest": "0123456789abcdef",
            "destinations": "fedcba9876543210",
            "form": "changes",
            "report": '{"epoch": 7, "digest": "0123456789abcdef"}',
        }
    ]
}


REFUSED: Mapping[str, Any] = {"status": "refused", "plan": None}


def _relay(backend: Backend, call: Call, response: falcon.Response) -> None:
    """Answer those requests whose tokens allow them; the others are refused."""
    form = read_form(call.body, schemas.RelayForm)
    call.request.context.share.give_bytes()
    places = [number for number, request in enumerate(form.requests) if _allowed(call, request)]
    answered = backend.host_requests([_request(form.requests[number]) for number in places])
    answers: list[Mapping[str, Any]] = [REFUSED] * len(form.requests)
    for number, answer in zip(places, answered.answers, strict=True):
        if answer is None:
            answers[number] = {"status": "none", "plan": None}
        elif not isinstance(answer, Exception):
            answers[number] = {"status": "plan", "plan": orjson.Fragment(answer)}
    answer_document(response, {"version": answered.version, "answers": answers})


def _allowed(call: Call, request: schemas.RelayedRequest) -> bool:
    """Return whether the token of an agent allows its request."""
    try:
        caller = call.identify(request.authorization)
    except ProblemError:
        return False
    if caller.role is Role.HOST:
        return request.host in caller.hosts
    return caller.may_write or request.report is None


def _request(request: schemas.RelayedRequest) -> HostRequest:
    known = None if request.after is None else PlanId(request.after, request.digest)
    ports, changes = request.form == "ports", request.form == "changes"
    by_table = changes or request.form == "table"
    has = AgentHas(known, request.destinations, by_table, "ports" if ports else "carriers", changes)
    return HostRequest(request.host, has, None if request.report is None else request.report.encode(), request.asks)


def _version(backend: Backend, call: Call, response: falcon.Response) -> None:
    version = backend.plans_version(call.values.get("known", ""), call.values.get("wait", 0.0), call.gone)
    answer_document(response, {"version": version})


KNOWN_VERSION = Parameter(
    "known",
    "version that the replica knows: answer when there is another one",
    Annotated[str, Field(max_length=MOST_VERSION)],
    "0123456789abcdef-3",
)

RELAY_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "relay",
        "/v1/hosts:relay",
        {
            "POST": Operation(
                "relayHosts",
                _relay,
                "Requests of many agents, which a replica that does not lead sends together; answered at once",
                {200: schemas.RelayAnswers},
                body=Body(schemas.RelayForm, EXAMPLE_RELAY, most_bytes=MOST_REPORT_BYTES),
                problems=frozenset({409}),
                description="Each request is checked by its own token. One that is refused is to be sent by itself, "
                "which has an answer that says why. 409: switches carry out plans, not hosts.",
                of_replicas=True,
            )
        },
    ),
    Resource(
        "plans_version",
        "/v1/hosts:version",
        {
            "GET": Operation(
                "getPlansVersion",
                _version,
                "The version of the plans of all hosts, as soon as it is another one than the replica knows",
                {200: schemas.PlansVersion},
                parameters=(KNOWN_VERSION, WAIT),
                problems=frozenset({409}),
                description="409: switches carry out plans, not hosts.",
                of_replicas=True,
            )
        },
    ),
)
