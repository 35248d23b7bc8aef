"""Laws of what sampled packets say of ports, on drawn fabrics and on simulated routers that hash."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
from ipaddress import IPv4Address
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.plans.flow_keys import Address
from agent.ports.port_search import PairPorts
from agent.ports.probe_task import ProbeTask, read_task
from agent.ports.sampled_paths import TOGETHER_SECONDS, SampledPaths, SeenPacket
from agent.ports.sampled_search import UNSEEN, SampledSearch
from controller.model.fabric import Fabric
from controller.southbound.probed_ports.probe_routes import passed_switches
from controller.southbound.probed_ports.probe_tasks import ProbeBudget, every_path, probe_document
from tests.rig.routers.hashing_routers import FIRST_PORT, HashingNetwork
from tests.rig.routers.probed_fabrics import with_addresses
from tests.unit.strategies import fabrics, pod_fabrics, with_routers

DST = IPv4Address("10.1.0.1")
PORT = 50000
A_SECOND = 1000.0

probed = (
    st.one_of(fabrics(max_parallel=1, min_leaves=2), pod_fabrics(max_parallel=1)).map(with_routers).map(with_addresses)
)


@given(fabric=probed, some=st.randoms(use_true_random=False))
def test_the_routers_at_which_a_port_is_seen_leave_its_path_and_all_of_them_that_path_alone(
    fabric: Fabric, some: Random
) -> None:
    host = some.randrange(fabric.n_hosts)
    wanted = every_path(fabric, host)
    if not wanted:
        return
    task = read_task(probe_document(fabric, host, wanted, ProbeBudget(1, 1.0)))
    pair = some.choice(task.pairs)
    dst = next(n for n, each in enumerate(fabric.hosts) if each.ip == str(pair.dst))
    leaves = int(fabric.host_leaf[host]), int(fabric.host_leaf[dst])
    path = some.choice(sorted(pair.routes.numbers))
    passed = [each.name for each in passed_switches(fabric, *leaves, path)]
    # The leaves sample the packets of all paths.
    names = [fabric.leaves[leaves[0]].name, *passed, fabric.leaves[leaves[1]].name]
    seen = SampledPaths(pair.routes)
    for n, router in enumerate(some.sample(names, some.randint(1, len(names)))):
        seen.take(SeenPacket(pair.dst, PORT, router, float(n)))
        shown = seen.shown(PORT)
        assert path in shown.paths
        assert not shown.both
    for n, router in enumerate(some.sample(names, len(names))):
        seen.take(SeenPacket(pair.dst, PORT, router, float(len(names) + n)))
    shown = seen.shown(PORT)
    assert shown.paths == {path}
    assert shown.at >= len(names)
    assert seen.shown(PORT + 1).paths == pair.routes.numbers

    # A port that has moved is over its new path, once it is seen there.
    other = some.choice(sorted(pair.routes.numbers))
    later = len(names) + TOGETHER_SECONDS + len(names)
    for n, each in enumerate(passed_switches(fabric, *leaves, other), start=1):
        seen.take(SeenPacket(pair.dst, PORT, each.name, later + n))
    assert seen.shown(PORT).paths == {other}


@given(some=st.randoms(use_true_random=False))
def test_a_port_that_is_seen_at_two_routers_of_one_layer_in_turn_fits_no_path(some: Random) -> None:
    network = HashingNetwork((4,), 1)
    (pair,) = network.task({DST: {0: 1}}).pairs
    seen = SampledPaths(pair.routes)
    one, other = some.sample(network.routers, 2)
    for n, router in enumerate((one, other, one)):
        seen.take(SeenPacket(DST, PORT, router, float(n)))
        assert seen.shown(PORT).both == (n == 2)


class Sampling:
    """Simulated routers that hash, and sample one packet in so many; samples come late."""

    def __init__(self, network: HashingNetwork, one_in: int, random: Random, *, late: float = 1.5) -> None:
        self.network, self.one_in, self._random, self._late = network, one_in, random, late

    def run(self, task: ProbeTask, seed: int, *, most: float = 1e5) -> SampledSearch:
        paths = {pair.dst: SampledPaths(pair.routes) for pair in task.pairs}
        search = SampledSearch(task, Random(seed), A_SECOND, paths, 0.0, 0.0)
        now, order = 0.0, itertools.count()
        coming: list[tuple[float, int, SeenPacket]] = []
        while not search.is_done and now < most:
            told = []
            while coming and coming[0][0] <= now:
                told.append(heapq.heappop(coming)[2])
                paths[told[-1].dst].take(told[-1])
            search.look([(each.dst, each.port) for each in told], self.one_in)
            while (probe := search.next(now)) is not None:
                taken = self.network.choices(probe.dst, probe.port)
                assert probe.hop == len(taken) + 2
                for tier in range(1, len(taken) + 1):
                    router = self.network.router(taken[:tier])
                    if router in self.network.silent or self._random.randrange(self.one_in):
                        continue
                    at = now + self._random.uniform(0.1, self._late)
                    heapq.heappush(coming, (at, next(order), SeenPacket(probe.dst, probe.port, router, at)))
            search.settle(now)
            now += search.wait(now)
        return search


@st.composite
def networks(draw: st.DrawFn) -> HashingNetwork:
    widths = draw(st.sampled_from([(1,), (2,), (4,), (2, 2), (3, 2)]))
    by_choice = len(widths) > 1 and draw(st.booleans())
    return HashingNetwork(widths, draw(st.integers(0, 1 << 30)), polarised=draw(st.booleans()), by_choice=by_choice)


def _right(network: HashingNetwork, pair: PairPorts) -> bool:
    return all(network.path(pair.dst, port) == path for port, path in pair.path_of.items())


@given(network=networks(), seed=st.integers(0, 1 << 30), one_in=st.integers(1, 50), ports=st.integers(1, 2))
def test_a_port_leads_over_its_path_and_just_the_paths_without_a_port_are_unreachable(
    network: HashingNetwork, seed: int, one_in: int, ports: int
) -> None:
    wanted = dict.fromkeys(range(network.n_paths), ports)
    search = Sampling(network, one_in, Random(seed)).run(network.task({DST: wanted, DST + 1: wanted}), seed)
    assert search.is_done
    for pair in search.ports:
        assert pair.evidence == "samples"
        assert pair.state in ("complete", "unreachable")
        assert _right(network, pair)
        assert pair.unreachable == set(wanted) - network.reachable(pair.dst)
        assert all(list(pair.path_of.values()).count(path) >= ports for path in set(wanted) - pair.unreachable)


@given(network=networks(), seed=st.integers(0, 1 << 30))
def test_ports_in_use_are_checked_and_those_that_lead_elsewhere_are_replaced(
    network: HashingNetwork, seed: int
) -> None:
    wanted = {network.path(DST, FIRST_PORT): 1}
    task = network.task({DST: wanted})
    lies = dict.fromkeys(wanted, 1)
    wrong = next((port for port in range(FIRST_PORT, FIRST_PORT + 500) if network.path(DST, port) not in lies), None)
    known = {FIRST_PORT: next(iter(wanted))} if wrong is None else {wrong: next(iter(wanted))}
    (pair,) = task.pairs
    task = dataclasses.replace(task, pairs=(dataclasses.replace(pair, known=known),))
    (found,) = Sampling(network, 10, Random(seed)).run(task, seed).ports
    assert found.state == "complete"
    assert _right(network, found)
    if wrong is None:
        assert set(known) <= found.path_of.keys()
    else:
        # As a router on the way to another path has shown.
        assert wrong in found.astray or wrong in found.path_of


@pytest.mark.parametrize("one_in", [10, 200])
def test_nothing_is_claimed_where_nothing_is_sampled_and_that_takes_no_more_packets_than_enough(one_in: int) -> None:
    network = HashingNetwork((4,), 3, silent=[f"up{n}" for n in range(4)])
    sampling = Sampling(network, one_in, Random(1))
    search = sampling.run(network.task({DST: {1: 1}}), 1)
    (pair,) = search.ports
    assert (pair.state, pair.path_of, pair.at) == ("silent", {}, {})
    assert UNSEEN * one_in <= pair.sent <= UNSEEN * one_in + 1


class LossyNetwork(HashingNetwork):
    """Routers at which the packets of one port do not arrive."""

    def choices(self, dst: Address, port: int) -> tuple[int, ...]:
        return (len(self.widths) + 99,) if port == FIRST_PORT else super().choices(dst, port)


def test_a_port_whose_packets_do_not_pass_where_others_do_is_replaced() -> None:
    network = LossyNetwork((4,), 3)
    (pair,) = network.task({DST: {0: 1, 1: 1}}).pairs
    task = dataclasses.replace(network.task({}), pairs=(dataclasses.replace(pair, known={FIRST_PORT: 0}),))
    (found,) = Sampling(network, 10, Random(2)).run(task, 1).ports
    assert (found.state, found.astray) == ("complete", {FIRST_PORT})
    assert set(found.path_of.values()) >= {0, 1}
    assert _right(network, found)


def test_a_path_takes_as_many_packets_as_routers_sample_one_of_times_the_number_of_paths() -> None:
    network, one_in, drawn = HashingNetwork((8,), 5), 20, Random(7)
    sent = []
    for n in range(200):
        (pair,) = Sampling(network, one_in, drawn, late=0.1).run(network.task({DST: {n % 8: 1}}), n).ports
        sent.append(pair.sent)
    # Half of the last burst, and of what was sent until the sample had come, is not needed.
    late = A_SECOND * 0.1 + 50
    assert 0.8 * 8 * one_in < sum(sent) / len(sent) < 1.2 * 8 * one_in + late
