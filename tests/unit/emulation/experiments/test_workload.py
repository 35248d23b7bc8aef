"""Jobs as what the endpoints run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.files.clos import clos
from controller.model.timing import IterationGrid
from controller.workload.collectives import ALGORITHMS
from emulation.experiments.job_times import cycles
from emulation.experiments.networks.network import following
from emulation.experiments.request import Draw
from emulation.experiments.scale import EFFICIENCY
from emulation.experiments.workload import collectives, paced_flows, routes, ways_of_pieces
from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import PieceWay, agent_configs
from tests.unit.emulation.experiments.made import ring, scenario_of, told
from tests.unit.laws import examples

CLOS = "{spines: 2, leaves: 2, hosts_per_leaf: 3}"
RAILS = "{spines: 2, leaves: 2, hosts_per_leaf: 3, nics_per_server: 2, rail_optimized: true}"
HOSTS = [f"h{i}" for i in range(1, 7)]

CALLS = st.fixed_dictionaries(
    {
        "operation": st.sampled_from([(op, algorithm) for op, known in ALGORITHMS.items() for algorithm in known]),
        "ranks": st.permutations(range(6)).flatmap(lambda order: st.integers(2, 6).map(lambda n: list(order[:n]))),
        "bytes": st.integers(10**6, 10**9),
        "phase": st.integers(0, 2),
        "channels": st.none() | st.integers(1, 3),
    }
)


def job_of(name: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    rows = []
    for number, call in enumerate(calls):
        op, algorithm = call["operation"]
        row = {"name": f"c{number}", "op": op, "algorithm": algorithm, "bytes": call["bytes"], "phase": call["phase"]}
        row["ranks"] = call["ranks"][:2] if op == "send_recv" else call["ranks"]
        rows.append(row if call["channels"] is None else row | {"channels": call["channels"]})
    return {"name": name, "hosts": HOSTS, "collectives": rows}


@settings(max_examples=examples(15, 90), deadline=None)
@given(jobs=st.lists(st.lists(CALLS, min_size=1, max_size=3), min_size=1, max_size=2), unknown=st.booleans())
def test_what_is_sent_is_what_was_planned_scaled_and_every_flow_has_its_port(
    tmp_path_factory: pytest.TempPathFactory, jobs: list[list[dict[str, Any]]], unknown: bool
) -> None:
    documents = [job_of(f"j{i}", calls) for i, calls in enumerate(jobs)]
    if unknown:
        documents[0]["ports"] = "unknown"
    scenario = scenario_of(tmp_path_factory.mktemp("s"), CLOS, documents)
    scale = 0.01
    specs = collectives(scenario, scale)
    traffic, names = scenario.traffic, [host.name for host in scenario.fabric.hosts]
    planned: dict[tuple[str, str, str, str], int] = {}
    for flow in range(traffic.n_flows):
        row = traffic.collectives[traffic.collective[flow]]
        key = (row.job, row.name, names[traffic.src[flow]], names[traffic.dst[flow]])
        planned[key] = planned.get(key, 0) + int(traffic.bytes[flow])
    sent = {
        (spec.job, spec.name, spec.ranks[a], spec.ranks[b]): size
        for spec in specs
        for (a, b), size in spec.flows().items()
    }
    assert sent.keys() == planned.keys()
    for key, size in sent.items():
        # A chunk is rounded to whole elements for each rank, and there are fewer than twice as many as ranks.
        assert abs(size - planned[key] * scale) <= 4 * 12

    _, documents_told = told(scenario, Draw("greedy", 1))
    ports = routes(scenario.fabric, specs, documents_told)
    agent_configs({host.name: host.ip for host in scenario.fabric.hosts}, specs, ports)
    for document in documents_told.values():
        for flow in document["flows"]:
            job, collective, _ = flow["id"].split("/")
            for piece in flow["pieces"]:
                if piece["udp_src"] is not None:
                    sending = ports[job, collective, document["host"], flow["dst"]]
                    assert piece["udp_src"] in [one.udp_src for one in sending]


def test_phases_of_a_job_run_one_after_the_other_beside_those_of_other_jobs(tmp_path: Path) -> None:
    first, second = ring("a", ["h1", "h4"]), ring("b", ["h2", "h5"])
    call = first["collectives"][0]
    first["collectives"] = [{**call, "name": name, "phase": phase} for name, phase in (("x", 7), ("y", 2), ("z", 7))]
    scenario = scenario_of(tmp_path, CLOS, [first, second])
    specs = collectives(scenario, 0.01)
    assert {(spec.label, spec.phase) for spec in specs} == {("a/x", 7), ("a/y", 2), ("a/z", 7), ("b/dp0", 0)}
    assert [(cycle.job, cycle.phases) for cycle in cycles(scenario, None, 1.0)] == [("a", (2, 7)), ("b", (0,))]


def test_jobs_compute_and_begin_as_the_plan_says_at_the_scale_of_the_experiment(tmp_path: Path) -> None:
    first, second = ring("a", ["h1", "h4"]), ring("b", ["h2", "h5"])
    first["collectives"] += [{**first["collectives"][0], "name": "x", "phase": 3}]
    first["compute_seconds"], second["period_seconds"] = {"0": 0.2, "3": 0.05}, 0.5
    scenario = scenario_of(tmp_path, CLOS, [first, second, ring("c", ["h3", "h6"])], iterations=(4, 5, 6))
    row = {"job": "b", "period_seconds": 0.6, "shift_seconds": 0.1, "hold": True}
    a, b, c = cycles(scenario, {"jobs": [row]}, 10.0)
    assert (a.iterations, a.grid) == (4, None)
    assert a.compute == ((0, pytest.approx(2.0)), (3, pytest.approx(0.5)))
    # Each of the two hosts sends the whole buffer at 100 Gbit/s: the rest of the period is computing.
    assert (b.iterations, b.grid) == (5, IterationGrid(6.0, 1.0, True))
    assert b.compute == ((0, pytest.approx(10.0 * (0.5 - 0.08))),)
    assert (c.iterations, c.compute, c.grid) == (6, ((0, 0.0),), None)
    assert {spec.job: spec.iterations for spec in collectives(scenario, 0.01)} == {"a": 4, "b": 5, "c": 6}


def test_collectives_wait_for_what_the_job_says_and_through_those_that_send_nothing(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h4"])
    job["compute_seconds"] = 0.2
    call = job["collectives"][0]
    rows: list[tuple[str, dict[str, Any]]] = [
        ("x", {"overlap": "compute"}),
        ("none", {"ranks": [0], "after": ["x"]}),
        ("y", {"after": ["none", "dp0"]}),
    ]
    job["collectives"] += [{**call, "name": name, **added} for name, added in rows]
    scenario = scenario_of(tmp_path, CLOS, [job])
    waits = {spec.name: (spec.overlaps, spec.after) for spec in collectives(scenario, 0.01)}
    assert waits == {"dp0": (False, ()), "x": (True, ()), "y": (False, ("x", "dp0"))}
    # The phase computes once, however many of its collectives are sent one by one.
    (cycle,) = cycles(scenario, None, 1.0)
    assert cycle.compute == ((0, pytest.approx(0.2)),)


def test_flows_of_one_pair_are_pieces_in_proportion_to_their_bytes(tmp_path: Path) -> None:
    flows = [{"src": "h1", "dst": "h4", "bytes": size, "udp_src": port} for size, port in ((100, 50001), (300, 50002))]
    scenario = scenario_of(tmp_path, CLOS, [{"name": "a", "flows": flows}])
    (spec,) = collectives(scenario, 1000)
    assert spec.flows() == {(0, 1): 400_000}
    _, documents = told(scenario, Draw("greedy", 1))
    (pieces,) = routes(scenario.fabric, [spec], documents).values()
    assert [(piece.udp_src, piece.share) for piece in pieces] == [(50001, 0.25), (50002, 0.75)]


SHARED = "{spines: 1, leaves: 2, hosts_per_leaf: 3}"


@settings(max_examples=10, deadline=None)
@given(sizes=st.lists(st.integers(10**6, 10**9), min_size=2, max_size=3), scale=st.floats(0.01, 1.0))
def test_paces_are_those_of_the_plan_at_the_rate_of_the_experiment_or_none(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], scale: float
) -> None:
    jobs = [ring(f"j{n}", [f"h{n + 1}", f"h{n + 4}"], size) for n, size in enumerate(sizes)]
    scenario = scenario_of(tmp_path_factory.mktemp("s"), SHARED, jobs)
    fabric, specs = scenario.fabric, collectives(scenario, 0.01)
    _, documents = told(scenario, Draw("fair", 1))
    planned = {
        (host, flow["dst"], piece["udp_src"]): piece["pace_gbps"]
        for host, document in documents.items()
        for flow in document["flows"]
        for piece in flow["pieces"]
    }
    assert None not in planned.values()
    plain, paced = routes(fabric, specs, documents), routes(fabric, specs, documents, scale)
    assert {piece.pace for pieces in plain.values() for piece in pieces} == {None}
    for (*_, src, dst), pieces in paced.items():
        assert [piece.pace for piece in pieces] == [
            pytest.approx(planned[src, dst, p.udp_src] * scale * 1e6) for p in pieces
        ]
    # What shares a cable fits onto it, headers included.
    for direction in ("h1", "h2", "h3"), ("h4", "h5", "h6"):
        sent = sum(p.pace or 0.0 for key, pieces in paced.items() if key[2] in direction for p in pieces)
        assert sent / EFFICIENCY <= 100 * scale * 1e6
    assert not paced_flows(plain, scale)
    rows = {(row.src, row.dst, row.udp_src): row for row in paced_flows(paced, scale)}
    assert {key: row.pace_gbps for key, row in rows.items()} == pytest.approx(planned)


def test_flows_that_no_packet_tells_apart_have_the_sum_of_their_paces_or_none() -> None:
    def told_of(paces: Sequence[float | None]) -> dict[str, Any]:
        pieces = [[{"udp_src": None, "share": 1.0, "pace_gbps": pace}] for pace in paces]
        flows = [{"id": f"a/c/{n}", "dst": "h4", "bytes": 10, "pieces": each} for n, each in enumerate(pieces)]
        return {"h1": {"flows": flows}}

    fabric = clos(1, 2, 3)
    for paces, expected in (([10.0, 20.0], 30.0e6), ([10.0, None], None), ([None, 10.0], None)):
        assert ways_of_pieces(fabric, told_of(paces), 1.0) == {"a/c/0#0": PieceWay("h1", "h4", None, expected)}


def test_packets_are_marked_as_routes_say_and_those_that_look_alike_by_the_highest_class() -> None:
    def told_of(marks: Sequence[int | None]) -> dict[str, Any]:
        pieces = [{"udp_src": 50001, "share": 1.0, "pace_gbps": None}]
        flows = [
            {"id": f"a/c/{n}", "dst": "h4", "bytes": 10, "pieces": pieces, **({} if dscp is None else {"dscp": dscp})}
            for n, dscp in enumerate(marks)
        ]
        return {"h1": {"flows": flows}}

    fabric = clos(1, 2, 3)
    spec = CollectiveSpec("a", "c", ("h1", "h4"), op="exchange", matrix=((0, 10), (0, 0)), dtype="uint8")
    for marks, expected in (([None], 0), ([24], 24), ([None, 16], 16)):
        ((piece,),) = routes(fabric, [spec], told_of(marks)).values()
        (way,) = ways_of_pieces(fabric, told_of(marks)).values()
        assert (piece.dscp, way.dscp) == (expected, expected)


class Told:
    """A controller whose plan changes."""

    def __init__(self) -> None:
        self.epoch, self.pace = 1, 64.0

    def active_epoch(self) -> int:
        return self.epoch

    def routes(self, host: str) -> dict[str, Any]:
        piece = {"udp_src": 50001, "share": 1.0, "pace_gbps": self.pace}
        flows = [{"id": "a/c/0", "dst": "h4", "bytes": 10, "pieces": [piece]}] if host == "h1" else []
        return {"flows": flows}


def test_paces_follow_a_plan_as_soon_as_it_is_active() -> None:
    told_plan, fabric = Told(), clos(1, 2, 3)
    assert following(told_plan, fabric) is None
    follow = following(told_plan, fabric, 0.125)
    assert follow is not None
    assert follow() == {"a/c/0#0": PieceWay("h1", "h4", 50001, 8e6)}
    told_plan.pace = 32.0
    assert follow() == {}
    told_plan.epoch = 2
    assert follow() == {"a/c/0#0": PieceWay("h1", "h4", 50001, 4e6)}
    told_plan.epoch = 3
    assert follow() == {}


def test_a_collective_that_has_flows_of_its_own_besides_is_an_exchange_of_all_its_bytes(tmp_path: Path) -> None:
    job = ring("a", ["h1", "h4"], 10**6)
    job["flows"] = [{"src": "h4", "dst": "h5", "bytes": 5000, "collective": "dp0"}]
    scenario = scenario_of(tmp_path, CLOS, [job])
    (spec,) = collectives(scenario, 1.0)
    assert spec.op == "exchange"
    assert sum(spec.flows().values()) == int(np.sum(scenario.traffic.bytes))


def test_what_leaves_by_other_nics_than_its_ranks_is_an_exchange_between_those(tmp_path: Path) -> None:
    """h1 and h4 are server node1, on rails 0 and 1; h2 and h5 node2."""
    job = ring("a", ["h1", "h4", "h2", "h5"], 10**6)
    (spec,) = collectives(scenario_of(tmp_path, RAILS, [job]), 1.0)
    assert spec.op == "exchange"
    assert {(spec.ranks[a], spec.ranks[b]) for a, b in spec.flows()} == {("h1", "h2"), ("h2", "h1")}
    job["pxn"] = False
    (spec,) = collectives(scenario_of(tmp_path, RAILS, [job]), 1.0)
    assert spec.op == "all_reduce"
