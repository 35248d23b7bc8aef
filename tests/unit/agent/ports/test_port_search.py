"""Laws of the search for source ports, on simulated routers that hash."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.ports.answer_times import AnswerTimes
from agent.ports.port_search import GIVE_UP, MOST_LATE, PATIENCE_SECONDS, SILENT, PairPorts, PortSearch
from agent.ports.probe_task import AnswerBudget, ProbeTask
from tests.rig.routers.hashing_routers import HashingNetwork, run

FIRST = IPv4Address("10.1.0.1")
LINUX = AnswerBudget(6, 1.0)


def destinations(many: int) -> list[Address]:
    return [FIRST + n for n in range(many)]


def searched(network: HashingNetwork, task: ProbeTask, seed: int = 0) -> list[PairPorts]:
    search = PortSearch(task, Random(seed))
    run(search, network)
    assert search.is_done
    return search.ports


@st.composite
def networks(draw: st.DrawFn) -> HashingNetwork:
    """Routers of two or three layers, some with one hash in all."""
    widths = draw(st.sampled_from([(1,), (2,), (4,), (5,), (2, 2), (2, 3), (3, 2)]))
    return HashingNetwork(
        widths,
        draw(st.integers(0, 1 << 30)),
        polarised=draw(st.booleans()),
        by_choice=len(widths) > 1 and draw(st.booleans()),
        delay=draw(st.sampled_from([1e-5, 1e-3, 0.1])),
    )


@given(
    network=networks(), seed=st.integers(0, 1 << 30), ports=st.integers(1, 3), some=st.randoms(use_true_random=False)
)
def test_a_port_leads_over_its_path_and_just_the_paths_without_a_port_are_unreachable(
    network: HashingNetwork, seed: int, ports: int, some: Random
) -> None:
    wanted = {dst: {path: ports for path in range(network.n_paths) if some.random() < 0.7} for dst in destinations(3)}
    for known in searched(network, network.task(wanted), seed):
        assert all(network.path(known.dst, port) == path for port, path in known.path_of.items())
        reachable = network.reachable(known.dst)
        assert known.unreachable == wanted[known.dst].keys() - reachable
        assert known.state == ("unreachable" if known.unreachable else "complete")
        counts = [sum(path == each for each in known.path_of.values()) for path in wanted[known.dst].keys() & reachable]
        assert min(counts, default=ports) >= ports
        assert not known.strange
        assert not known.unanswered


@given(
    network=networks(),
    budget=st.builds(lambda *limits: AnswerBudget(*limits), st.integers(1, 8), st.sampled_from([1.0, 7.0, 100.0])),
    seed=st.integers(0, 1 << 30),
)
def test_no_router_gets_more_probes_than_its_budget_has(
    network: HashingNetwork, budget: AnswerBudget, seed: int
) -> None:
    network.limit = budget
    wanted = {dst: dict.fromkeys(range(network.n_paths), 1) for dst in destinations(4)}
    assert not any(known.unanswered for known in searched(network, network.task(wanted, budget=budget), seed))
    assert not network.refused
    for times in network.times.values():
        for first, begin in enumerate(times):
            for last in range(first, len(times)):
                assert last - first + 1 <= budget.burst + budget.a_second * (times[last] - begin) + 1e-3


@pytest.mark.parametrize("widths", [(4,), (8,), (4, 4), (32,)])
def test_all_paths_take_few_probes_more_than_a_draw_at_random_needs(widths: tuple[int, ...]) -> None:
    network = HashingNetwork(widths, 1)
    n_paths, many = network.n_paths, 200
    wanted = {dst: dict.fromkeys(range(n_paths), 1) for dst in destinations(many)}
    sent = sum(known.sent for known in searched(network, network.task(wanted)))
    assert sent / many <= 1.15 * n_paths * sum(1 / n for n in range(1, n_paths + 1))


@pytest.mark.parametrize("widths", [(4,), (8,), (4, 4), (32,)])
def test_one_path_takes_few_probes_more_than_there_are_paths(widths: tuple[int, ...]) -> None:
    network = HashingNetwork(widths, 2)
    many = 400
    wanted = {dst: {n % network.n_paths: 1} for n, dst in enumerate(destinations(many))}
    sent = sum(known.sent for known in searched(network, network.task(wanted)))
    assert sent / many <= 1.1 * network.n_paths


def test_the_ports_of_one_flow_are_there_in_seconds_at_the_limits_of_linux() -> None:
    network = HashingNetwork((4,), 3, limit=LINUX)
    search = PortSearch(network.task({FIRST: {2: 1}}, budget=LINUX), Random(0))
    assert run(search, network) < 1.0
    assert [known.state for known in search.ports] == ["complete"]
    assert not network.refused


@given(seed=st.integers(0, 1 << 30), ports=st.integers(1, 3), change=st.booleans())
def test_known_ports_take_one_probe_each_and_are_not_believed(seed: int, ports: int, change: bool) -> None:
    network = HashingNetwork((4,), seed)
    task = network.task({FIRST: dict.fromkeys(range(4), ports)})
    (known,) = searched(network, task, seed)
    network.seed += change
    pair = dataclasses.replace(task.pairs[0], known=known.path_of)
    (again,) = searched(network, dataclasses.replace(task, pairs=(pair,)), seed + 1)
    assert all(network.path(FIRST, port) == path for port, path in again.path_of.items())
    assert again.state == "complete"
    if not change:
        assert again.sent == 4 * ports
        assert again.path_of.items() <= known.path_of.items()


@given(seed=st.integers(0, 1 << 30), widths=st.sampled_from([(2,), (4,), (2, 2)]))
def test_routers_that_never_answer_are_silent_and_no_path_is_unreachable(seed: int, widths: tuple[int, ...]) -> None:
    network = HashingNetwork(widths, seed)
    network.silent = network.routers
    (known,) = searched(network, network.task({FIRST: {0: 1}}))
    assert (known.state, known.sent, known.path_of, known.unreachable) == ("silent", SILENT, {}, frozenset())


@given(seed=st.integers(0, 1 << 30))
def test_one_silent_router_keeps_no_other_path_from_its_port(seed: int) -> None:
    network = HashingNetwork((4,), seed, silent=["up1"], limit=LINUX)
    (known,) = searched(network, network.task({FIRST: {0: 1, 2: 1, 3: 1}}, budget=LINUX))
    assert known.state in ("complete", "silent")
    assert 1 not in known.path_of.values()
    assert not known.unreachable


@given(seed=st.integers(0, 1 << 30), width=st.sampled_from([2, 4, 8]), path=st.integers(1, 7))
def test_a_few_lost_probes_do_not_hold_up_a_search_and_many_do(seed: int, width: int, path: int) -> None:
    network = HashingNetwork((width,), seed)
    task, times = network.task({FIRST: {path % width or 1: 1}}), AnswerTimes()
    run(PortSearch(task, Random(seed), times=times), network)
    network.silent = ["up0"]
    search = PortSearch(task, Random(seed + 1), times=times)
    end = run(search, network)
    (known,) = search.ports
    wanted = [known.at[port] for port, led in known.path_of.items() if led == (path % width or 1)]
    seconds, lost = min(wanted, default=end), known.sent - known.answered
    assert known.state == ("complete" if wanted else "silent")
    assert (seconds < PATIENCE_SECONDS) == (lost <= MOST_LATE)
    # What the routers never answer is asked no faster than this.
    assert lost <= (MOST_LATE + 1) * (1 + seconds / PATIENCE_SECONDS)


@given(seed=st.integers(0, 1 << 30))
def test_a_router_that_the_file_lacks_is_named_by_its_address(seed: int) -> None:
    network = HashingNetwork((4,), seed, unnamed=["up3"])
    (known,) = searched(network, network.task({FIRST: dict.fromkeys(range(3), 4)}))
    assert known.state == "complete"
    lacking = {answers for _, answers, _ in known.strange}
    assert lacking <= {(str(network.address("up3")),)}
    assert bool(lacking) == (known.answered > len(known.path_of))


@given(seed=st.integers(0, 1 << 30))
def test_a_path_whose_router_cannot_forward_has_no_port(seed: int) -> None:
    network = HashingNetwork((2, 2), seed, broken=["up1"])
    (known,) = searched(network, network.task({FIRST: dict.fromkeys(range(4), 1)}))
    assert known.unreachable == {2, 3}
    assert {(answers, unreachable) for _, answers, unreachable in known.strange} == {(("up1",), True)}
    assert known.answered >= GIVE_UP * 4


@given(seed=st.integers(0, 1 << 30), few=st.integers(1, 6))
def test_a_search_without_more_candidates_ends(seed: int, few: int) -> None:
    network = HashingNetwork((4,), seed)
    task = network.task({FIRST: dict.fromkeys(range(4), 2)}, last_port=49151 + few)
    (known,) = searched(network, task)
    assert known.state == "exhausted"
    assert known.path_of == {port: network.path(FIRST, port) for port in range(49152, 49152 + few)}


@given(seed=st.integers(0, 1 << 30))
def test_what_is_not_awaited_changes_nothing(seed: int) -> None:
    network = HashingNetwork((4,), seed)
    search = PortSearch(network.task({FIRST: {0: 1}}), Random(seed))
    probe = search.next(0.0)
    assert probe is not None
    before = search.ports[0].answered, dict(search.ports[0].path_of)
    search.answered(probe._replace(port=probe.port ^ 1), network.address("up0"), 0.0)
    search.answered(probe._replace(dst=FIRST + 1), network.address("up0"), 0.0)
    assert (search.ports[0].answered, search.ports[0].path_of) == before
    search.answered(probe, network.address("up1"), 0.0)
    search.answered(probe, network.address("up0"), 0.0)
    assert search.ports[0].path_of == {probe.port: 1}
