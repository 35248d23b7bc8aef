"""The resources of the HTTP interface, their operations, and how each is answered.

``RESOURCES`` is the one table of them: ``controller.rest.api`` routes by it, and ``/openapi.json`` is made from it.
"""

from __future__ import annotations

import functools

import orjson

from controller.rest import schemas
from controller.rest.openapi import openapi_document
from controller.rest.operation import Operation, Resource
from controller.rest.resources.answers import answering
from controller.rest.resources.circuits import CIRCUIT_RESOURCES
from controller.rest.resources.fabric import FABRIC_RESOURCES
from controller.rest.resources.hosts import HOST_RESOURCES
from controller.rest.resources.jobs import JOB_RESOURCES
from controller.rest.resources.learning import LEARNING_RESOURCES
from controller.rest.resources.plans import PLAN_RESOURCES
from controller.rest.resources.relay import RELAY_RESOURCES
from controller.rest.resources.system import SYSTEM_RESOURCES


@functools.cache
def _openapi(secured: bool) -> bytes:
    return orjson.dumps(openapi_document(RESOURCES, secured=secured))


RESOURCES: tuple[Resource, ...] = (
    *JOB_RESOURCES,
    *FABRIC_RESOURCES,
    *PLAN_RESOURCES,
    *HOST_RESOURCES,
    *RELAY_RESOURCES,
    *CIRCUIT_RESOURCES,
    *LEARNING_RESOURCES,
    *SYSTEM_RESOURCES,
    Resource(
        "openapi",
        "/openapi.json",
        {
            "GET": Operation(
                "getOpenApi",
                answering(lambda _backend, call: _openapi(call.secured)),
                "This OpenAPI document",
                {200: schemas.OpenApi},
                of_replica=True,
            )
        },
    ),
)
