"""The plans of hosts, and the reports of their agents."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

import falcon
from pydantic import Field

from controller.core.caller import Role
from controller.core.ports.api import Backend
from controller.core.ports.host_agents import AgentHas, HostRequest, PlanId
from controller.rest import schemas
from controller.rest.operation import Body, Call, Operation, Parameter, Resource
from controller.rest.resources.answers import answer_document, answering, reading
from controller.rest.resources.parameters import EpochNumber, SampleNumber
from controller.rest.schemas.hosts import Digest

LONGEST_WAIT_SECONDS = 60
MOST_REPORT_BYTES = 8 << 20

OWN_HOST = Parameter("host", "name of the host", schemas.ThingId, "h1", place="path")
KNOWN = Parameter("after", "epoch of the plan that the agent has: answer when there is another one", EpochNumber, 7)
KNOWN_DIGEST = Parameter(
    "digest", "digest of that plan; without both, any plan is another one", Digest, "0123456789abcdef"
)
KNOWN_DESTINATIONS = Parameter(
    "destinations",
    "destinations_digest of the plan that the agent has: another plan with the same leaves destinations out (null)",
    Digest,
    "fedcba9876543210",
)
FORM = Parameter(
    "form",
    "rows (default): a carrier for each destination; table: paths to leaves, of which the agent makes the carriers to "
    "hosts of /v1/hosts/{host}/table; changes: as table, and only the flows that are others than in the plan that the "
    "agent has, where the controller knows that one",
    Literal["rows", "table", "changes"],
    "changes",
)
WAIT = Parameter(
    "wait",
    "seconds to wait for another plan (default: 0)",
    Annotated[float, Field(ge=0, le=LONGEST_WAIT_SECONDS, allow_inf_nan=False)],
    30,
)
KNOWN_SAMPLES = Parameter(
    "after", "number of the answer that the agent has: answer with what is newer", SampleNumber, 7
)
SAMPLES_WAIT = Parameter("wait", "seconds to wait for samples (default: 0)", WAIT.type, 30)
NEXT = Parameter(
    "wait",
    "seconds to wait for another plan, which is the answer then (default: the report is answered at once, and without)",
    WAIT.type,
    30,
)

EXAMPLE_REPORT = {
    "epoch": 7,
    "digest": "0123456789abcdef",
    "dead": [{"carrier": "fcbb:bb00:c001:2:e001::", "since": 1.5, "evidence": "probe", "at": None}],
    "flows": [],
    "round_trips": [{"carrier": "fcbb:bb00:c002:2:e001::", "median_us": 90, "lost": 0}],
    "counters": {"pause_received": [0, 0, 0, 41, 0, 0, 0, 0], "received_dropped": 0, "ecn_marked": 310},
    "pacing": {"planned": 12, "paced": 12, "dropped": 0, "reason": ""},
    "run": "89abcdef01234567",
    "number": 3,
    "ports": {
        "state": "active",
        "flows": [{"dst": "10.0.2.1", "number": 49152, "port": 51000, "path": 1, "seconds": 0.5}],
        "unreachable": [{"dst": "10.0.2.1", "map": "0123456789abcdef", "paths": [3]}],
        "silent": [],
        "strange": [{"dst": "10.0.2.1", "port": 50000, "answers": ["10.9.9.9"], "unreachable": False}],
        "moved": 1,
        "probes": 40,
        "unanswered": 2,
    },
    "bypasses": [{"probe": "fcbb:bb00:c001:f001::", "came_back": False}],
}


def _segments(backend: Backend, call: Call, response: falcon.Response) -> None:
    _answer_plan(backend, call, response, _has(call), HTTPStatus.NOT_MODIFIED)


def _port_plan(backend: Backend, call: Call, response: falcon.Response) -> None:
    _answer_plan(backend, call, response, AgentHas(_known(call), form="ports"), HTTPStatus.NOT_MODIFIED)


def _samples(backend: Backend, call: Call, response: falcon.Response) -> None:
    values = call.values
    document = backend.host_samples(values["host"], values.get("after", 0), values.get("wait", 0.0), call.gone)
    if document is None:
        response.status = HTTPStatus.NOT_MODIFIED
    else:
        answer_document(response, document)


def _asked(call: Call) -> HostRequest:
    return HostRequest(call.values["host"], _has(call))


def _asked_for_ports(call: Call) -> HostRequest:
    return HostRequest(call.values["host"], AgentHas(_known(call), form="ports"))


def _reported(call: Call) -> HostRequest:
    return HostRequest(call.values["host"], _has(call), call.body, asks=NEXT.name in call.values)


def _known(call: Call) -> PlanId | None:
    epoch = call.values.get("after")
    return None if epoch is None else PlanId(epoch, call.values.get("digest", ""))


def _has(call: Call) -> AgentHas:
    form = call.values.get("form")
    by_table, changes = form in ("table", "changes"), form == "changes"
    return AgentHas(_known(call), call.values.get("destinations", ""), by_table, changes=changes)


def _answer_plan(backend: Backend, call: Call, response: falcon.Response, has: AgentHas, none: HTTPStatus) -> None:
    """Answer with another plan than the agent has, or with the status for none within the time."""
    document = backend.segments(call.values["host"], has, call.values.get("wait", 0.0), call.gone)
    if document is None:
        response.status = none
    else:
        answer_document(response, document)


def _report(backend: Backend, call: Call, response: falcon.Response) -> None:
    backend.host_report(call.values["host"], call.body)
    if NEXT.name in call.values:
        # The report has been read: while the agent waits, it takes no memory.
        call.request.context.share.give_bytes()
        _answer_plan(backend, call, response, _has(call), HTTPStatus.NO_CONTENT)
    else:
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
                parameters=(KNOWN, KNOWN_DIGEST, KNOWN_DESTINATIONS, FORM, WAIT),
                problems=frozenset({404, 409}),
                description="304: there was no other plan within the time. 409: switches carry out plans, not hosts. A "
                "token of the role host reads the plan of its own host only.",
                of_host=True,
                relayed=_asked,
            )
        },
        variables=(OWN_HOST,),
    ),
    Resource(
        "host_ports",
        "/v1/hosts/{host}/ports",
        {
            "GET": Operation(
                "getPortPlan",
                _port_plan,
                "For which paths a host is to find source ports, as soon as that is another plan than its agent has",
                {200: schemas.HostPortPlan, 304: None},
                parameters=(KNOWN, KNOWN_DIGEST, WAIT),
                problems=frozenset({404, 409}),
                description="304: there was no other plan within the time. 409: ports do not select paths by the hash "
                "of routers. A token of the role host reads the plan of its own host only.",
                of_host=True,
                relayed=_asked_for_ports,
            )
        },
        variables=(OWN_HOST,),
    ),
    Resource(
        "host_samples",
        "/v1/hosts/{host}/samples",
        {
            "GET": Operation(
                "getHostSamples",
                _samples,
                "At which routers packets of a host were sampled, as soon as there is something new",
                {200: schemas.HostSamplesDocument, 304: None},
                parameters=(KNOWN_SAMPLES, SAMPLES_WAIT),
                problems=frozenset({404, 409}),
                description="304: nothing was sampled within the time. 409: ports do not select paths by the hash of "
                "routers. A token of the role host reads the samples of its own host only.",
                of_host=True,
            )
        },
        variables=(OWN_HOST,),
    ),
    Resource(
        "host_table",
        "/v1/hosts/{host}/table",
        {
            "GET": Operation(
                "getHostTable",
                answering(lambda backend, call: backend.host_table(call.values["host"])),
                "The hosts that a host can reach, the same for all plans",
                {200: schemas.HostTableDocument},
                problems=frozenset({404, 409}),
                description="409: switches carry out plans, not hosts.",
                of_host=True,
                same_for_many=True,
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
                "Report which plan the kernel of a host holds, dead paths, and what was sent; wait for the next plan",
                {200: schemas.HostPlanDocument, 204: None},
                role=Role.WRITE,
                parameters=(KNOWN, KNOWN_DIGEST, KNOWN_DESTINATIONS, FORM, NEXT),
                body=Body(schemas.HostReportForm, EXAMPLE_REPORT, most_bytes=MOST_REPORT_BYTES),
                problems=frozenset({404, 409}),
                description="With wait, the answer is that of a GET of /v1/hosts/{host}/segments with the same "
                "parameters (200), or 204 if there was no other plan within the time: an agent confirms a plan and "
                "waits for the next one in one request. 409: switches carry out plans, not hosts. A token of the role "
                "host reports its own host only.",
                of_host=True,
                relayed=_reported,
            )
        },
        variables=(OWN_HOST,),
    ),
)
