"""Models of hashes are kept by state of the cables, also over restarts, and forgotten when they are wrong."""

from __future__ import annotations

import dataclasses
import json
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.ports.hash_memory import MOST_STATES, HashMemory
from agent.ports.linear_hash import HashModels
from agent.ports.port_search import PortSearch
from controller.model.errors import InputError
from tests.rig.routers.hashing_routers import HashingNetwork, run

FIRST = IPv4Address("10.1.0.1")
MANY = 40


def state(name: str, first: int = 0, many: int = MANY) -> dict[Address, str]:
    """The names of a state of the cables, for some destinations."""
    return {FIRST + n: f"{name}{n}" for n in range(first, first + many)}


def probed(network: HashingNetwork, models: HashModels, seed: int) -> int:
    """Search a port for each destination; return the candidates that it took."""
    random = Random(seed)
    wanted: dict[Address, dict[int, int]] = {FIRST + n: {random.randrange(network.n_paths): 1} for n in range(MANY)}
    search = PortSearch(network.task(wanted), Random(seed), hashes=models)
    run(search, network)
    assert search.is_done
    assert all(network.path(known.dst, port) == path for known in search.ports for port, path in known.path_of.items())
    return sum(each.answered for each in search.ports)


def restarted(memory: HashMemory) -> HashMemory:
    return HashMemory.read(json.loads(json.dumps(memory.document())))


networks = st.builds(
    HashingNetwork, st.sampled_from([(8,), (16,), (32,)]), st.integers(0, 1 << 30), linear=st.just(True)
)


@given(network=networks, seed=st.integers(0, 1 << 30), restarts=st.booleans())
def test_a_repaired_cable_and_a_restart_need_no_lesson(network: HashingNetwork, seed: int, restarts: bool) -> None:
    memory, failed = HashMemory(), dataclasses.replace(network, seed=network.seed + 1)
    for of, name in ((network, "whole"), (failed, "failed")):
        models = memory.models(state(name))
        assert models.kind is None
        probed(of, models, seed)
        assert models.kind == "linear"
    if restarts:
        memory = restarted(memory)
    for of, name in ((network, "whole"), (failed, "failed")):
        # Other destinations, of which some are the same.
        assert probed(of, memory.models(state(name, first=MANY // 2)), seed + 1) <= 2.2 * MANY


@given(network=networks, seed=st.integers(0, 1 << 30))
def test_a_model_that_was_wrong_is_forgotten(network: HashingNetwork, seed: int) -> None:
    memory = HashMemory()
    probed(network, memory.models(state("whole")), seed)
    assert memory.document()
    rebooted = dataclasses.replace(network, linear=False)
    models = memory.models(state("whole"))
    probed(rebooted, models, seed + 1)
    assert models.kind == "other"
    assert memory.document() == []
    assert memory.models(state("whole")) is not models


def test_the_states_seen_last_are_kept() -> None:
    memory = HashMemory()
    every = [memory.models(state(f"{n} ")) for n in range(MOST_STATES + 2)]
    assert [memory.models(state(f"{n} ")) for n in reversed(range(2, MOST_STATES + 2))] == every[:1:-1]
    assert memory.models(state("0 ")) is not every[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"vectors": [[0, 0]]},
        {"offsets": [[0, 1 << 20]]},
        {"columns": [99]},
        {"columns": None},
        {"bits": 3},
        {"kind": "certain"},
    ],
)
def test_a_damaged_model_is_learned_again(damage: dict[str, Any]) -> None:
    network, memory = HashingNetwork((8,), 5, linear=True), HashMemory()
    probed(network, memory.models(state("whole")), 1)
    rows = json.loads(json.dumps(memory.document()))
    rows[0]["models"][0]["hash"].update(damage)
    models = HashMemory.read(rows).models(state("whole"))
    probed(network, models, 2)
    assert models.kind == "linear"


@pytest.mark.parametrize(
    "rows", [{}, [1], [{"maps": {}}], [{"maps": {"x": "a"}, "models": []}], [{"maps": {}, "models": [1]}]]
)
def test_what_is_no_document_is_refused(rows: Any) -> None:
    with pytest.raises(InputError):
        HashMemory.read(rows)
