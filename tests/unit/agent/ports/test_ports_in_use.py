"""Laws of the ports in use: they stay while they are right, and are replaced when they are not."""

from __future__ import annotations

from ipaddress import IPv4Address
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.port_search import PairPorts, PortSearch
from agent.ports.ports_in_use import PortsInUse
from agent.ports.probe_task import AnswerBudget
from tests.rig.routers.hashing_routers import HashingNetwork, run

FIRST = IPv4Address("10.1.0.1")


def searched(network: HashingNetwork, in_use: PortsInUse, seed: int) -> PairPorts:
    search = PortSearch(in_use.task, Random(seed))
    run(search, network)
    return search.ports[0]


@given(
    seeds=st.lists(st.integers(0, 3), min_size=2, max_size=5),
    widths=st.sampled_from([(4,), (2, 2)]),
    by_choice=st.booleans(),
    ports=st.integers(1, 3),
)
def test_just_the_ports_whose_paths_have_changed_are_replaced(
    seeds: list[int], widths: tuple[int, ...], by_choice: bool, ports: int
) -> None:
    network = HashingNetwork(widths, seeds[0], by_choice=by_choice and len(widths) > 1)
    in_use = PortsInUse(network.task({FIRST: dict.fromkeys(range(4), ports)}))
    before: dict[int, int] = {}
    for n, seed in enumerate(seeds):
        network.seed = seed
        changes = in_use.take([searched(network, in_use, n)])
        now = {**in_use.task.pairs[0].known}
        assert sorted(now.values()) == sorted([*range(4)] * ports)
        assert all(network.path(FIRST, port) == path for port, path in now.items())
        wrong = {port for port, path in before.items() if network.path(FIRST, port) != path}
        assert {change.before for change in changes} == wrong
        assert {change.after for change in changes} <= now.keys() - before.keys() | wrong
        assert all(before[change.before] == change.path for change in changes)
        assert before.items() - {(port, before[port]) for port in wrong} <= now.items()
        before = now


def test_a_port_without_an_answer_stays() -> None:
    network = HashingNetwork((4,), 1)
    in_use = PortsInUse(network.task({FIRST: dict.fromkeys(range(4), 1)}))
    in_use.take([searched(network, in_use, 0)])
    before = in_use.task.pairs[0].known
    network.silent = network.routers
    assert in_use.take([searched(network, in_use, 1)]) == []
    assert in_use.task.pairs[0].known == before


@given(seed=st.integers(0, 1 << 30))
def test_searches_one_after_the_other_stay_within_the_budgets(seed: int) -> None:
    budget = AnswerBudget(3, 5.0)
    network = HashingNetwork((4,), seed, limit=budget)
    task = network.task({FIRST: dict.fromkeys(range(4), 1)}, budget=budget)
    budgets, now = AnswerBudgets(budget), 0.0
    for n in range(4):
        search = PortSearch(task, Random(n), budgets)
        now = run(search, network, begin=now)
        search.close(now)
    assert not network.refused
