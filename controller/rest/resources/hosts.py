"""The plans of hosts, and the reports of their agents."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import falcon
from pydantic import Field

from controller.core.caller import Role
from controller.core.ports.api import Backend
from controller.core.ports.host_agents import PlanId
from controller.rest import schemas
from controller.rest.operation import Body, Call, Operation, Parameter, Resource
from controller.rest.resources.answers import answer_document, reading
from controller.rest.resources.parameters import EpochNumber
from controller.rest.schemas.hosts import Digest

LONGEST_WAIT_SECONDS = 60
MOST_REPORT_BYTES = 8 << 20

OWN_HOST = Parameter("host", "name of the host", schemas.ThingId, "h1", place="path")
KNOWN = Parameter("after", "epoch of the plan that the agent has: answer when there is another one", EpochNumber, 7)
KNOWN_DIGEST = Parameter(
    "digest", "digest of that plan; without both, any plan is another one", Digest, "0123456789abcdef"
)
WAIT = Parameter(
    "wait",
    "seconds to wait for another plan (default: 0)",
    Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS, allow_inf_nan=False)],
    30,
)

EXAMPLE_REPORT = {
    "epoch": 7,
    "digest": "0123456789abcdef",
    "dead": [{"carrier": "fcbb:bb00:c001:2:e001::", "since": 1.5, "evidence": "probe", "at": None}],
    "flows": [],
    "round_trips": [{"carrier": "fcbb:bb00:c002:2:e001::", "median_us": 90, "lost": 0}],
}


def _segments(backend: Backend, call: Call, response: falcon.Response) -> None:
    epoch, digest = call.values.get("after"), call.values.get("digest")
    known = None if epoch is None else PlanId(epoch, digest or "")
    document = backend.segments(call.values["host"], known, call.values.get("wait", 0.0), call.gone)
    if document is None:
        response.status = HTTPStatus.NOT_MODIFIED
    else:
        answer_document(response, document)


def _report(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.host_report(call.values["host"], call.body)
    response.status = HTTPStatus.NO_CONTENT


HOST_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "hosts",
        "/v1/hosts",
        {"GET": reading("listHosts", lambda b: b.hosts(), "What is known of the agents of hosts", schemas.HostList)},
    ),
    Resource(
        "segments",
        "/v1/hosts/{host}/segments",
        {
            "GET": Operation(
                "getSegments",
                _segments,
                "The plan of a host, as soon as it is another one than its agent has",
                {200: schemas.HostPlanDocument, 304: None},
                parameters=(KNOWN, KNOWN_DIGEST, WAIT),
                problems=frozenset({404, 409}),
                description="304: there was no other plan within the time. 409: switches carry out plans, not hosts. A "
                "token of the role host reads the plan of its own host only.",
                of_host=True,
            )
        },
        variables=(OWN_HOST,),
    ),
    Resource(
        "host_report",
        "/v1/hosts/{host}/report",
        {
            "POST": Operation(
                "postHostReport",
                _report,
                "Report which plan the kernel of a host holds, dead paths, and what was sent",
                {204: None},
                role=Role.WRITE,
                body=Body(schemas.HostReportForm, EXAMPLE_REPORT, most_bytes=MOST_REPORT_BYTES),
                problems=frozenset({404, 409}),
                description="409: switches carry out plans, not hosts. A token of the role host reports its own host "
                "only.",
                of_host=True,
            )
        },
        variables=(OWN_HOST,),
    ),
)
