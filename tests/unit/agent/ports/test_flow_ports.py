"""Laws of the ports of flows: each leads over its flow's path, stays while it does, and nothing else is claimed."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv4Address
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.ports.flow_ports import OLD_CHECKS, OLD_SECONDS, SourcePorts
from agent.ports.port_memory import PortMemory
from agent.ports.port_plan import NumberedFlow, PortPlan
from agent.ports.port_search import PortSearch
from agent.ports.ports_in_use import PortsInUse
from controller.model.errors import InputError
from tests.rig.routers.hashing_routers import FIRST_PORT, LAST_PORT, HashingNetwork, run

DST = IPv4Address("10.1.0.1")
CHECK_SECONDS = 10.0


class Host:
    """A host that finds ports and checks them, as the agent's loop does."""

    def __init__(self, network: HashingNetwork) -> None:
        self.network, self.now, self.epoch = network, 0.0, 0
        self.memory, self.flows = PortMemory(), SourcePorts()
        self.in_use: PortsInUse | None = None

    def follow(self, paths: dict[int, int], *, last_port: int = LAST_PORT) -> None:
        """Take a plan: the paths of flows by number."""
        wanted: dict[int, int] = {}
        for path in paths.values():
            wanted[path] = wanted.get(path, 0) + 1
        task = self.network.task({DST: wanted}, last_port=last_port)
        self.epoch += 1
        flows = tuple(NumberedFlow(DST, number, path) for number, path in paths.items())
        self.plan = PortPlan(self.epoch, "0" * 16, task, flows, {}, CHECK_SECONDS, 0.0)
        self.flows.follow(self.plan)
        self.in_use = None

    def check(self, seed: int) -> None:
        """Search what is missing, and check the rest."""
        if self.in_use is None:
            self.in_use = PortsInUse(self.memory.asked(self.plan.task, self.flows.in_use))
        search = PortSearch(self.in_use.task, Random(seed))
        self.now = run(search, self.network, begin=self.now)
        search.close(self.now)
        self.in_use.take(search.ports)
        self.memory.take(search.ports)
        self.flows.count(search.ports)
        self.flows.learn(search.ports, self.in_use.by_dst)
        if self.state == "unreachable":
            self.in_use = None

    @property
    def state(self) -> str:
        return self.flows.state(self.memory, self.now)

    @property
    def report(self) -> dict[str, Any]:
        return self.flows.report(self.memory, self.now)

    def ports(self) -> dict[int, int]:
        """The port of each flow, as reported."""
        return {row["number"]: row["port"] for row in self.report["ports"]["flows"]}


plans = st.dictionaries(st.integers(1, 6), st.integers(0, 3), max_size=6)


@given(steps=st.lists(st.tuples(plans, st.integers(0, 3)), min_size=1, max_size=6), draw=st.integers())
def test_ports_are_right_and_unlike_and_stay_where_neither_plan_nor_hash_changes(
    steps: list[tuple[dict[int, int], int]], draw: int
) -> None:
    host = Host(HashingNetwork((4,), 0))
    before: dict[int, int] = {}
    for paths, seed in steps:
        same, host.network.seed = seed == host.network.seed, seed
        old, moved = host.flows.in_use.get(DST, {}), host.flows.moved
        host.follow(paths)
        host.check(draw)
        ports = host.ports()
        assert host.state == "active"
        assert host.report["epoch"] == host.epoch
        assert {number: host.network.path(DST, port) for number, port in ports.items()} == paths
        assert len(set(ports.values())) == len(ports)
        kept = {number: port for number, port in before.items() if same and old[port] == paths.get(number)}
        assert kept.items() <= ports.items()
        assert host.flows.moved == moved or not same
        before = ports


@given(seeds=st.lists(st.integers(0, 3), min_size=2, max_size=5), paths=plans, draw=st.integers())
def test_while_a_plan_holds_just_the_ports_that_lead_elsewhere_are_replaced(
    seeds: list[int], paths: dict[int, int], draw: int
) -> None:
    host = Host(HashingNetwork((4,), seeds[0]))
    host.follow(paths)
    host.check(draw)
    for seed in seeds:
        before, host.network.seed = host.ports(), seed
        right = {number: port for number, port in before.items() if host.network.path(DST, port) == paths[number]}
        moved = host.flows.moved
        for _ in range(2):
            host.check(draw)
        ports = host.ports()
        assert host.state == "active"
        assert right.items() <= ports.items()
        assert {number: host.network.path(DST, port) for number, port in ports.items()} == paths
        assert host.flows.moved - moved == len(before) - len(right)


def test_only_those_are_active_whose_probes_were_answered_lately() -> None:
    host = Host(HashingNetwork((4,), 1))
    host.follow({1: 0, 2: 3})
    assert host.state == "searching"
    assert host.report["epoch"] is None
    host.check(0)
    assert host.state == "active"
    host.now += max(OLD_SECONDS, OLD_CHECKS * CHECK_SECONDS) + 1
    assert host.state == "unknown"
    assert host.report["digest"] is None
    assert [row["seconds"] > CHECK_SECONDS for row in host.report["ports"]["flows"]] == [True, True]
    host.check(0)
    assert host.state == "active"


def test_silent_routers_make_nothing_known() -> None:
    host = Host(HashingNetwork((4,), 1))
    host.network.silent = host.network.routers
    host.follow({1: 0})
    host.check(0)
    assert host.state == "unknown"
    assert host.report["ports"]["silent"] == [str(DST)]
    assert host.ports() == {1: None}


