from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from controller.model.assignment import Assignment
from controller.model.errors import InputError
from controller.model.files.clos import clos
from controller.model.job import CollectiveCall, Job
from controller.routing import Result
from emulation.evaluation.cell import ideal_seconds, link_use, run_cell
from emulation.evaluation.results_file import write_results
from emulation.evaluation.timed_job import TimedJob, simulated_jobs
from emulation.fluid.schedule import SimulatedJob, one_step_each
from emulation.fluid.simulator import Simulation, simulate
from tests.traffic_columns import traffic_of_columns
from tests.unit.emulation.evaluation.small import scenario
from tests.unit.laws import examples


def test_with_all_hosts_sending_free_splitting_is_ideal_and_failed_spines_cost_their_share() -> None:
    cases = [{"collective": {"op": "all_to_all", "algorithms": ["direct"], "bytes": [10**8]}}]
    made = scenario(cases=cases, policies=["spray"], failed_spines=[0, 1, 2], allocation="collective")
    rows = [run_cell(cell)[0] for cell in made.cells()]
    # 15 others, 12 of them on other leaves: a NIC takes 15 parts of the time, a leaf's four uplinks 12.
    assert [row["ratio"] for row in rows] == pytest.approx([1.0, 12 * 4 / 3 / 15, 12 * 4 / 2 / 15])


