"""From a request to its response: who asks, whether the request is well-formed, what the controller says.

Pure: a request value comes in, a response value goes out, and the controller is an argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

from controller.model.errors import InputError, NotFoundError, UnavailableError
from controller.rest.access import Access, Open
from controller.rest.backend import UNCONDITIONAL, Backend, Caller, ConflictError, PreconditionFailedError, Role
from controller.rest.conditions import condition
from controller.rest.messages import JSON, Request, Response
from controller.rest.operation import Call, Operation, Resource, missing
from controller.rest.problems import ProblemError, bad_input, from_error

_JSON_TYPE = re.compile(r"application/(?:json|[a-z0-9!#$&^_.-]+\+json)", re.IGNORECASE)
_MOST_PARAMETERS = 16
_ANYONE = Open()


def answer(backend: Backend, resource: Resource | None, request: Request, access: Access = _ANYONE) -> Response:
    """The response to a request for a resource (``None``: the path names none).

    Whatever is wrong with the request, and whatever the backend may raise by its contract, becomes a problem
    document. Other exceptions pass.
    """
    try:
        if resource is None:
            if (request.method, request.path) == ("OPTIONS", "*"):
                return Response(HTTPStatus.NO_CONTENT)
            raise ProblemError(HTTPStatus.NOT_FOUND, "this path names no resource")
        return _answer(backend, resource, request, access)
    except ProblemError as problem:
        return problem.response(request.path)


def _answer(backend: Backend, resource: Resource, request: Request, access: Access) -> Response:
    if request.method == "OPTIONS":
        return Response(HTTPStatus.NO_CONTENT, headers=resource.allow)
    # The server sends the head alone where the method is HEAD.
    operation = resource.operations.get("GET" if request.method == "HEAD" else request.method)
    if operation is None:
        raise ProblemError(
            HTTPStatus.METHOD_NOT_ALLOWED, "this resource does not have that method", headers=resource.allow
        )
    caller = _caller(operation, request, access)
    variables = resource.read_variables(request.variables)
    parameters = _parameters(operation, request)
    wanted = condition(request.headers) if operation.conditional else UNCONDITIONAL
    body = b""
    if operation.body is not None:
        _check_content(request.headers)
        body = request.read_body(operation.body.most_bytes)
    call = Call(
        caller, request.method, request.path, access.required, variables, parameters, body, wanted,
        accept=request.headers.get("accept", ""),
    )  # fmt: skip
    try:
        if operation.open:
            return operation.handle(backend, call)
        with request.at_work(operation.takes_long):
            return operation.handle(backend, call)
    except (InputError, NotFoundError, UnavailableError, PreconditionFailedError, ConflictError) as error:
        raise from_error(error, has_body=operation.body is not None) from error


def _caller(operation: Operation, request: Request, access: Access) -> Caller | None:
    try:
        caller = access.caller(request.headers.get("authorization"))
    except ProblemError:
        if operation.open:
            return None
        raise
    if operation.role is Role.WRITE and not caller.may_write:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            f"the token {caller.name} may only read",
            headers=(("WWW-Authenticate", 'Bearer realm="fairspine", error="insufficient_scope"'),),
        )
    return caller


def _parameters(operation: Operation, request: Request) -> dict[str, Any]:
    """Query and header parameters: of the query no others, and none twice."""
    try:
        pairs = parse_qsl(request.query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise ProblemError(HTTPStatus.BAD_REQUEST, "too many query parameters") from None
    given: dict[str, str] = {}
    known = [parameter.name for parameter in operation.parameters if parameter.place == "query"]
    for name, value in pairs:
        if name not in known:
            there_are = f"there are {', '.join(known)}" if known else "there are none"
            raise bad_input(f"unknown query parameter; {there_are}", field=name, value=value)
        if name in given:
            raise bad_input("query parameter is given twice", field=name, value=value)
        given[name] = value
    values = {}
    for parameter in operation.parameters:
        text = given.get(parameter.name) if parameter.place == "query" else request.headers.get(parameter.name.lower())
        if text is not None:
            values[parameter.name] = parameter.kind.read(parameter.name, text)
        elif parameter.required:
            raise missing(parameter)
    return values


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
