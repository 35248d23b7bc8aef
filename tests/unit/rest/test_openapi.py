"""The description of the interface, against the standard's own schema and against the table that it is made from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from controller.rest.openapi import openapi_document
from controller.rest.resources import RESOURCES
from controller.rest.security.access import Open
from tests.unit.rest.asking import ask

REFERENCE = Path(__file__).parents[3] / "docs/reference/api.md"


@pytest.fixture(scope="module", params=[True, False], ids=["secured", "open"])
def document(request: pytest.FixtureRequest) -> dict[str, Any]:
    return openapi_document(RESOURCES, secured=request.param)


def test_it_is_openapi_3_1(document: dict[str, Any]) -> None:
    from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

    assert document["openapi"].startswith("3.1.")
    assert [error.message for error in OPENAPI_31_VALIDATOR.iter_errors(document)] == []


def test_every_reference_leads_somewhere_and_every_schema_is_used(document: dict[str, Any]) -> None:
    references: set[str] = set()

    def collect(part: object) -> None:
        if isinstance(part, dict):
            if "$ref" in part:
                references.add(part["$ref"])
            for value in part.values():
                collect(value)
        elif isinstance(part, list):
            for value in part:
                collect(value)

    collect(document)
    # Of the events, the stream's text is described and its data only named.
    assert references | {"#/components/schemas/EventDocument"} == {
        f"#/components/schemas/{name}" for name in document["components"]["schemas"]
    }


def test_it_has_every_operation_and_no_other(document: dict[str, Any]) -> None:
    described = {
        (path, method.upper()): operation["operationId"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "parameters"
    }
    assert described == {
        (resource.path, method): operation.id
        for resource in RESOURCES
        for method, operation in resource.operations.items()
    }


def test_tokens_are_asked_for_where_they_are_needed_alone() -> None:
    secured, without = (openapi_document(RESOURCES, secured=value) for value in (True, False))
    assert secured["security"] == [{"token": []}]
    assert "401" in secured["paths"]["/v1/plan"]["get"]["responses"]
    assert "403" in secured["paths"]["/v1/mode"]["put"]["responses"]
    assert {} in secured["paths"]["/healthz"]["get"]["security"]
    assert without["security"] == []
    assert "401" not in {
        status
        for methods in without["paths"].values()
        for method, operation in methods.items()
        if method != "parameters"
        for status in operation["responses"]
    }


def test_it_is_served_as_the_server_is_set_up() -> None:
    class Secured(Open):
        required = True

    for access in (Open(), Secured()):
        response = ask("openapi", access=access)
        assert json.loads(response.body) == json.loads(json.dumps(openapi_document(RESOURCES, secured=access.required)))


def test_the_reference_lists_every_operation() -> None:
    listed = set(re.findall(r"^\| `([A-Z]+) (/[^?`]*)", REFERENCE.read_text(), re.MULTILINE))
    operations = {(method, resource.path) for resource in RESOURCES for method in resource.operations}
    assert operations - listed == set()
    assert {(method, path) for method, path in listed if path.startswith("/v1/")} - operations == set()
