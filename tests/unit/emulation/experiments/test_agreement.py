"""Experiments out of scenarios, the simulator's word on them, and whether both sides agree; no packet is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.model.errors import InputError
from controller.model.files.fabric_file import load_fabric
from controller.routing import assign
from emulation.experiments.agreement import Compared, compare, ratios
from emulation.experiments.from_scenario import Experiment
from emulation.experiments.request import load
from emulation.experiments.simulated import simulated_seconds
from tests.unit.emulation.experiments.agreement_experiments import RINGS, experiments


def run_of(experiment: Experiment, policy: str, seed: int) -> dict[str, Any]:
    """The part of a run's document that says where flows went."""
    (job,) = experiment.case.jobs
    fabric, traffic = experiment.fabric, job.traffic
    paths = assign(policy, fabric, traffic, seed=seed).assignment.path.tolist()
    ids = fabric.link_ids
    flows = []
    for flow, path in enumerate(paths):
        a, b = fabric.host_leaf[traffic.src[flow]], fabric.host_leaf[traffic.dst[flow]]
        if a != b:
            links = [ids[fabric.up_link[a, path]], ids[fabric.down_link[b, path]]]
            flows.append({"ids": [traffic.flow_id(flow)], "links": links})
    return {"policy": policy, "seed": seed, "flows": flows}


def test_each_failure_is_an_experiment_whose_files_hold_it(tmp_path: Path) -> None:
    made, notes = experiments(tmp_path, failed_spines=[0, 1])
    assert [each.failure.name for each in made] == ["none", "1 spine"]
    assert len({each.request.folder for each in made}) == 2
    assert ["fair+split" in note for note in notes] == [True]
    for each in made:
        each.write()
        read = load(each.request)
        assert read.fabric.version == each.fabric.version
        assert read.traffic.version == each.case.jobs[0].traffic.version
        assert [(draw.policy, draw.seed) for draw in read.draws] == [("ecmp", 3), ("ecmp", 8), ("greedy", 3)]
    down = [cable.upper for cable in load_fabric(made[1].request.fabric).cables if not cable.up]
    assert down == ["spine4"] * 4


def test_each_number_of_qps_is_an_experiment_with_a_flow_for_each_qp(tmp_path: Path) -> None:
    made, _ = experiments(
        tmp_path, cases=[{"collective": RINGS, "qps": [1, 4], "qp_mode": "round_robin"}], policies=["fair"]
    )
    assert [(each.request.qps, each.request.qp_mode) for each in made] == [(1, "round_robin"), (4, "round_robin")]
    assert len({each.request.folder for each in made}) == 2
    for each in made:
        each.write()
        (job,) = each.case.jobs
        assert load(each.request).traffic.version == job.traffic.version
        run = run_of(each, "fair", 1)
        assert len({flow["ids"][0] for flow in run["flows"]}) == len(run["flows"])
        (seconds,) = simulated_seconds(each, run).values()
        assert seconds == pytest.approx(14 / 8 * 8e9 / 100e9, rel=0.01)


def test_both_modes_of_qps_are_experiments_of_their_own(tmp_path: Path) -> None:
    cases = [{"collective": RINGS, "name": mode, "qps": [4], "qp_mode": mode} for mode in ("split", "round_robin")]
    made, _ = experiments(tmp_path, cases=cases, policies=["fair"])
    assert [each.request.qp_mode for each in made] == ["split", "round_robin"]
    assert len({each.request.folder for each in made}) == 2


def test_hashed_and_pinned_qps_are_on_packets_unless_the_policy_cuts_flows_itself(tmp_path: Path) -> None:
    cutting = {"policy": "e_ecmp", "name": "e_ecmp-4", "options": {"qps": 4}}
    made, notes = experiments(tmp_path, policies=["fair", "path_pinning", "e_ecmp", cutting])
    assert [each.request.policies for each in made] == [("e_ecmp", "fair", "path_pinning")]
    assert ["e_ecmp-4" in note for note in notes] == [True]


def test_links_that_are_drawn_are_an_experiment_a_seed(tmp_path: Path) -> None:
    made, _ = experiments(tmp_path, failed_links=[2])
    drawn = [each for each in made if each.failure.links]
    assert [each.request.seeds for each in drawn] == [(3,), (8,)]
    assert drawn[0].fabric.version != drawn[1].fabric.version


def test_what_no_machine_carries_or_no_switch_follows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"fabric: 96: one machine emulates at most 64 hosts"):
        experiments(tmp_path, fabric={"clos": {"spines": 2, "leaves": 4, "hosts_per_leaf": 24, "uplink_gbps": 100}})
    with pytest.raises(InputError, match="policies: switches cannot follow any of them"):
        experiments(tmp_path, policies=["spray"])


