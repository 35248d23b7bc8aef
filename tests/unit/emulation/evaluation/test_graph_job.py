"""Graphs of tasks in scenarios: the simulator plays them as ``emulation.fluid.dag`` does, beside other jobs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.cli.main import main
from controller.model.dag import NO_PEER, Dag
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.clos import clos
from controller.model.traffic import Traffic
from controller.routing import PreviousPlan, assign
from controller.routing.problem.live_planes import on_live_planes
from controller.workload.expand import combine, expand
from controller.workload.importers.dags import DagBuilder, imported
from controller.workload.placement.placement import rename_hosts
from emulation.evaluation.cell import ideal_seconds, run_cell
from emulation.evaluation.graph_steps import least_seconds, schedule_of_graph
from emulation.evaluation.scenario import parse_scenario
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.dag import NO_LINK, DagNetwork
from emulation.fluid.dag import run as play
from emulation.fluid.dag_stripes import striped
from emulation.fluid.records import Results
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.simulator import LinkChange, Simulation, simulate
from tests.unit.laws import examples

EXAMPLES = Path(__file__).parents[4] / "examples"
GOAL = EXAMPLES / "goal" / "two-layers.goal"


@st.composite
def graphs(draw: st.DrawFn, ranks: int) -> Dag:
    build = DagBuilder()
    for _ in range(draw(st.integers(1, 25))):
        rank = draw(st.integers(0, ranks - 1))
        if draw(st.booleans()):
            build.message(rank, draw(st.integers(0, ranks - 1)), draw(st.integers(0, 10**9)))
        else:
            build.computation(
                rank, draw(st.sampled_from([0.0, 0.01, 0.1]) | st.floats(1e-3, 0.1)), draw(st.integers(0, 1))
            )
    for after in range(len(build)):
        for before in draw(st.sets(st.integers(0, after - 1), max_size=3)) if after else ():
            build.edge(before, after)
    return build.dag(ranks)


def _planner(fabric: Fabric, traffic: Traffic, previous: PreviousPlan | None) -> object:
    return assign("ecmp", fabric, traffic, seed=3)


def _job(fabric: Fabric, dag: Dag, hosts: list[str], name: str = "g") -> TimedJob:
    job = imported(dag, name, "x").job
    return TimedJob(rename_hosts(job, dict(zip(job.hosts, hosts, strict=True))), dag=dag)


def _simulated(fabric: Fabric, *jobs: SimulatedJob, **more: object) -> Results:
    return simulate(Simulation(fabric, jobs, _planner, **more))  # type: ignore[arg-type]


def _network(fabric: Fabric, timed: TimedJob) -> DagNetwork:
    """Return the path of each pair of ranks, or of each of its stripes, with ranks as in ``striped``."""
    traffic = on_live_planes(fabric, combine([expand(fabric, timed.job)]))
    assignment = assign("ecmp", fabric, traffic, seed=3).assignment
    nic_of_host, planes = fabric.planes.nic_of_host.tolist(), fabric.planes.count
    rank = {nic_of_host[fabric.host_index[host]]: i for i, host in enumerate(timed.job.hosts)}
    links = np.full((traffic.n_flows, 4), NO_LINK, dtype=np.int32)
    pair = {}
    for flow, path in enumerate(assignment.path.tolist()):
        src, dst = int(traffic.src[flow]), int(traffic.dst[flow])
        way = fabric.flow_links(src, dst, path)
        links[flow, : len(way)] = way
        port = int(traffic.number[flow]) % planes * len(timed.job.hosts)
        pair[rank[nic_of_host[src]] + port, rank[nic_of_host[dst]] + port] = flow
    return DagNetwork(links, fabric.link_gbps.astype(np.float64), pair)


@settings(deadline=None, max_examples=examples(40, 240))
@given(dag=graphs(4), spread=st.booleans())
def test_the_simulator_takes_as_long_as_the_player_of_graphs(dag: Dag, spread: bool) -> None:
    fabric = clos(2, 2, 4, uplink_gbps=40.0)
    hosts = ["h1", "h5", "h2", "h6"] if spread else ["h1", "h2", "h3", "h4"]
    timed = _job(fabric, dag, hosts)
    (job,) = simulated_jobs(fabric, [timed])
    alone = play(dag, _network(fabric, timed))
    results = _simulated(fabric, job)
    (epoch,) = results.epochs
    assert epoch.seconds == pytest.approx(alone.seconds, rel=1e-6, abs=1e-9)
    # Every task ended when the player says that it did, and every link carried as much.
    ended = np.zeros(dag.n_tasks)
    ended[results.runs.group] = results.runs.ended
    assert ended == pytest.approx(alone.end, rel=1e-6, abs=1e-9)
    assert results.carried == pytest.approx(alone.gbit, rel=1e-6, abs=1e-6)
    assert ideal_seconds(fabric, job) <= epoch.seconds * (1 + 1e-9)


@settings(deadline=None, max_examples=examples(30, 180))
@given(dag=graphs(4), planes=st.sampled_from([2, 3]), failed=st.booleans())
def test_messages_in_stripes_take_as_long_as_in_the_player_of_graphs(dag: Dag, planes: int, failed: bool) -> None:
    fabric = clos(2, 2, 4, uplink_gbps=40.0, planes=planes)
    if failed:
        fabric = fabric.without_links(["leaf3-spine3", "leaf3-spine4"])
    timed = _job(fabric, dag, ["h1", "h5", "h2", "h6"])
    (job,) = simulated_jobs(fabric, [timed])
    cut = striped(dag, planes)
    assert cut.bytes.sum() == dag.bytes.sum()
    alone = play(cut, _network(fabric, timed))
    results = _simulated(fabric, job)
    (epoch,) = results.epochs
    # Stripes differ by a byte in the player, and are equal in the simulator.
    assert epoch.seconds == pytest.approx(alone.seconds, rel=1e-6, abs=1e-7)
    ended = np.zeros(dag.n_tasks)
    ended[results.runs.group] = results.runs.ended
    assert ended == pytest.approx(alone.end[: dag.n_tasks], rel=1e-6, abs=1e-7)
    assert ideal_seconds(fabric, job) <= epoch.seconds * (1 + 1e-6) + 1e-9


@settings(deadline=None, max_examples=examples(10, 60))
@given(dag=graphs(4))
def test_a_new_plan_in_the_middle_loses_nothing(dag: Dag) -> None:
    fabric = clos(3, 2, 4, uplink_gbps=40.0)
    (job,) = simulated_jobs(fabric, [_job(fabric, dag, ["h1", "h5", "h2", "h6"])])
    changes = [LinkChange(at, ("leaf1-spine1",), up) for at, up in ((0.02, False), (0.05, True), (0.11, False))]
    results = _simulated(fabric, job, changes=changes, triggers=frozenset({"arrival", "failure"}))
    sent = job.traffic.bytes.sum() * 8e-9
    assert results.carried[: fabric.n_hosts].sum() == pytest.approx(sent, rel=1e-6, abs=1e-9)
    assert len(results.epochs) == 1
    assert len(set(results.runs.group.tolist())) == dag.n_tasks


def test_messages_within_a_server_take_no_time_and_processors_are_not_shared_between_jobs() -> None:
    fabric = clos(2, 2, 4, nics_per_server=2)
    build = DagBuilder()
    for rank in (0, 1):
        build.computation(rank, 0.5)
    build.edge(0, build.message(0, 1, 10**9))
    build.edge(2, build.computation(1, 0.25))
    dag = build.dag(2)
    within, across = _job(fabric, dag, ["h1", "h2"]), _job(fabric, dag, ["h3", "h5"], "other")
    jobs = simulated_jobs(fabric, [within, across])
    assert [job.schedule.lanes.max() for job in jobs] == [1, 1]
    results = _simulated(fabric, *jobs)
    assert {epoch.job: epoch.seconds for epoch in results.epochs} == pytest.approx({"g": 0.75, "other": 0.83})
    assert [job.least_seconds for job in jobs] == pytest.approx([0.75, 0.83])


def test_a_graph_shares_links_with_jobs_of_phases(tmp_path: Path) -> None:
    job = {"name": "p", "flows": [{"src": "h1", "dst": "h5", "bytes": 10**9}]}
    (tmp_path / "p.json").write_text(json.dumps(job))
    (tmp_path / "g.goal").write_text(
        "num_ranks 2\nrank 0 {\nl1: calc 10000000\nl2: send 1000000000b to 1 tag 1\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 1000000000b from 0 tag 1\nl2: calc 5000000\nl2 requires l1\n}\n"
    )
    document = {
        "fabric": {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 4}},
        "cases": [
            {"jobs": [{"graph": {"format": "goal", "files": "g.goal", "placement": ["h2", "h6"], "name": "g"}}]},
            {
                "name": "both",
                "jobs": [
                    {"job": "p.json"},
                    {"graph": {"format": "goal", "files": ["g.goal"], "placement": ["h2", "h6"], "name": "g"}},
                ],
            },
        ],
        "policies": "ecmp",
        "epochs": 1,
    }
    alone, both = parse_scenario(document, tmp_path).cells()
    _, results = run_cell(alone)
    assert results.epochs[0].seconds == pytest.approx(0.01 + 0.08 + 0.005)
    row, results = run_cell(both)
    # From 10 ms on both share the one uplink: the flow would need 70 ms alone, so it ends at 10 + 2 x 70 ms. The
    # graph's message has 10 ms left then, and 5 ms of computing behind it.
    assert {e.job: e.seconds for e in results.epochs} == pytest.approx({"p": 0.15, "g": 0.165})
    assert row["ratio"] == pytest.approx((0.15 / 0.08 + 0.165 / 0.095) / 2)


def test_ranks_are_put_on_hosts_that_no_job_before_has(tmp_path: Path) -> None:
    graph = {"format": "goal", "files": str(GOAL)}
    rows = [{"graph": {**graph, "name": name, "placement": how}} for name, how in (("a", "in-order"), ("b", "packed"))]
    document = {"fabric": str(EXAMPLES / "clos-4x4x4.yaml"), "cases": [{"jobs": rows}], "policies": "fair"}
    (case,) = parse_scenario(document, tmp_path).cases
    first, second = (set(timed.job.hosts) for timed in case.described)
    assert not first & second
    assert all(timed.dag is not None for timed in case.described)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({}, "exactly one of 'job' and 'graph'"),
        ({"job": "a", "graph": {"format": "goal", "files": "a"}}, "exactly one of 'job' and 'graph'"),
        ({"graph": {"format": "goal", "files": str(GOAL)}, "pieces": 2}, "'pieces' cannot be used with a graph"),
        ({"graph": {"format": "what", "files": "a"}}, "no format has this name"),
        ({"graph": {"format": "goal", "files": "none"}}, "none: no such file"),
        ({"graph": {"format": "goal", "files": str(GOAL), "placement": ["h1"]}}, "ranks need as many hosts"),
        ({"graph": {"format": "htsim", "files": "a.cm"}}, "a.cm: contains no task graph"),
        ({"graph": {"format": "goal", "files": "circle"}}, "circle: 2 tasks of rank 0 wait for each other"),
    ],
)
def test_a_graph_that_cannot_be_played_is_refused(tmp_path: Path, row: dict[str, object], reason: str) -> None:
    (tmp_path / "circle").write_text("num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n")
    (tmp_path / "a.cm").write_text("Nodes 2\nConnections 1\n0->1 start 0 size 100\n")
    document = {"fabric": str(EXAMPLES / "clos-4x4x4.yaml"), "cases": [{"jobs": [row]}], "policies": "fair"}
    with pytest.raises(InputError) as error:
        parse_scenario(document, tmp_path)
    assert reason in str(error.value)


def test_the_example_scenario_of_a_graph_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(
            [
                "simulate",
                "--scenario",
                str(EXAMPLES / "scenarios" / "graph.yaml"),
                "--out",
                str(tmp_path),
                "--format",
                "json",
            ]
        )
    assert not end.value.code
    rows = json.loads(capsys.readouterr().out)["cells"]
    assert {row["jobs"] for row in rows} == {2}
    assert all(row["ratio"] >= 1 - 1e-9 for row in rows)


def test_the_schedule_has_each_message_once() -> None:
    fabric = clos(2, 2, 2)
    build = DagBuilder()
    build.message(0, 1, 100)
    build.message(0, 1, 50)
    build.message(1, 1, 9)
    build.computation(0, 1.0)
    dag = build.dag(2)
    assert dag.peer.tolist() == [1, 1, NO_PEER, NO_PEER]
    timed = _job(fabric, dag, ["h1", "h3"])
    traffic = combine([expand(fabric, timed.job)])
    schedule = schedule_of_graph(fabric, timed.job, dag, traffic)
    assert (schedule.group.tolist(), schedule.flow.tolist(), schedule.bytes.tolist()) == ([0, 1], [0, 0], [100.0, 50.0])
    assert least_seconds(fabric, timed.job, dag, traffic) == 1.0
