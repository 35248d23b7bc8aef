"""A controller learns jobs of TCP from what hosts report, plans them beside others, and leaves pushed ones alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller.model.packets.flow_ports import ALL_TCP
from controller.rest import schemas
from tests.unit.service.learning.learned_ring import FABRIC, body, learned, learned_document
from tests.unit.service.world import ANN, World
from tests.unit.southbound.cabling.networks import seen


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC)).planned()
    yield made
    made.close()


def over_tcp(reported: bytes) -> bytes:
    """The same report of TCP connections."""
    document = json.loads(reported)
    rows = [{"src": row["src"], "dst": row["dst"], "protocol": "tcp"} for row in document["qps"]]
    return json.dumps(document | {"qps": rows}).encode()


def learn(world: World, reported: bytes) -> schemas.LearnedSummary:
    world.service.see(reported)
    world.until(lambda: bool(learned(world).jobs))
    (job,) = learned(world).jobs
    return job


def test_a_ring_over_tcp_is_planned_when_learning_acts_and_adopted_as_a_job_of_tcp(world: World) -> None:
    job = learn(world, over_tcp(body(world.runtime.now())))
    assert (job.hosts, job.flows, job.groups[0].shape, job.planned_flows) == (6, 6, "ring", 0)
    world.service.set_learning("act", ANN)
    world.service.see(over_tcp(body(world.runtime.now())))
    world.until(lambda: all(job.planned for job in learned(world).jobs))
    assert set(world.service.state.traffic.udp_src.tolist()) == {ALL_TCP}
    document: dict[str, Any] = learned_document(world, job.name).job
    assert (document["protocol"], document["ports"]) == ("tcp", "unknown")
    world.service.adopt(job.name, ANN)
    traffic = world.service.state.traffic
    assert (traffic.jobs, traffic.n_flows) == ((job.name,), 6)
    assert set(traffic.udp_src.tolist()) == {ALL_TCP}
    assert learned(world).jobs == []


def test_jobs_of_both_protocols_on_the_same_hosts_are_two(world: World) -> None:
    now = world.runtime.now()
    world.service.see(body(now))
    world.service.see(over_tcp(body(now)))
    world.until(lambda: len(learned(world).jobs) == 2)
    protocols = [learned_document(world, job.name).job.get("protocol", "roce") for job in learned(world).jobs]
    assert sorted(map(str, protocols)) == ["roce", "tcp"]


@pytest.mark.parametrize(
    ("flow", "left"),
    [
        ({"protocol": "tcp"}, 5),
        ({"protocol": "tcp", "dst_port": 5001}, 5),
        ({"protocol": "tcp", "src_port": 5001}, 5),
        ({"protocol": "any"}, 5),
        ({"protocol": "udp"}, 6),
        ({}, 6),
    ],
)
def test_what_a_pushed_job_has_of_two_hosts_is_not_planned_as_learned(
    world: World, flow: dict[str, Any], left: int
) -> None:
    learn(world, over_tcp(body(world.runtime.now())))
    world.service.set_learning("act", ANN)
    world.service.see(over_tcp(body(world.runtime.now())))
    world.until(lambda: all(job.planned for job in learned(world).jobs))
    world.put("pushed", [{"src": "h1", "dst": "h2", "bytes": 1000} | flow])
    traffic = world.service.state.traffic
    assert traffic.n_flows - 1 == left
