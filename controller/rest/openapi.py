"""Make the OpenAPI 3.1 description of the HTTP interface from the table of resources and pydantic's JSON schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from controller.core.caller import Role
from controller.rest import schemas
from controller.rest.conditions import header_parameters
from controller.rest.operation import EVENT_STREAM, JSON, Body, Operation, Parameter, Resource
from controller.rest.problems import PROBLEM_JSON

_ALWAYS = (400, 403, 414, 421, 431, 500)
_WITH_BODY = (408, 411, 413, 415, 422)
_REFERENCE = "#/components/schemas/{model}"

_RETRY_AFTER = {"description": "seconds after which to try again", "required": True, "schema": {"type": "integer"}}
_CHALLENGE = {"description": "RFC 6750", "required": True, "schema": {"type": "string"}}
_ETAG = {"description": "the job's revision, quoted", "required": True, "schema": {"type": "string"}}
_CONTENT_TAG = {"description": "of the content, for If-None-Match", "required": True, "schema": {"type": "string"}}
_LOCATION = {"description": "the job's path", "required": True, "schema": {"type": "string"}}

_DESCRIPTIONS = {
    400: "The request is malformed, or a parameter is invalid",
    403: "The request comes from a page of another origin, or the token's role is read",
    404: "Resource not found",
    409: "The present state of the controller does not allow the request",
    412: "If-Match or If-None-Match does not hold",
    413: "The body is too large",
    421: "The Host header is not a name of this server",
    422: "The body is well-formed but has an invalid value: see field and value",
    502: "A replica passed the change on to the leader, and the answer was lost: it may have been made, or not (type "
    "outcome-unknown)",
    429: "The quota of the token is used up for now: try again",
    503: "The answer is not known yet, there are too many requests, no replica leads (type no-leader), or the change "
    "cannot be stored (type storage): try again",
}


def openapi_document(resources: Iterable[Resource], *, secured: bool) -> dict[str, Any]:
    """Return the description as plain data.

    Args:
        resources: the paths with their operations.
        secured: whether callers need a token.
    """
    table = tuple(resources)
    paths = {resource.path: _path(resource, secured) for resource in table}
    schemes = {
        "token": {"type": "http", "scheme": "bearer", "description": "fairspine token add NAME --role read|write"}
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "fairspine",
            "version": version("fairspine"),
            "summary": "Max-min fair routing for machine-learning training fabrics",
            "description": (
                "Units: bytes, Gbit/s, seconds. Errors are problem details (RFC 9457). HEAD is supported wherever GET "
                "is, OPTIONS everywhere. Answers of 1 KiB and more are compressed (gzip) for clients that take this."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": _schemas(table)} | ({"securitySchemes": schemes} if secured else {}),
        "security": [{"token": []}] if secured else [],
    }


def _schemas(resources: Iterable[Resource]) -> dict[str, Any]:
    models: dict[type[BaseModel], None] = {schemas.Problem: None}
    for resource in resources:
        for operation in resource.operations.values():
            if operation.media_type in (JSON, EVENT_STREAM):
                models |= {model: None for model in operation.answers.values() if model is not None}
            if operation.body is not None:
                models.update(dict.fromkeys(operation.body.forms))
    _, generated = models_json_schema([(model, "validation") for model in models], ref_template=_REFERENCE)
    definitions: dict[str, Any] = generated["$defs"]
    return dict(sorted(definitions.items()))


def _path(resource: Resource, secured: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        method.lower(): _operation(operation, secured) for method, operation in resource.operations.items()
    }
    if resource.variables:
        described["parameters"] = [_parameter(variable) for variable in resource.variables]
    return described


def _operation(operation: Operation, secured: bool) -> dict[str, Any]:
    described: dict[str, Any] = {"operationId": operation.id, "summary": operation.summary}
    if operation.description:
        described["description"] = operation.description
    parameters = [*operation.parameters, *header_parameters(operation)]
    if parameters:
        described["parameters"] = [_parameter(parameter) for parameter in parameters]
    if operation.body is not None:
        described["requestBody"] = _body(operation.body)
    answers = {str(status): _answer(operation, status, model) for status, model in operation.answers.items()}
    if operation.content_tagged:
        answers["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase, "headers": {"ETag": _CONTENT_TAG}}
    problems = {str(status): _problem(status) for status in sorted(_problems(operation, secured))}
    described["responses"] = answers | problems
    if secured and operation.open:
        described["security"] = [{"token": []}, {}]
    return described


def _problems(operation: Operation, secured: bool) -> set[int]:
    statuses = {*_ALWAYS, *operation.problems}
    if not operation.open:
        statuses |= {503} | ({401} if secured else set())
    if operation.role is Role.WRITE and not operation.of_replica:
        statuses.add(502)
    if operation.role is Role.WRITE and not operation.of_host and secured:
        statuses.add(429)
    if operation.body is not None:
        statuses |= set(_WITH_BODY)
    if operation.conditional:
        statuses.add(412)
    return statuses


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.required or parameter.place == "path",
        "description": parameter.description,
        "schema": parameter.schema(),
        "example": parameter.example,
    }


def _body(body: Body) -> dict[str, Any]:
    forms = [_reference(form) for form in body.forms]
    schema = forms[0] if len(forms) == 1 else {"anyOf": forms}
    return {"required": True, "content": {JSON: {"schema": schema, "example": dict(body.example)}}}


def _answer(operation: Operation, status: int, model: type[BaseModel] | None) -> dict[str, Any]:
    described: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        schema = _reference(model) if operation.media_type == JSON else {"type": "string"}
        described["content"] = {name: {"schema": schema} for name in (operation.media_type, *operation.also)}
    headers = {"ETag": _ETAG} if operation.tagged else {"ETag": _CONTENT_TAG} if operation.content_tagged else {}
    if status == HTTPStatus.CREATED:
        headers = {**headers, "Location": _LOCATION}
    return described | ({"headers": headers} if headers else {})


def _problem(status: int) -> dict[str, Any]:
    headers: Mapping[str, Any] = {}
    if status in (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS):
        headers = {"Retry-After": _RETRY_AFTER}
    elif status == HTTPStatus.UNAUTHORIZED:
        headers = {"WWW-Authenticate": _CHALLENGE}
    return {
        "description": _DESCRIPTIONS.get(status, HTTPStatus(status).phrase),
        "content": {PROBLEM_JSON: {"schema": _reference(schemas.Problem)}},
    } | ({"headers": headers} if headers else {})


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}
