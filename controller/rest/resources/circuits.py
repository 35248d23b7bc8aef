"""Circuits of an optical fabric, and the tables of servers on it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

import falcon
from pydantic import Field

from controller.core.ports.api import Backend
from controller.model.texts.text_form import text_form
from controller.rest import schemas
from controller.rest.operation import Call, Operation, Parameter, Resource
from controller.rest.resources.answers import answer_document, answering
from controller.rest.resources.hosts import OWN_HOST, WAIT

HAS = Parameter(
    "after",
    "step of the table that the server holds: answer when there is another one (default: none)",
    Annotated[str, Field(max_length=64), text_form(r"^[0-9a-f]*\.?[0-9]*$", "the step of a table, such as 64c1f00d.3")],
    "64c1f00d.3",
)


def _table(backend: Backend, call: Call, response: falcon.Response) -> None:
    values = call.values
    document = backend.server_table(values["host"], values.get("after", ""), values.get("wait", 0.0), call.gone)
    if document is None:
        response.status = HTTPStatus.NOT_MODIFIED
    else:
        answer_document(response, document)


CIRCUIT_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "circuits",
        "/v1/circuits",
        {
            "GET": Operation(
                "getCircuits",
                answering(lambda backend, _call: backend.circuits()),
                "The circuits of an optical fabric, its panels and its servers",
                {200: schemas.CircuitsDocument},
                problems=frozenset({409}),
                description="409: the fabric has packet switches.",
            )
        },
    ),
    Resource(
        "server_table",
        "/v1/hosts/{host}/circuits",
        {
            "GET": Operation(
                "getServerTable",
                _table,
                "What a server on an optical fabric forwards by, as soon as it is not what it holds",
                {200: schemas.ServerTableDocument, 304: None},
                parameters=(HAS, WAIT),
                problems=frozenset({404, 409}),
                description="304: there was no other table within the time. 409: the fabric has packet switches. A "
                "token of the role host reads the table of its own host only.",
                of_host=True,
            )
        },
        variables=(OWN_HOST,),
    ),
)
