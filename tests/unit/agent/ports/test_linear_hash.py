"""Laws of the model of routers' hashes: CRCs are learned from few probes, others recognised, and none believed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.ports.linear_hash import HashModels, LinearHash
from agent.ports.port_search import HopProbe, PairPorts, PortSearch
from tests.rig.routers.hashing_routers import FIRST_PORT, LAST_PORT, HashingNetwork, run

FIRST = IPv4Address("10.1.0.1")
MANY = 40

Wanted = dict[Address, dict[int, int]]


def one_path_each(n_paths: int, seed: int) -> Wanted:
    """One path to each of many destinations."""
    random = Random(seed)
    return {FIRST + n: {random.randrange(n_paths): 1} for n in range(MANY)}


def searched(network: HashingNetwork, wanted: Wanted, seed: int, hashes: HashModels) -> list[PairPorts]:
    search = PortSearch(network.task(wanted), Random(seed), hashes=hashes)
    run(search, network)
    assert search.is_done
    for known in search.ports:
        assert all(network.path(known.dst, port) == path for port, path in known.path_of.items())
        assert known.state == ("unreachable" if known.unreachable else "complete")
        if known.unreachable:
            assert known.unreachable == wanted[known.dst].keys() - network.reachable(known.dst)
    return search.ports


class Lossy(HashingNetwork):
    """Routers that answer no probe to the first destination, and lose others."""

    loss = 0.0
    random = Random(0)

    def answer(self, probe: HopProbe, now: float) -> tuple[Address, bool] | None:
        if probe.dst == FIRST or self.random.random() < self.loss:
            return None
        return super().answer(probe, now)


linear = st.builds(
    HashingNetwork,
    st.sampled_from([(4,), (8,), (16,), (32,), (2, 2), (4, 2), (4, 4)]),
    st.integers(0, 1 << 30),
    linear=st.just(True),
)


@given(network=linear, seed=st.integers(0, 1 << 30), more=st.booleans())
def test_after_one_lesson_two_probes_find_the_port_of_a_flow(network: HashingNetwork, seed: int, more: bool) -> None:
    network.by_choice = more and len(network.widths) > 1
    wanted, hashes = one_path_each(network.n_paths, seed), HashModels()
    known = searched(network, wanted, seed, hashes)
    if all(each.unreachable == frozenset() for each in known):
        tried = sum(each.answered for each in known)
        lesson = LinearHash(FIRST_PORT, LAST_PORT, network.n_paths, Random(0)).probes
        assert tried <= lesson + 2.2 * MANY
    assert hashes.kind == "linear"
    # What was learned serves the next search, too.
    again = searched(network, one_path_each(network.n_paths, seed + 1), seed, hashes)
    if not any(each.unreachable for each in again):
        assert sum(each.answered for each in again) <= 2.2 * MANY


@given(
    widths=st.sampled_from([(4,), (8,), (32,), (3,), (6,), (4, 4)]),
    seed=st.integers(0, 1 << 30),
)
def test_a_hash_that_is_not_linear_is_recognised(widths: tuple[int, ...], seed: int) -> None:
    network, hashes = HashingNetwork(widths, seed), HashModels()
    searched(network, one_path_each(network.n_paths, seed), seed, hashes)
    assert hashes.kind == "other"


@given(network=linear, seed=st.integers(0, 1 << 30))
def test_what_was_learned_is_not_believed_when_routers_hash_otherwise(network: HashingNetwork, seed: int) -> None:
    hashes = HashModels()
    searched(network, one_path_each(network.n_paths, seed), seed, hashes)
    other = dataclasses.replace(network, linear=False)
    searched(other, one_path_each(network.n_paths, seed + 1), seed, hashes)
    assert hashes.kind == "other"


@given(network=linear, seed=st.integers(0, 1 << 30), loss=st.sampled_from([0.0, 0.1, 0.3]))
def test_lost_probes_and_silent_teachers_hold_up_nobody(network: HashingNetwork, seed: int, loss: float) -> None:
    lossy = Lossy(network.widths, network.seed, linear=True)
    lossy.loss, lossy.random = loss, Random(seed)
    task = lossy.task(one_path_each(network.n_paths, seed))
    search = PortSearch(task, Random(seed))
    run(search, lossy)
    assert search.is_done
    states: Mapping[Address, str] = {each.dst: each.state for each in search.ports}
    assert states[FIRST] == "silent"
    assert loss or {*states.values()} == {"silent", "complete"}


def test_ports_that_a_model_returns_differ() -> None:
    network = HashingNetwork((8,), 1, linear=True)
    model = LinearHash(FIRST_PORT, LAST_PORT, 8, Random(1))
    while model.kind == "learning":
        model.answer(network.path(FIRST, model.asked))
    shift = model.shift(FIRST_PORT, network.path(FIRST, FIRST_PORT))
    assert shift == 0
    ports = {model.port(shift, 3) for _ in range(50)}
    assert len(ports) > 30
    assert {network.path(FIRST, port) for port in ports if port is not None} == {3}


@pytest.mark.parametrize("n_paths", [1, 2, 3, 6, 12])
def test_without_a_power_of_two_of_at_least_four_paths_nothing_is_learned(n_paths: int) -> None:
    assert LinearHash(FIRST_PORT, LAST_PORT, n_paths, Random(0)).kind == "other"