@settings(max_examples=examples(12, 75), deadline=None)
@given(
    st.sampled_from(["ecmp", "greedy", "fair", "fair+split", "spray"]),
    st.sampled_from(["flow", "paced", "collective"]),
    st.sampled_from(["ring", "halving_doubling", "tree", "direct"]),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_no_policy_beats_the_ideal_and_every_epoch_is_reported(
    policy: str, allocation: str, algorithm: str, failed: int, seed: int
) -> None:
    cases = [{"collective": {"algorithms": algorithm, "bytes": 10**8, "groups": 2, "order": "random", "seed": seed}}]
    made = scenario(cases=cases, policies=[policy], failed_spines=failed, allocation=allocation, seeds=seed)
    for cell in made.cells():
        row, _ = run_cell(cell)
        assert row["ratio"] >= 1 - 1e-9
        assert row["ratio_worst"] >= row["ratio"] - 1e-9
        assert (row["epochs"], row["stalled"]) == (2, False)
        assert list(row["fct"].values()) == sorted(row["fct"].values())


def test_phases_add_up_in_the_ideal() -> None:
    fabric = clos(4, 4, 4)

    def of(*phases: int) -> float:
        calls = [
            CollectiveCall(f"c{i}", "all_reduce", (0, 1, 2, 3), 10**9, phase=phase) for i, phase in enumerate(phases)
        ]
        job = Job("j", hosts=("h1", "h5", "h9", "h13"), collectives=tuple(calls))
        return ideal_seconds(fabric, simulated_jobs(fabric, [TimedJob(job)])[0])

    assert of(0) == pytest.approx(0.12)
    assert of(0, 7) == pytest.approx(0.24)
    # Two at once share the same NICs.
    assert of(0, 0) == pytest.approx(0.24)


def test_a_job_that_finished_no_epoch_has_no_ratio() -> None:
    row, _ = run_cell(scenario(policies=["fair"], until=1e-6).cells()[0])
    assert (row["ratio"], row["epochs"]) == (None, 0)
    row, _ = run_cell(scenario(policies=["fair"], changes=[{"at": 0.0, "names": ["leaf1"]}]).cells()[0])
    assert row["stalled"]


def test_the_use_of_links_follows_from_what_crosses_them() -> None:
    made = scenario(
        cases=[{"collective": {"op": "all_to_all", "algorithms": "direct", "bytes": 10**8}}],
        policies=["spray"],
        failed_spines=[0, 2],
        allocation="collective",
    )
    rows = [run_cell(cell)[0] for cell in made.cells()]
    assert [row["imbalance"] for row in rows] == pytest.approx([1.0, 1.0])
    # 15 others, 12 of them on other leaves; with half of the uplinks these are what holds all up.
    assert [row["link_mean"] for row in rows] == pytest.approx([12 / 15, 1.0])
    assert [row["link_busiest"] for row in rows] == pytest.approx([12 / 15, 1.0])


def test_the_busiest_of_a_leafs_links_is_held_against_their_mean() -> None:
    fabric = clos(4, 2, 4)
    traffic = traffic_of_columns([0, 1], [4, 5], [50000, 50001], size=10**9)
    for paths, wanted in (([0, 0], 4.0), ([0, 1], 2.0)):
        results = simulate(
            Simulation(
                fabric,
                [SimulatedJob("j", traffic, one_step_each(traffic), compute_seconds=0.08)],
                lambda *_, paths=paths: Result(Assignment.single(np.array(paths, dtype=np.int32))),
            )
        )
        used = link_use(results)
        took = 0.08 + 0.08 * wanted / 2
        assert used.imbalance == pytest.approx(wanted)
        assert used.busiest == pytest.approx((took - 0.08) / took)
        # Two flows have two links each, of the sixteen.
        assert used.mean == pytest.approx(4 * 0.08 / 16 / took)


def test_what_stays_on_its_leaf_uses_no_link_between_leaves_and_spines() -> None:
    cases = [{"collective": {"algorithms": ["ring"], "bytes": [10**8], "groups": 4, "order": "in_order"}}]
    row, _ = run_cell(scenario(cases=cases, policies=["fair"]).cells()[0])
    assert (row["link_mean"], row["link_busiest"], row["imbalance"]) == (0.0, 0.0, None)


def test_whole_results_are_kept_as_json_and_parquet(tmp_path: Path) -> None:
    cell = scenario(policies=["fair"], bins=0.005).cells()[0]
    row, results = run_cell(cell)
    write_results(tmp_path / "one", row, results)
    write_results(tmp_path / "one", row, results)
    assert [path.name for path in tmp_path.iterdir()] == ["one"], "the draft is gone"
    with pytest.raises(InputError, match=r"results\.json/one: cannot be written: Not a directory"):
        write_results(tmp_path / "one" / "results.json" / "one", row, results)
    summary = orjson.loads((tmp_path / "one" / "results.json").read_bytes())
    assert summary["ratio"] == row["ratio"]
    assert len(summary["epoch_times"]) == 2
    tables = {path.stem: parquet.read_table(path).to_pydict() for path in (tmp_path / "one").glob("*.parquet")}
    assert (tmp_path / "one" / "results.png").read_bytes().startswith(b"\x89PNG")
    assert set(tables) == {"epochs", "runs", "flows", "links"}
    assert tables["runs"]["ended"] == results.runs.ended.tolist()
    # Four rings of four, six steps, two epochs: every transfer is there, from a host to the next of its ring.
    assert len(tables["flows"]["src"]) == 4 * 4 * 6 * 2
    traffic = cell.case.jobs[0].traffic
    pairs = {
        (cell.fabric.host_names[a], cell.fabric.host_names[b]) for a, b in zip(traffic.src, traffic.dst, strict=True)
    }
    assert set(zip(tables["flows"]["src"], tables["flows"]["dst"], strict=True)) == pairs
    assert 0 <= min(tables["links"]["utilisation"]) <= max(tables["links"]["utilisation"]) <= 1 + 1e-9
    assert np.sum(tables["links"]["bytes"]) == pytest.approx(results.gbit.sum() / 8e-9)


def test_whole_results_of_groups_that_move_as_one_have_no_hosts(tmp_path: Path) -> None:
    row, results = run_cell(scenario(policies=["fair"], allocation="collective").cells()[0])
    write_results(tmp_path / "one", row, results)
    assert "src" not in parquet.read_table(tmp_path / "one" / "flows.parquet").column_names


def _sharing(**more: object) -> list[dict[str, object]]:
    """Return two jobs whose rings share the only spine."""
    jobs = []
    for j, hosts in enumerate((["h1", "h3"], ["h2", "h4"])):
        ring = {"name": "ar", "op": "all_reduce", "ranks": [0, 1], "bytes": 10**9}
        jobs.append({"job": {"name": f"j{j}", "hosts": hosts, "collectives": [ring]}, "compute_seconds": 0.02, **more})
    return jobs


@pytest.mark.parametrize("policy", ["fair", "ecmp", "spray", "least_loaded"])
def test_no_policy_is_below_the_bound_and_what_the_bound_does_not_cover_has_none(policy: str) -> None:
    fabric = {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 2}}

    def over(jobs: list[dict[str, object]], **more: Any) -> float | None:
        (cell,) = scenario(fabric=fabric, cases=[{"jobs": jobs}], policies=[policy], epochs=40, **more).cells()
        found = run_cell(cell)[0]["iteration_bound"]
        assert found is None or isinstance(found, float)
        return found

    # Each needs the spine for 0.08 s of 0.1 s: at least 0.16 s. Both begin together, so they send together: 0.18 s.
    assert over(_sharing()) == pytest.approx(0.18 / 0.16)
    # Without computing both reach the bound.
    assert over(_sharing(compute_seconds=0.0)) == pytest.approx(1.0)
    late = [row | {"start": 0.5 * k} for k, row in enumerate(_sharing())]
    assert over(late) is None
    assert over(_sharing(), jitter=0.1) is None
