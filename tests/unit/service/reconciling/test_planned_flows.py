"""Whether a learned job is planned is told by its flows, whatever name they have in the plan."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.learning.learned_job import LearnedGroup, LearnedJob
from controller.learning.sightings import QpKey
from controller.model.traffic import ANY_PORT
from controller.service.reconciling.admission import admit
from controller.views.learned import flow_identities, host_finder, planned_flows
from controller.workload.expand import combine
from tests.unit.service.learning.admitted_jobs import without_ports
from tests.unit.service.learning.by_hand import by_hand
from tests.unit.service.learning.learned_ring import FABRIC, RING, body, learned, learned_document
from tests.unit.service.world import World
from tests.unit.southbound.cabling.networks import seen

KEYS = st.builds(
    QpKey, st.integers(0, 3), st.integers(4, 5), st.sampled_from([ANY_PORT, 50000, 50001]), st.integers(0, 2)
)


def job(keys: set[QpKey]) -> LearnedJob:
    qps = tuple(sorted(keys))
    return LearnedJob(1.0, 5, (LearnedGroup(0, "flows", qps, (10**9,) * len(qps)),), (0.4,), 1.0, 0.0, 0.0)


@given(st.sets(KEYS, min_size=1, max_size=10), st.sets(KEYS, max_size=10))
def test_a_qp_is_planned_if_its_flow_is_or_all_that_its_hosts_send(mine: set[QpKey], others: set[QpKey]) -> None:
    planned = {key[:3] for key in others}
    count = planned_flows(job(mine), planned)
    assert 0 <= count <= len(mine)
    for key in mine:
        rows = [(src, dst, port) for src, dst, port in planned if (src, dst) == (key.src, key.dst)]
        assert planned_flows(job({key}), planned) == any(port in (ANY_PORT, key.udp_src) for _, _, port in rows)
    assert count == sum(planned_flows(job({key}), planned) for key in mine)
    # What is planned of a job alone is all of it.
    assert planned_flows(job(mine), {key[:3] for key in mine}) == len(mine)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="act").planned()
    yield made
    made.close()


def act(world: World, sent: bytes) -> None:
    world.service.see(sent)
    world.until(lambda: bool(world.service.state.desired.learned))
    by_hand(world)


@pytest.mark.parametrize("ports", [True, False])
def test_a_job_that_has_another_name_than_in_the_plan_is_planned_if_its_flows_are(world: World, ports: bool) -> None:
    sent = body(world.runtime.now())
    act(world, sent if ports else without_ports(sent))
    (found,) = world.service._learner.jobs
    (in_plan,) = world.service.state.desired.learned
    assert in_plan.name == found.name

    def summary(one: LearnedJob) -> tuple[int, bool, int]:
        world.service._learner._life.jobs = {one.name: one}
        (row,) = learned(world).jobs
        # Speeds are computed beside the requests: one may be there in the second answer only.
        again = learned_document(world, one.name).summary
        speeds = {"hashed_speed": None, "planned_speed": None}
        assert again.model_copy(update=speeds) == row.model_copy(update=speeds)
        return row.flows, row.planned, row.planned_flows

    (group,) = found.groups
    count = len(RING.keys)
    assert summary(found) == (count, True, count)
    less = dataclasses.replace(found, groups=(dataclasses.replace(group, qps=group.qps[1:], bytes=group.bytes[1:]),))
    assert less.name != in_plan.name
    assert summary(less) == (count - 1, True, count - 1)
    # A host has begun to send to another one.
    strange = group.qps[0]._replace(dst=group.qps[3].dst)
    more = dataclasses.replace(group, qps=(*group.qps, strange), bytes=(*group.bytes, 10**9))
    assert summary(dataclasses.replace(found, groups=(more,))) == (count + 1, False, count)
    other = dataclasses.replace(group, qps=(strange,), bytes=(10**9,))
    assert summary(dataclasses.replace(found, groups=(other,))) == (1, False, 0)


def test_flows_of_a_plan_are_those_of_the_packets() -> None:
    rows = [{"src": "h1", "dst": "h5", "bytes": 9, "udp_src": 50000}, {"src": "h2", "dst": "h4", "bytes": 9}]
    traffic = admit("a", json.dumps({"flows": rows}).encode(), FABRIC, [], 100)
    flows = flow_identities(FABRIC, combine([traffic]))
    of_host = host_finder(FABRIC)
    assert {(of_host(src), of_host(dst)) for src, dst, _ in flows} == {("h1", "h5"), ("h2", "h4")}
    assert {port for _, _, port in flows} == set(traffic.udp_src.tolist())
    assert 50000 in traffic.udp_src
