"""Hedera's loop without a network: which flows are large, what is placed, and what the simulator expects."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from controller.model.packets.port_numbers import ROCE_PORT
from controller.workload.expand import combine, expand
from controller.workload.job_file import parse_job
from emulation.experiments.hedera.flow_cache import parse_entries
from emulation.experiments.hedera.hedera_loop import LARGE, HederaLoop, LargeFlows, large_flows_job
from emulation.experiments.hedera.hedera_simulated import hedera_seconds
from emulation.experiments.learned.learned_truth import Edge
from emulation.experiments.learned.own_ports import own_ports
from emulation.experiments.request import Draw, EmulatedScenario
from emulation.experiments.scale import Scale
from emulation.experiments.workload import collectives
from tests.unit.emulation.experiments.made import ring, scenario_of

CLOS = "{spines: 2, leaves: 2, hosts_per_leaf: 2, host_gbps: 100, uplink_gbps: 100}"
SCALE = Scale(0.15, 0.005)
RATE = 1000.0
FLOWS = [("h1", "h3", 50001), ("h1", "h3", 50002), ("h2", "h4", 50001), ("h3", "h1", 50001)]

counters = st.lists(st.integers(0, 10**6), min_size=len(FLOWS), max_size=len(FLOWS))


def jobs(folder: Path, **options: Any) -> EmulatedScenario:
    rings = [ring("a", ["h1", "h3"]), ring("b", ["h2", "h4"])]
    return scenario_of(folder, CLOS, rings, policies=("ecmp", "hedera-first_fit"), **options)


# -- large flows -------------------------------------------------------------------------------------------------------


@given(first=counters, second=counters, seconds=st.floats(0.1, 10))
def test_a_flow_is_large_if_it_sends_a_tenth_of_its_hosts_rate(
    first: list[int], second: list[int], seconds: float
) -> None:
    large = LargeFlows(dict.fromkeys(("h1", "h2", "h3", "h4"), RATE))
    assert large.step(5.0, dict(zip(FLOWS, first, strict=True))) == ()
    found = large.step(5.0 + seconds, dict(zip(FLOWS, second, strict=True)))
    for flow, before, after in zip(FLOWS, first, second, strict=True):
        # A counter that fell was made anew.
        rate = (after - before if after >= before else after) / seconds
        if abs(rate - LARGE * RATE) > 1e-6 * RATE:
            assert (flow in found) == (rate > LARGE * RATE)
    assert list(found) == sorted(found)


def test_a_flow_that_was_not_there_before_counts_from_zero() -> None:
    large = LargeFlows({"h1": RATE})
    large.step(0.0, {})
    assert large.step(1.0, {("h1", "h3", 1): int(LARGE * RATE), ("h1", "h3", 2): 1}) == (("h1", "h3", 1),)


def test_entries_of_the_flow_cache_count_once_at_the_port_of_their_host() -> None:
    udp = "eth(src=a,dst=b),eth_type(0x0800),ipv4(src=10.0.1.1,dst=10.0.2.1,proto=17,tos=0/0x3,ttl=64,frag=no)"
    line = "recirc_id(0),in_port({}),packet_type(ns=0,id=0),{},udp(src=50000,dst={}), packets:9, bytes:{}, used:0.1s"
    text = "\n".join(
        [
            line.format(3, udp, ROCE_PORT, 100),
            line.format(3, udp, ROCE_PORT, 20),  # the same flow with other fields
            line.format(7, udp, ROCE_PORT, 120),  # from a spine
            line.format(4, udp, ROCE_PORT, 1),  # another host uses the address
            line.format(3, udp, 4790, 1),
            "recirc_id(0),in_port(3),eth_type(0x88cc), packets:1, bytes:1, used:never, actions:drop",
        ]
    )
    assert parse_entries(text, {"3": "10.0.1.1", "4": "10.0.1.2"}) == {("10.0.1.1", "10.0.2.1", 50000): 120}


def test_the_large_flows_are_a_job_with_their_own_ports(tmp_path: Path) -> None:
    fabric = jobs(tmp_path).fabric
    traffic = combine([expand(fabric, parse_job(large_flows_job(FLOWS)), [])])
    names = [host.name for host in fabric.hosts]
    rows = zip(traffic.src.tolist(), traffic.dst.tolist(), traffic.udp_src.tolist(), strict=True)
    assert sorted((names[src], names[dst], port) for src, dst, port in rows) == sorted(FLOWS)


# -- the loop ----------------------------------------------------------------------------------------------------------


class Recorded:
    """Readings, one after the other, and what is placed because of them."""

    def __init__(self, readings: Sequence[Mapping[Edge, int]]) -> None:
        self._readings = list(readings)
        self.placed: list[tuple[Edge, ...]] = []
        self.done = threading.Event()

    def read(self) -> Mapping[Edge, int]:
        if len(self._readings) == 1:
            self.done.set()
            return self._readings[0]
        return self._readings.pop(0)

    def place(self, flows: Sequence[Edge]) -> Mapping[str, Any]:
        self.placed.append(tuple(flows))
        return {}

    def check(self, flows: Sequence[Edge]) -> tuple[Mapping[Edge, tuple[str, ...]], tuple[str, ...]]:
        assert tuple(flows) == self.placed[-1]
        return {}, ()


def test_flows_are_placed_when_others_are_large_and_pauses_change_nothing() -> None:
    a, b = FLOWS[0], FLOWS[2]
    much = 10**9
    told = Recorded(
        [
            {},
            {a: much, b: much},
            {a: 2 * much, b: 2 * much},
            {a: 2 * much, b: 2 * much},
            {a: 3 * much, b: 2 * much},
            {a: 3 * much, b: 2 * much},
        ]
    )
    with HederaLoop(told.read, LargeFlows({"h1": RATE, "h2": RATE}), told, 0.01) as loop:
        assert told.done.wait(60)
    assert told.placed == [(a, b), (a,)]
    assert [one.flows for one in loop.placements] == told.placed
    assert loop.looks >= 6
    assert all(0 <= one.took <= one.seconds for one in loop.placements)


def test_an_error_of_the_loop_is_one_of_the_experiment() -> None:
    def broken() -> dict[Edge, int]:
        raise OSError("no counters")

    with pytest.raises(OSError, match="no counters"), HederaLoop(broken, LargeFlows({}), Recorded([{}]), 0.01):
        pass


# -- the simulated value -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("placement", ["first_fit", "annealing"])
def test_the_simulator_begins_with_the_given_uplinks_and_places_after_half_a_period_on_average(
    tmp_path: Path, placement: str
) -> None:
    scenario = jobs(tmp_path)
    draw = Draw(f"hedera-{placement}", 1)
    specs = collectives(scenario, 1.0)
    keys = list(own_ports(scenario.fabric, specs))
    leaf = {host.name: host.leaf for host in scenario.fabric.hosts}
    spread = {key: (f"{leaf[key[2]]}->spine{1 + (key[0] == 'b')}",) for key in keys}
    together = {key: (f"{leaf[key[2]]}->spine1",) for key in keys}
    # Each rank sends the buffer once: 8 Gbit at 100 Gbit/s.
    alone = 0.08 * SCALE.time
    best = hedera_seconds(scenario, SCALE, draw, spread)
    assert best == {"a": pytest.approx(alone), "b": pytest.approx(alone)}
    period = scenario.request.loop_period
    # Until they are placed, the flows have half of the rate: so they need half of that time in addition.
    shared = min(period / 2, alone)
    worst = hedera_seconds(scenario, SCALE, draw, together)
    assert worst == {name: pytest.approx(alone + shared / 2, rel=0.02) for name in ("a", "b")}


# -- requests ----------------------------------------------------------------------------------------------------------


def test_every_seed_is_a_draw_and_the_controller_estimates_demands(tmp_path: Path) -> None:
    scenario = jobs(tmp_path, seeds=(4, 5))
    loops = [draw for draw in scenario.draws if draw.loop]
    assert [(draw.policy, draw.routing, draw.seed) for draw in loops] == [
        ("hedera-first_fit", "first_fit", 4),
        ("hedera-first_fit", "first_fit", 5),
    ]
    assert {draw.options for draw in loops} == {("estimate_demand=true",)}
    assert not any(draw.loop for draw in scenario.draws if draw.policy == "ecmp")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"policies": ("ecmp", "hedera-fair")}, "hedera-fair"),
        ({"policies": ("ecmp", "hedera-first_fit"), "enforcement": "source_port"}, "--enforcement"),
        ({"policies": ("ecmp", "hedera-first_fit"), "learn": "host"}, "--policies"),
        ({"period": 0.0}, "--period"),
        ({"period": float("nan")}, "--period"),
    ],
)
def test_what_the_loop_cannot_do_is_refused(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        scenario_of(tmp_path, CLOS, [ring("a", ["h1", "h3"])], **options)


def test_a_burst_contains_several_periods_and_a_request_survives_json(tmp_path: Path) -> None:
    request = jobs(tmp_path, seconds=5.0).request
    assert request.loop_period == 1.0
    assert type(request).from_json(request.to_json()) == request
    assert jobs(tmp_path, seconds=0.5).request.loop_period == 0.5
    assert jobs(tmp_path, period=0.7).request.loop_period == 0.7


@given(seed=st.integers(1, 1000), count=st.integers(1, 16))
def test_hosts_choose_other_ports_with_another_seed_and_different_ones_for_each_qp(
    tmp_path_factory: pytest.TempPathFactory, seed: int, count: int
) -> None:
    scenario = jobs(tmp_path_factory.mktemp("ports"))
    specs = collectives(scenario, 1.0)
    made = own_ports(scenario.fabric, specs, seed=seed, qps=lambda spec: count)
    for pieces in made.values():
        assert len({piece.udp_src for piece in pieces}) == len(pieces) == count
        assert sum(piece.share for piece in pieces) == pytest.approx(1)
    assert made != own_ports(scenario.fabric, specs, seed=seed + 1, qps=lambda spec: count)
