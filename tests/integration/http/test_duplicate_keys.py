"""Requests in which a key is there twice are refused, small and large, and change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.rig.http.client import Server
from tests.rig.real_controller import controller

JSON_TYPE = {"Content-Type": "application/json"}
FLOW = b'{"src": "h1", "dst": "h5", "bytes": 1000}'
WRONG = b'{"src": "h1", "dst": "h5", "bytes": 1000, "bytes": 7}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with controller(tmp_path_factory.mktemp("keys")) as (running, _):
        yield running


def job(count: int, last: bytes) -> bytes:
    return b'{"flows": [' + b",".join([*[FLOW] * (count - 1), last]) + b"]}"


@pytest.mark.parametrize("count", [1, 20_000])
def test_a_job_is_refused_with_the_path_of_the_key(server: Server, count: int) -> None:
    """The larger one is parsed in the worker process."""
    refused = server.ask("PUT", "/v1/jobs/a", job(count, WRONG), JSON_TYPE)
    assert refused.status == 422
    assert refused.problem["field"] == f"flows[{count - 1}].bytes"
    assert refused.problem["detail"] == "this key occurs twice"
    assert server.ask("GET", "/v1/jobs/a").status == 404


@pytest.mark.parametrize(
    ("method", "target", "body", "field"),
    [
        ("PUT", "/v1/mode", b'{"mode": "ecmp", "mode": "planned"}', "mode"),
        ("PUT", "/v1/fabric/links/spine1", b'{"drained": false, "drained": true}', "drained"),
        ("POST", "/v1/plans:preview", b'{"put": [' + job(1, WRONG) + b"]}", "put[0].flows[0].bytes"),
        ("POST", "/v1/plans:preview", b'{"drain": [], "drain": ["spine1"]}', "drain"),
    ],
)
def test_every_other_body_too(server: Server, method: str, target: str, body: bytes, field: str) -> None:
    refused = server.ask(method, target, body, JSON_TYPE)
    assert (refused.status, refused.problem["field"]) == (422, field)
    assert json.loads(server.ask("GET", "/v1/mode").body)["mode"] == "planned"
    assert not json.loads(server.ask("GET", "/v1/fabric/links/spine1").body)["drained"]
