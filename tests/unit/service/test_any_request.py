"""Whatever a client sends, the real service answers it, or refuses it with a problem; nothing ends in an empty 500."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.core.ports.api import Backend
from controller.model.files.clos import clos
from controller.rest import schemas
from controller.rest.operation import Operation, Resource
from controller.rest.resources import RESOURCES
from tests.unit.laws import examples
from tests.unit.rest.asking import Reply, example_query, send
from tests.unit.service.world import World, flow
from tests.unit.southbound.cabling.networks import seen

OPERATIONS = [
    (resource, method, operation) for resource in RESOURCES for method, operation in resource.operations.items()
]
WITH_BODIES = [each for each in OPERATIONS if each[2].body is not None]
EDGES = (0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 1e308, 5e-324, -0.0)
TEXTS = st.sampled_from(
    ["", "h1", "a", "leaf1", "spine1-leaf1-1", "leaf1-spine1-1", "\ud800", "\x00", "é" * 300, "1e999", "../.."]
)
SCALARS = (
    st.none() | st.booleans() | st.sampled_from(EDGES) | TEXTS | st.text(max_size=20) | st.integers() | st.floats()
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6) | TEXTS, inner, max_size=3),
    max_leaves=6,
)
DEEP = st.tuples(
    st.sampled_from(['[{"a":', "[", '{"a":']), st.sampled_from([10, 250, 254, 255, 500, 900, 1022, 1024, 1100])
)


def deep_text(opening: str, levels: int) -> str:
    """JSON of so many levels."""
    closing = opening.replace('"a":', "")[::-1].replace("[", "]").replace("{", "}")
    per = opening.count("[") + opening.count("{")
    return opening * (levels // per) + "1" + closing * (levels // per)


@st.composite
def changed(draw: st.DrawFn, value: Any, others: st.SearchStrategy[Any] = VALUES) -> Any:
    """A JSON value in which one place is another value, is gone, or is there twice."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(value)))
        match draw(st.sampled_from(["inside", "inside", "gone", "more", "renamed"])):
            case "gone":
                return {k: v for k, v in value.items() if k != name}
            case "more":
                return value | {draw(TEXTS): draw(others)}
            case "renamed":
                return {draw(st.text(max_size=5)) if k == name else k: v for k, v in value.items()}
            case _:
                return value | {name: draw(changed(value[name], others))}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(value) - 1))
        if draw(st.booleans()):
            return [*value, value[at]]
        return [*value[:at], draw(changed(value[at], others)), *value[at + 1 :]]
    return draw(others)


def as_json(value: Any) -> bytes:
    """JSON of a value: of every second one in ASCII, with escapes, which may stand for half of a surrogate pair."""
    return json.dumps(value, ensure_ascii=len(str(value)) % 2 == 0).encode("utf-8", "surrogatepass")


@st.composite
def bodies(draw: st.DrawFn, operation: Operation) -> bytes:
    """A body: near the example, nested deep, or any bytes."""
    if operation.body is None:
        return draw(st.binary(max_size=10))
    example = dict(operation.body.example)
    match draw(st.sampled_from(["changed", "changed", "changed", "twice", "any", "deep", "deep within", "bytes"])):
        case "changed":
            return as_json(draw(changed(example)))
        case "twice":
            return as_json(draw(changed(draw(changed(example)))))
        case "any":
            return as_json(draw(VALUES))
        case "deep":
            return deep_text(*draw(DEEP)).encode()
        case "deep within":
            marked = as_json(draw(changed(example, st.just("HERE"))))
            return marked.replace(b'"HERE"', deep_text(*draw(DEEP)).encode())
        case _:
            return draw(st.binary(max_size=60))


@st.composite
def queries(draw: st.DrawFn, operation: Operation) -> str:
    """A query: its parameters with other values, or any text."""
    names = [each.name for each in operation.parameters if each.place == "query"]
    pairs = draw(
        st.lists(st.tuples(st.sampled_from([*names, "x"]), st.text(max_size=20) | SCALARS.map(str)), max_size=3)
    )
    text = "&".join(f"{name}={quote(value, errors='replace')}" for name, value in pairs)
    return draw(st.just("") | st.just(text) | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=20))