def test_a_port_that_leads_elsewhere_without_another_one_is_drift() -> None:
    host = Host(HashingNetwork((2,), 1))
    reached = host.network.path(DST, FIRST_PORT)
    host.follow({1: reached}, last_port=FIRST_PORT)
    host.check(0)
    assert host.ports() == {1: FIRST_PORT}
    while host.network.path(DST, FIRST_PORT) == reached:
        host.network.seed += 1
    host.check(0)
    assert host.state == "drifted"
    assert (host.ports(), host.report["epoch"], host.report["ports"]["moved"]) == ({1: None}, None, 1)


@given(st.integers(0, 20))
def test_paths_without_a_port_are_reported_and_not_searched_again_until_the_hash_changes(seed: int) -> None:
    host = Host(HashingNetwork((2, 2), seed, polarised=True))
    reached = host.network.reachable(DST)
    portless = sorted({0, 1, 2, 3} - reached)
    host.follow({path + 1: path for path in range(4)})
    host.check(0)
    report = host.report["ports"]
    assert report["state"] == "unreachable"
    assert [each["paths"] for each in report["unreachable"]] == [portless]
    assert {number for number, port in host.ports().items() if port is not None} == {path + 1 for path in reached}
    sent = report["probes"]
    host.check(1)
    assert host.report["ports"]["probes"] - sent == len(reached)
    # A plan around them is active, and they are still reported.
    host.follow({path + 1: path for path in reached})
    host.check(2)
    assert host.state == "active"
    assert host.report["ports"]["unreachable"] == report["unreachable"]
    # Routers hash otherwise: known ports lead elsewhere, so nothing is known of other paths, either.
    host.network.polarised = False
    while all(host.network.path(DST, port) == path for port, path in host.flows.in_use[DST].items()):
        host.network.seed += 1
    host.check(3)
    assert host.report["ports"]["unreachable"] == []


@given(st.integers(0, 50), st.integers())
def test_an_agent_that_starts_again_checks_the_ports_that_it_has_had(seed: int, draw: int) -> None:
    one = Host(HashingNetwork((4,), seed))
    one.follow({1: 0, 2: 1, 3: 1})
    one.check(draw)
    other = Host(one.network)
    other.memory = PortMemory.read(one.memory.document())
    other.flows.restore(one.flows.saved())
    other.follow({1: 0, 2: 1, 3: 1})
    assert other.state == "searching"
    other.check(draw + 1)
    assert other.ports() == one.ports()
    assert other.report["ports"]["probes"] == 3


def test_what_other_states_of_the_cables_have_shown_counts_again_when_they_come_back() -> None:
    memory = PortMemory()
    for name, port in (("a", 50000), ("b", 50001), ("a", 50002)):
        host = Host(HashingNetwork((4,), 1))
        search = PortSearch(host.network.task({DST: {}}), Random(0))
        (pair,) = search.ports
        pair.map, pair.path_of = name, {port: 1}
        memory.take([pair])
    rows = {row["map"]: row["ports"] for row in memory.document()["pairs"]}
    assert rows == {"a": [[50000, 1], [50002, 1]], "b": [[50001, 1]]}


@pytest.mark.parametrize("document", [None, {}, {"pairs": [{"dst": "x", "map": "", "ports": [], "portless": []}]}])
def test_a_damaged_memory_is_refused(document: Any) -> None:
    with pytest.raises(InputError):
        PortMemory.read(document)
    with pytest.raises(InputError):
        SourcePorts().restore([["10.0.0.1", 1]])


@given(seed=st.integers(0, 1 << 30), wrong=st.sets(st.integers(0, 5)), silent=st.booleans())
def test_given_ports_are_compared_with_their_paths_and_never_replaced(seed: int, wrong: set[int], silent: bool) -> None:
    network = HashingNetwork((4,), seed)
    ports = Random(seed).sample(range(FIRST_PORT, LAST_PORT + 1), 6)
    paths = {port: network.path(DST, port) for port in ports}
    planned = {port: (path + 1) % 4 if n in wrong else path for n, (port, path) in enumerate(paths.items())}
    (pair,) = network.task({DST: dict.fromkeys(planned.values(), 6)}).pairs
    pair = dataclasses.replace(pair, known=planned)
    task = dataclasses.replace(network.task({}), pairs=(pair,), given=True)
    plan = PortPlan(
        1, "0" * 16, task, tuple(NumberedFlow(DST, port, path) for port, path in planned.items()), {}, 10.0, 0.0
    )
    if silent:
        network.silent = network.routers
    flows, memory = SourcePorts(), PortMemory()
    flows.follow(plan)
    search = PortSearch(task, Random(seed))
    now = run(search, network)
    flows.learn(search.ports, {})
    rows = {row["port"]: row for row in flows.report(memory, now)["ports"]["flows"]}
    assert rows.keys() == set(ports)
    assert flows.by_flow == {(DST, port): port for port in ports}
    if silent:
        assert flows.state(memory, now) == "unknown"
        assert not any(row["astray"] or row["path"] is not None for row in rows.values())
        return
    assert sum(network.answered.values()) == len(ports)
    assert {port for port, row in rows.items() if row["astray"]} == {ports[n] for n in wrong}
    assert all(row["path"] == paths[port] for port, row in rows.items())
    assert flows.state(memory, now) == ("drifted" if wrong else "active")
    assert (flows.report(memory, now)["epoch"] is None) == bool(wrong)
