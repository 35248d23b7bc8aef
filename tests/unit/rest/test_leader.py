"""A replica that does not lead its cluster sends clients to the leader, and answers itself what every replica knows."""

from __future__ import annotations

import pytest

from controller.rest.resources import RESOURCES
from tests.unit.rest.asking import BY_NAME, VARIABLES, ask, problem
from tests.unit.rest.fake import FakeBackend

OPERATIONS = [(resource.name, method) for resource in RESOURCES for method in resource.operations]
OF_REPLICA = {("cluster", "GET"), ("health", "GET"), ("metrics", "GET"), ("openapi", "GET")}


def follower(leader: str) -> FakeBackend:
    backend = FakeBackend()
    backend.leader = leader
    return backend


def path(name: str) -> str:
    return BY_NAME[name].path.format(**VARIABLES)


@pytest.mark.parametrize(("name", "method"), OPERATIONS)
def test_a_follower_answers_or_names_the_leader(name: str, method: str) -> None:
    reply = ask(name, method, backend=follower("http://leader:8080"), query="")
    if (name, method) in OF_REPLICA:
        assert reply.status == 200
    else:
        assert reply.status == 307
        assert reply.headers["Location"] == f"http://leader:8080{path(name)}"


def test_a_follower_without_a_leader_says_so() -> None:
    reply = ask("jobs", backend=follower(""))
    found = problem(reply)
    assert (found.status, found.type) == (503, "urn:problem-type:fairspine:no-leader")
    assert reply.headers["Retry-After"] == "1"
    assert ask("cluster", backend=follower("")).status == 200


def test_a_single_controller_answers_everything() -> None:
    assert ask("jobs").status == 200
    assert ask("cluster").status == 200
