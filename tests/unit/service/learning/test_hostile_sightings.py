"""Sightings that are forged, damaged or far too many: one error each, bounded memory, and nothing else is changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller.learning.odometer import Odometers
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.traffic import FIRST_PORT
from controller.service.learning import learner
from tests.unit.laws import examples
from tests.unit.service.world import ANN, World
from tests.unit.southbound.cabling.networks import seen

FABRIC = clos(leaves=2, spines=2, hosts_per_leaf=2)
MOST_QPS = 1000
NAMES = [host.name for host in FABRIC.hosts]

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World(FABRIC, seen(FABRIC), learning="observe").planned()
    yield made
    made.close()


def body(now: float) -> dict[str, Any]:
    """Sightings of two QPs that nothing is wrong with."""
    qps = [{"src": NAMES[i], "dst": NAMES[i + 2], "udp_src": FIRST_PORT + i, "dst_qp": i} for i in (0, 1)]
    return {"qps": qps, "qp": [0, 1, 0], "at": [now, now, now + 0.5], "bytes": [0, 10, 10**6]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=examples(150, 900))
@given(st.data())
def test_a_damaged_body_is_one_error_and_leaves_rules_and_plan_alone(world: World, data: st.DataObject) -> None:
    before = world.service.state
    sent: Any = deepcopy(body(world.runtime.now()))
    place = sent
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and data.draw(st.booleans()):
            place = place[key]
        else:
            break
    place[key] = data.draw(VALUES)
    whole = json.dumps(sent).encode()
    cut = data.draw(st.integers(0, len(whole)) | st.just(len(whole)))
    try:
        world.service.see(whole[:cut])
    except InputError as error:
        assert str(error)
    assert world.service.state.compiled is before.compiled
    assert world.service.state.epoch == before.epoch


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_bytes_are_sightings_or_an_error(world: World, sent: bytes) -> None:
    with pytest.raises(InputError):
        world.service.see(sent)


def test_a_flood_of_forged_qps_pushes_out_the_oldest_and_takes_no_further_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = 100
    monkeypatch.setattr(learner, "Odometers", lambda: Odometers(MOST_QPS))
    world.service.set_learning("off", ANN)
    world.service.set_learning("observe", ANN)
    known = []
    for batch in range(2 * MOST_QPS // at_once):
        numbers = range(batch * at_once, (batch + 1) * at_once)
        qps = [{"src": NAMES[0], "dst": NAMES[2], "udp_src": 50000, "dst_qp": number} for number in numbers]
        now = world.runtime.now()
        sent = {"qps": qps, "qp": list(range(at_once)), "at": [now] * at_once, "bytes": list(range(at_once))}
        known.append(world.service.see(json.dumps(sent).encode()))
    assert known == [{"qps": min(MOST_QPS, (batch + 1) * at_once)} for batch in range(len(known))]


@pytest.mark.parametrize(
    ("member", "value"), [("protocol", "udp"), ("udp_src", FIRST_PORT), ("dst_qp", 5)], ids=["protocol", "port", "QP"]
)
def test_what_tcp_connections_cannot_have_is_one_error(world: World, member: str, value: object) -> None:
    now = world.runtime.now()
    row = {"src": NAMES[0], "dst": NAMES[2], "protocol": "tcp"}
    sent = {"qps": [row | {member: value}], "qp": [0], "at": [now], "bytes": [5]}
    with pytest.raises(InputError) as error:
        world.service.see(json.dumps(sent).encode())
    assert error.value.field == f"qps[0].{member}"
    assert error.value.value == value