HEADER_NAMES = (
    "Accept",
    "Accept-Encoding",
    "If-Match",
    "If-None-Match",
    "Content-Type",
    "X-Request-ID",
    "Last-Event-ID",
    "Authorization",
    "Fairspine-Reason",
    "Fairspine-At-Least",
    "Fairspine-Forwarded",
    "Content-Length",
    "Content-Encoding",
    "Origin",
    "Sec-Fetch-Site",
    "Host",
    "Prefer",
    "Range",
)
HEADER_VALUES = st.sampled_from(
    ["", "*", '"a"', 'W/"a"', "application/json", "gzip;q=0", "*/*;q=2", "text/html", "1.1", "1:1", "http://c", "null"]
) | st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20)


@st.composite
def path_variables(draw: st.DrawFn, resource: Resource) -> dict[str, str]:
    """Values of the variables of a path."""
    values = st.sampled_from(["a", "h1", "leaf1", "1"]) | TEXTS | st.text(max_size=8)
    return {each.name: draw(values) for each in resource.variables}


@st.composite
def requests(draw: st.DrawFn) -> tuple[Resource, str, Operation, dict[str, str], str, dict[str, str], bytes]:
    resource, method, operation = draw(st.sampled_from(OPERATIONS) | st.sampled_from(WITH_BODIES))
    odd = draw(st.sampled_from(["body", "body", "body", "query", "headers", "path", "all"]))
    every = odd == "all"
    variables = (
        draw(path_variables(resource))
        if odd == "path" or every
        else {each.name: str(each.example) for each in resource.variables}
    )
    headers = (
        draw(st.dictionaries(st.sampled_from(HEADER_NAMES), HEADER_VALUES, max_size=2))
        if odd == "headers" or every
        else {}
    )
    query = draw(queries(operation)) if odd == "query" or every else example_query(operation)
    body = (
        draw(bodies(operation))
        if odd == "body" or every
        else b""
        if operation.body is None
        else as_json(dict(operation.body.example))
    )
    if body:
        headers.setdefault("Content-Length", str(len(body)))
    if method == "POST":
        headers.setdefault("Content-Type", "application/json")
    return resource, method, operation, variables, query, headers, body


@pytest.fixture
def world() -> World:
    fabric = clos(2, 2, 2)
    world = World(fabric, seen(fabric)).planned()
    world.put("a", [flow("h1", "h3")])
    return world


@contextmanager
def usual_recursion_limit() -> Iterator[None]:
    """Set the limit of the interpreter as in a controller: hypothesis raises it."""
    raised = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        yield
    finally:
        sys.setrecursionlimit(raised)


def check(reply: Reply, method: str, log: str) -> None:
    """Check that an answer is one: a document, a problem, or a status that has no body."""
    assert reply.status != 500, log
    if reply.status >= 400:
        document = json.loads(reply.body)
        assert schemas.Problem.model_validate(document).status == reply.status
    elif method != "HEAD" and reply.status not in (204, 304) and reply.stream is None:
        assert reply.body


@settings(max_examples=examples(150, 4000), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(request=requests())
def test_every_request_gets_an_answer_or_a_problem(
    world: World, caplog: pytest.LogCaptureFixture, request: Any
) -> None:
    resource, method, _, variables, query, headers, body = request
    quoted = {name: quote(value, safe="", errors="replace") or "%20" for name, value in variables.items()}
    caplog.clear()
    caplog.set_level(logging.ERROR)
    with usual_recursion_limit():
        reply = send(
            cast(Backend, world.service),
            method,
            resource.path.format(**quoted),
            query=query,
            headers=headers,
            body=body,
        )
    check(reply, method, caplog.text)
    if reply.stream is not None:
        cast(Any, reply.stream).close()