@pytest.mark.parametrize(("policy", "slowest"), [("greedy", 2.0), ("fair", 1.0)])
def test_the_simulator_runs_over_the_paths_of_the_experiment(tmp_path: Path, policy: str, slowest: float) -> None:
    (experiment,), _ = experiments(tmp_path)
    (job,) = experiment.case.jobs
    (name,) = simulated_seconds(experiment, run_of(experiment, policy, 1))
    # A ring of eight over 100 Gbit/s links: 14/8 of the buffer on each edge.
    alone = 14 / 8 * 8e9 / 100e9
    assert name == job.name
    assert simulated_seconds(experiment, run_of(experiment, policy, 1))[name] == pytest.approx(slowest * alone)


def test_times_are_compared_at_the_scale_of_the_measured_ones_draw_by_draw(tmp_path: Path) -> None:
    (experiment,), _ = experiments(tmp_path)
    (job,) = experiment.case.jobs
    runs = []
    for policy, seed in (("ecmp", 3), ("ecmp", 8), ("greedy", 3)):
        rows = [{"job": job.name, "iterations": [5.0 + seed, 7.0 + seed]}]
        runs.append({**run_of(experiment, policy, seed), "jobs": rows})
    found = compare(experiment, {"scale": {"time": 10.0}, "runs": runs})
    assert [(row.policy, len(row.simulated), row.measured) for row in found] == [
        ("ecmp", 2, (9.0, 14.0)),
        ("greedy", 1, (9.0,)),
    ]
    for row in found:
        own = [run for run in runs if run["policy"] == row.policy]
        assert row.simulated == tuple(10.0 * simulated_seconds(experiment, run)[job.name] for run in own)


@pytest.mark.parametrize(("shift", "iteration"), [(None, 0.3), (0.1, 0.2), (0.05, 0.25)])
def test_the_simulator_computes_and_follows_the_schedule_of_the_run(
    tmp_path: Path, shift: float | None, iteration: float
) -> None:
    """Two jobs that compute for 0.1 s and send for 0.1 s over one link."""
    jobs = [
        {"job": {"name": name, "hosts": hosts, "collectives": [call]}, "compute_seconds": 0.1, "epochs": 8}
        for name, hosts in (("a", ["h1", "h3"]), ("b", ["h2", "h4"]))
        for call in [{"name": "dp", "op": "all_reduce", "ranks": [0, 1], "bytes": 1_250_000_000}]
    ]
    fabric = {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 2, "host_gbps": 100, "uplink_gbps": 100}}
    policies = ["fair", "fair+shifts"]
    (experiment,), notes = experiments(tmp_path, fabric=fabric, cases=[{"jobs": jobs}], policies=policies)
    assert notes == []
    assert experiment.request.policies == ("fair", "fair+shifts")
    assert experiment.request.iterations == (8, 8)
    experiment.write()
    assert load(experiment.request).iterations == {"a": 8, "b": 8}
    run: dict[str, Any] = {"flows": [], "schedule": None}
    for job in experiment.case.jobs:
        ids = [job.traffic.flow_id(flow) for flow in range(2)]
        ways = [("leaf1->spine1", "spine1->leaf2"), ("leaf2->spine1", "spine1->leaf1")]
        ways = ways if job.traffic.src[0] < 2 else ways[::-1]
        run["flows"] += [{"ids": [name], "links": way} for name, way in zip(ids, ways, strict=True)]
    if shift is not None:
        rows = [
            {
                "job": name,
                "period_seconds": 0.2,
                "shift_seconds": at,
                "hold": False,
                "iteration_seconds": 0.2,
                "compatibility": 1.0,
            }
            for name, at in (("a", 0.0), ("b", shift))
        ]
        run["schedule"] = {"slowdown": 1.0, "bound": 1.0, "gap": 0.0, "jobs": rows}
    found = simulated_seconds(experiment, run)
    # The first and the last iteration may have the link to themselves for longer.
    assert found == pytest.approx({"a": iteration, "b": iteration}, rel=0.05)


def test_ratios_are_of_every_two_policies_and_failures_of_a_case_and_fifteen_percent_apart_is_too_far() -> None:
    rows = [
        Compared("c", "none", "ecmp", "a", (2.0, 4.0), (2.0, 4.0)),
        Compared("c", "none", "ecmp", "b", (5.0, 5.0), (5.0, 5.0)),
        Compared("c", "none", "fair", "a", (1.0,), (1.1,)),
        Compared("c", "none", "fair", "b", (1.0,), (1.1,)),
        Compared("c", "1 spine", "fair", "a", (2.0,), (1.6,)),
        Compared("d", "none", "fair", "a", (2.0,), (9.0,)),
    ]
    found = {(ratio.case, ratio.one, ratio.other): ratio for ratio in ratios(rows)}
    assert sorted(found) == [
        ("c", "ecmp", "fair"),
        ("c", "ecmp", "fair, 1 spine failed"),
        ("c", "fair", "fair, 1 spine failed"),
    ]
    fair = found["c", "ecmp", "fair"]
    assert (fair.simulated, fair.measured) == (pytest.approx(4.0), pytest.approx(4.0 / 1.1))
    assert fair.off == pytest.approx(1 / 1.1 - 1)
    assert fair.agrees
    assert not found["c", "fair", "fair, 1 spine failed"].agrees
