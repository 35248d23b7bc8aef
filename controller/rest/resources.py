"""The resources of the HTTP interface: which there are, what can be done with each, and how it is answered.

Pure: a request value comes in, a response value goes out, and the controller is an argument. ``RESOURCES`` is the one
table of all of it; the server routes by it, and a description of the interface can be made from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qsl

import orjson
from pydantic import BaseModel

from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest import schemas
from controller.rest.backend import Backend, Document
from controller.rest.messages import JSON, Request, Response
from controller.rest.problems import ProblemError, bad_input, from_error

JOB_NAME = re.compile(r"[A-Za-z0-9._-]{1,63}")

_JSON_TYPE = re.compile(r"application/(?:json|[a-z0-9!#$&^_.-]+\+json)", re.IGNORECASE)
_MOST_PARAMETERS = 16


@dataclass(frozen=True)
class Parameter:
    """A query parameter that must be given, once."""

    name: str
    description: str


@dataclass(frozen=True)
class Operation:
    """One method of one resource.

    Attributes:
        handle: called with the backend, the request and the checked query parameters.
        summary: one line for people.
        answers: the model of the document for each successful status; ``None``: no document.
        parameters: the query parameters; there are no others.
        takes_json: whether it reads a JSON body.
    """

    handle: Callable[[Backend, Request, Mapping[str, str]], Response]
    summary: str
    answers: Mapping[int, type[BaseModel] | None]
    parameters: tuple[Parameter, ...] = ()
    takes_json: bool = False


@dataclass(frozen=True)
class Resource:
    """A path and what can be done there.

    Attributes:
        path: template with variables in braces, each standing for one segment.
        variables: what the decoded value of each variable has to look like.
        operations: by method; HEAD and OPTIONS come by themselves.
    """

    name: str
    path: str
    operations: Mapping[str, Operation]
    variables: Mapping[str, re.Pattern[str]] = field(default_factory=dict)

    @property
    def allow(self) -> tuple[tuple[str, str], ...]:
        """The Allow header."""
        methods = [*self.operations, *(["HEAD"] if "GET" in self.operations else []), "OPTIONS"]
        return (("Allow", ", ".join(sorted(methods))),)


def answer(backend: Backend, resource: Resource | None, request: Request) -> Response:
    """The response to a request for a resource (``None``: the path names none).

    Whatever is wrong with the request, and whatever the backend may raise by its contract, becomes a problem
    document. Other exceptions pass.
    """
    try:
        if resource is None:
            if (request.method, request.path) == ("OPTIONS", "*"):
                return Response(HTTPStatus.NO_CONTENT)
            raise ProblemError(HTTPStatus.NOT_FOUND, "this path names no resource")
        return _answer(backend, resource, request)
    except ProblemError as problem:
        return problem.response(request.path)


def _answer(backend: Backend, resource: Resource, request: Request) -> Response:
    if request.method == "OPTIONS":
        return Response(HTTPStatus.NO_CONTENT, headers=resource.allow)
    # The server sends the head alone where the method is HEAD.
    operation = resource.operations.get("GET" if request.method == "HEAD" else request.method)
    if operation is None:
        raise ProblemError(
            HTTPStatus.METHOD_NOT_ALLOWED, "this resource does not have that method", headers=resource.allow
        )
    for name, pattern in resource.variables.items():
        value = request.variables[name]
        if not pattern.fullmatch(value):
            raise bad_input(f"must match {pattern.pattern}", field=name, value=value)
    parameters = _parameters(operation, request.query)
    if operation.takes_json:
        _check_content(request.headers)
    try:
        return operation.handle(backend, request, parameters)
    except (InputError, NotFoundError, UnavailableError) as error:
        raise from_error(error, has_body=operation.takes_json) from error


def _parameters(operation: Operation, query: str) -> dict[str, str]:
    """The query parameters: every one the operation has, exactly once, and no other."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "too many query parameters") from None
    given: dict[str, str] = {}
    known = [parameter.name for parameter in operation.parameters]
    for name, value in pairs:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "there are none"
            raise bad_input(f"unknown query parameter; {there_are}", field=name, value=value)
        if name in given:
            raise bad_input("query parameter is given twice", field=name, value=value)
        given[name] = value
    for name in known:
        if name not in given:
            raise bad_input("query parameter is missing", field=name)
    return given


def _check_content(headers: Mapping[str, str]) -> None:
    """A body without a declared type is taken for JSON: what else would a caller send here."""
    media_type, *parameters = (part.strip() for part in headers.get("content-type", "").split(";"))
    if media_type and not _JSON_TYPE.fullmatch(media_type):
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "the body must be JSON: send Content-Type: application/json, or none",
            headers=(("Accept", JSON),),
        )
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip(' "').lower() not in ("utf-8", "utf8"):
            raise ProblemError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "JSON is UTF-8 (RFC 8259, section 8.1)")
    if headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "the body must not be compressed",
            headers=(("Accept-Encoding", "identity"),),
        )


def _document(document: Document, status: int = HTTPStatus.OK) -> Response:
    body = document if isinstance(document, bytes) else orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(status, body, JSON)


def _put_job(backend: Backend, request: Request, _parameters: Mapping[str, str]) -> Response:
    outcome = backend.put_job(request.variables["name"], request.read_body())
    return _document(outcome.document, HTTPStatus.CREATED if outcome.created else HTTPStatus.OK)


def _delete_job(backend: Backend, request: Request, _parameters: Mapping[str, str]) -> Response:
    backend.delete_job(request.variables["name"])
    return Response(HTTPStatus.NO_CONTENT)


def _read(call: Callable[[Backend], Document], summary: str, model: type[BaseModel]) -> Operation:
    """A GET that needs nothing of the request."""
    return Operation(lambda backend, _request, _parameters: _document(call(backend)), summary, {200: model})


RESOURCES: tuple[Resource, ...] = (
    Resource(
        "job",
        "/v1/jobs/{name}",
        {
            "GET": Operation(
                lambda backend, request, _parameters: _document(backend.job(request.variables["name"])),
                "A job with its part of the plan",
                {200: schemas.JobDocument},
            ),
            "PUT": Operation(
                _put_job,
                "Take a job, or replace it, and answer with its part of the plan",
                {200: schemas.JobDocument, 201: schemas.JobDocument},
                takes_json=True,
            ),
            "DELETE": Operation(_delete_job, "Forget a job and take its rules off the switches", {204: None}),
        },
        variables={"name": JOB_NAME},
    ),
    Resource("jobs", "/v1/jobs", {"GET": _read(lambda b: b.jobs(), "All jobs", schemas.JobList)}),
    Resource(
        "plan",
        "/v1/plan",
        {"GET": _read(lambda b: b.plan(), "The newest plan, and which one is active", schemas.PlanDocument)},
    ),
    Resource(
        "routes",
        "/v1/routes",
        {
            "GET": Operation(
                lambda backend, _request, parameters: _document(backend.routes(parameters["host"])),
                "Path, labels, UDP source port and rate of each flow that a host sends",
                {200: schemas.Routes},
                parameters=(Parameter("host", "name of the sending host"),),
            )
        },
    ),
    Resource(
        "links", "/v1/links", {"GET": _read(lambda b: b.links(), "Every directed link and its load", schemas.LinkList)}
    ),
    Resource(
        "fabric",
        "/v1/fabric",
        {"GET": _read(lambda b: b.fabric(), "The fabric and the cabling check", schemas.FabricDocument)},
    ),
    Resource(
        "health",
        "/healthz",
        {"GET": _read(lambda b: b.health(), "Whether the controller does its work", schemas.Health)},
    ),
)
