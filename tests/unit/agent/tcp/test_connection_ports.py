"""Laws of the choice of a connection's port, on simulated routers that hash in both directions."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.ports.answer_budgets import AnswerBudgets
from agent.ports.port_plan import PlannedConnections, PortPlan
from agent.ports.port_search import SILENT, HopProbe
from agent.ports.probe_task import ProbedPair, ProbeTask
from agent.tcp.connection_ports import ConnectionPorts, NoPortError
from agent.tcp.path_prober import PathProber
from agent.tcp.path_search import AT_ONCE, PathSearch
from agent.tcp.tcp_probes import PortPair
from tests.rig.routers.hashing_routers import FIRST_PORT, LAST_PORT, SOURCE, UNLIMITED, HashingNetwork

PEER = IPv4Address("10.1.0.1")
LISTENING = 29500


def searched(network: HashingNetwork, path: int, candidates: Iterator[int], enough: int = 1) -> PathSearch:
    """Carry out a search in which each probe is answered, or lost, before the next one goes out."""
    task = network.task({PEER: {}})
    pairs = (PortPair(port, LISTENING) for port in candidates)
    routes, names = task.pairs[0].routes, dict(task.routers)
    search = PathSearch(PEER, routes, path, pairs, names, AnswerBudgets(UNLIMITED), enough=enough)
    now = 0.0
    while not search.is_done:
        sent = []
        while (probe := search.next(now)) is not None:
            sent.append(probe)
        assert len(sent) <= AT_ONCE
        for each in sent:
            answer = network.answer(HopProbe(PEER, each.ports.src_port, each.hop), now)
            if answer is not None:
                search.answered(each, answer[0], now, unreachable=answer[1])
        now += search.wait(now) + 1e-6
        search.expire(now)
    return search


@st.composite
def networks(draw: st.DrawFn, /, **fields: object) -> HashingNetwork:
    widths = draw(st.sampled_from([(1,), (4,), (5,), (2, 3)]))
    by_choice = len(widths) > 1 and draw(st.booleans())
    return HashingNetwork(widths, draw(st.integers(0, 1 << 30)), by_choice=by_choice, **fields)  # type: ignore[arg-type]


@given(network=networks(), data=st.data())
def test_ports_found_lead_over_the_path_and_no_more_are_probed_than_needed(
    network: HashingNetwork, data: st.DataObject
) -> None:
    path, enough = data.draw(st.integers(0, network.n_paths - 1)), data.draw(st.integers(1, 3))
    search = searched(network, path, iter(range(FIRST_PORT, LAST_PORT)), enough)
    found = [each.src_port for each in search.right]
    right = [port for port in range(FIRST_PORT, LAST_PORT) if network.path(PEER, port) == path]
    assert found[:enough] == right[:enough]
    # Of each candidate one probe for each hop limit at most, and one candidate beyond the last that was needed.
    candidates = right[enough - 1] - FIRST_PORT + 1
    assert search.sent <= (candidates + AT_ONCE - 1) * len(network.task({PEER: {}}).pairs[0].routes.hops)


@given(network=networks(silent=[f"up{n}" for n in range(9)] + [f"up{a}.{b}" for a in range(2) for b in range(3)]))
def test_routers_that_do_not_answer_end_the_search(network: HashingNetwork) -> None:
    if network.by_choice:
        network.silent = network.routers
    search = searched(network, 0, iter(range(FIRST_PORT, LAST_PORT)))
    assert search.is_silent
    assert (search.right, search.sent) == ([], SILENT + SILENT % AT_ONCE)


def test_a_path_that_no_candidate_leads_over_has_none() -> None:
    network = HashingNetwork((4,), 7)
    wrong = [port for port in range(FIRST_PORT, LAST_PORT) if network.path(PEER, port) != 2][:50]
    search = searched(network, 2, iter(wrong))
    assert (search.right, search.is_silent, search.sent) == ([], False, 50)


class KnowingProber(PathProber):
    """Knows paths without probes: those of a network, by the port of the end that chooses."""

    def __init__(self, network: HashingNetwork, chosen: str) -> None:
        super().__init__(None)
        self._network, self._chosen = network, chosen

    def right(
        self,
        task: ProbeTask,
        pair: ProbedPair,
        path: int,
        candidates: Iterator[PortPair],
        *,
        enough: int = 1,
        until: float,
    ) -> list[PortPair]:
        del task
        leads = (each for each in candidates if self._network.path(pair.dst, getattr(each, self._chosen)) == path)
        return list(itertools.islice(leads, enough)) if time.monotonic() < until else []


def plan_of(network: HashingNetwork, peer: Address, planned: PlannedConnections) -> PortPlan:
    task = network.task({peer: {}})
    return PortPlan(1, "0" * 16, task, (), {peer: planned}, 10.0, 1.0)


@given(
    forward=st.none() | st.integers(0, 3),
    back=st.none() | st.integers(0, 3),
    seed=st.integers(0, 1 << 30),
    connections=st.integers(1, 4),
)
def test_a_port_leads_over_both_paths_and_none_is_given_twice(
    forward: int | None, back: int | None, seed: int, connections: int
) -> None:
    there, reverse = HashingNetwork((4,), seed), HashingNetwork((4,), seed + 1)
    asked: list[int] = []
    other = ConnectionPorts(KnowingProber(reverse, "dst_port"), no_peer, Random(seed))
    if forward is not None or back is not None:
        other.follow(plan_of(reverse, SOURCE, PlannedConnections(back, forward is not None)))

    def ask(peer: Address, listening: int, ports: list[int], until: float) -> int | None:
        assert (peer, listening) == (PEER, LISTENING)
        asked.extend(ports)
        return other.for_peer(SOURCE, listening, ports, until)

    own = ConnectionPorts(KnowingProber(there, "src_port"), ask, Random(seed))
    assert own.port(SOURCE, PEER, LISTENING) is None
    own.follow(plan_of(there, PEER, PlannedConnections(forward, back is not None)))
    given_ports = [own.port(IPv4Address(0), PEER, LISTENING) for _ in range(connections)]
    assert len(set(given_ports)) == connections
    for port in given_ports:
        assert port is not None
        assert forward is None or there.path(PEER, port) == forward
        assert back is None or reverse.path(SOURCE, port) == back
    assert bool(asked) == (back is not None)
    # Other addresses are not this plan's.
    assert own.port(IPv4Address("10.9.9.9"), PEER, LISTENING) is None
    assert own.port(SOURCE, IPv4Address("10.9.9.9"), LISTENING) is None


def no_peer(peer: Address, listening: int, ports: list[int], until: float) -> int | None:
    raise AssertionError((peer, listening, ports, until))


def test_where_no_port_is_right_that_is_said() -> None:
    network = HashingNetwork((2,), 3)
    own = ConnectionPorts(KnowingProber(network, "src_port"), lambda *_: None, Random(1))
    own.follow(plan_of(network, PEER, PlannedConnections(9, comes_back=False)))
    with pytest.raises(NoPortError, match=r"no port was found to 10\.1\.0\.1:29500 that leads over the planned path"):
        own.port(SOURCE, PEER, LISTENING)
    with pytest.raises(NoPortError, match=r"no path to 10\.9\.9\.9 is planned here"):
        own.for_peer(IPv4Address("10.9.9.9"), LISTENING, [50000], 0.0)
