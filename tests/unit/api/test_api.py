"""The Python API: what README shows, results that agree with the command's, and errors that name the field."""

from __future__ import annotations

import dataclasses
import doctest
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fairspine as fs
from controller.cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def fabric() -> fs.Fabric:
    return fs.clos(leaves=4, spines=4, hosts_per_leaf=4)


IN_TURN: dict[str, Any] = {"qps": 2, "qp_mode": "round_robin"}
NOT_CUT = "qp_mode: 'round_robin': QPs of a carry whole messages in turn"


def ring(fabric: fs.Fabric, name: str = "a", size: float = 1e9, **more: Any) -> fs.Job:
    """A ring whose neighbours are on different leaves."""
    hosts = [host for n in range(4) for host in fabric.host_names[n::4]]
    return fs.job(
        name, hosts=hosts, collectives=[{"name": "dp", "op": "all_reduce", "ranks": range(16), "bytes": size}], **more
    )


def test_the_example_in_the_docstring_is_true() -> None:
    found = doctest.testmod(fs)
    assert found.attempted >= 5
    assert found.failed == 0


def test_a_plan_is_the_one_that_the_command_prints() -> None:
    fabric, job = fs.load_fabric(EXAMPLES / "clos-4x4x4.yaml"), fs.load_job(EXAMPLES / "gpt3-a.json")
    arguments = ["--fabric", str(EXAMPLES / "clos-4x4x4.yaml"), "--job", str(EXAMPLES / "gpt3-a.json")]
    printed = json.loads(CliRunner().invoke(app, ["plan", *arguments, "--format", "json"]).stdout)
    ours = fs.plan(fabric, [job]).document()
    assert {**ours, "seconds": 0} == {**printed, "seconds": 0}


def test_a_comparison_has_the_plan_of_each_policy_in_order(fabric: fs.Fabric) -> None:
    names = ("fair", "ecmp", "greedy")
    results = fs.compare(fabric, [ring(fabric)], names, seed=3)
    assert [result.policy for result in results] == list(names)
    for name, result in zip(names, results, strict=True):
        alone = fs.plan(fabric, [ring(fabric)], policy=name, seed=3)
        assert np.array_equal(result.path, alone.path)
        assert result.min_speed == alone.min_speed


def test_no_plan_beats_the_bound_and_levels_agree_with_speeds(fabric: fs.Fabric) -> None:
    jobs = [ring(fabric), ring(fabric, "b", 2e9)]
    limit = fs.bound(fabric, jobs)
    assert limit.split is not None
    for result in fs.compare(fabric, jobs, list(fs.policies())):
        assert result.min_level <= limit.split * (1 + 1e-6)
        assert result.min_speed == pytest.approx(np.nanmin(result.speed))
        assert len(result.speed) == len(result.collectives) == 2
        assert (result.link_gbps <= fabric.link_gbps * (1 + 1e-6)).all()


def test_results_are_frozen_and_their_arrays_cannot_be_written(fabric: fs.Fabric) -> None:
    result = fs.plan(fabric, [ring(fabric)])
    for array in (result.path, result.flow, result.share, result.speed, result.link_gbps, result.unroutable):
        assert not array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.fabric = fabric  # type: ignore[misc]


def test_a_plan_after_a_failure_keeps_the_paths_that_it_can(fabric: fs.Fabric) -> None:
    job = fs.job(
        "a",
        hosts=["h1", "h5", "h9", "h13"],
        collectives=[{"name": "dp", "op": "all_reduce", "ranks": [0, 1, 2, 3], "bytes": 1e9}],
    )
    before = fs.plan(fabric, [job])
    used = fabric.path_names[before.path[0]]
    failed = fabric.without_links([f"leaf1-{used}"])
    after = fs.plan(failed, [job], previous=before)
    assert after.min_speed == 1.0
    assert np.count_nonzero(after.path != before.path) <= 2


def test_a_simulation_of_a_lone_ring_takes_the_ideal_time_under_fair_and_longer_under_ecmp(fabric: fs.Fabric) -> None:
    fair = fs.simulate(fabric, [ring(fabric)], epochs=2, compute_seconds=0.01)
    assert fair.slowdown["a"] == pytest.approx(1.0)
    assert fair.seconds("a") == pytest.approx(np.full(2, fair.ideal_seconds["a"]))
    assert fs.simulate(fabric, [ring(fabric)], policy="ecmp", epochs=2).slowdown["a"] > 1.5
    network = fair.link_bytes[: fabric.n_hosts].sum()
    assert network == pytest.approx(2 * fs.traffic(fabric, [ring(fabric)]).bytes.sum())


def test_a_failure_in_a_simulation_slows_the_ring_down(fabric: fs.Fabric) -> None:
    healthy = fs.simulate(fabric, [ring(fabric)], epochs=3)
    failed = fs.simulate(fabric, [ring(fabric)], epochs=3, failures={healthy.finished / 3: ["spine1", "spine2"]})
    assert failed.finished > healthy.finished


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda fabric: fs.plan(fabric, [ring(fabric)], policy="fare"), "policy: 'fare': no policy has this name"),
        (lambda fabric: fs.compare(fabric, [ring(fabric)], ["fair", "x"]), "policy: 'x': no policy has this name"),
        (lambda fabric: fs.plan(fabric, [ring(fabric)], options={"max_split": 3}), "did you mean max_splits?"),
        (lambda fabric: fs.plan(fabric, [ring(fabric)], options={"rounds": "many"}), "option rounds: 'many'"),
        (lambda fabric: fs.plan(fabric, [ring(fabric), ring(fabric)]), "name: 'a': a previous job has this name"),
        (lambda fabric: fs.plan(fabric, [fs.job("j", hosts=["h99"], collectives=[])]), "h99"),
        (lambda _: fs.job("j", hosts=["h1"], collective=[]), "collective"),
        (lambda _: fs.fabric({"clos": {"spines": 0}}), "clos"),
        (lambda fabric: fs.simulate(fabric, [ring(fabric)], epochs=0), "epochs: 0: must be at least 1"),
        (lambda fabric: fs.simulate(fabric, [ring(fabric)], compute_seconds={"b": 1}), "compute_seconds: 'b'"),
        (lambda fabric: fs.simulate(fabric, [ring(fabric)], compute_seconds=-1), "compute_seconds.a: -1"),
        (lambda fabric: fs.simulate(fabric, [ring(fabric)], failures={1: ["x"]}), "failures[1]: 'x'"),
        (lambda fabric: fs.simulate(fabric, [ring(fabric)], allocation="best"), "allocation: 'best'"),
        (
            lambda fabric: fs.plan(fabric, [ring(fabric, **IN_TURN)], options={"max_splits": 3}),
            "qp_mode: 'round_robin'",
        ),
        (lambda fabric: fs.compare(fabric, [ring(fabric, **IN_TURN)], ["split"]), NOT_CUT),
        (lambda fabric: fs.simulate(fabric, [ring(fabric, **IN_TURN)], policy="split"), NOT_CUT),
        (lambda fabric: fs.plan(fabric, [ring(fabric, qps=10**9)]), "qps: 1000000000"),
        (lambda fabric: fs.htsim_matrix(fabric, [ring(fabric)], scale=0), "scale: 0"),
    ],
)
def test_wrong_input_is_an_error_that_names_field_and_value(fabric: fs.Fabric, call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(fs.InputError) as raised:
        call(fabric)
    assert said in str(raised.value)


def test_numpy_arrays_tuples_and_ranges_are_taken_as_lists(fabric: fs.Fabric) -> None:
    def job(ranks: object) -> fs.Job:
        call = {"name": "c", "op": "all_reduce", "ranks": ranks, "bytes": np.float64(1e9)}
        return fs.job("a", hosts=("h1", "h5", "h9", "h13"), collectives=[call])

    jobs = [job(ranks) for ranks in (list(range(4)), range(4), tuple(range(4)), np.arange(4))]
    assert len({fs.traffic(fabric, [each]).version for each in jobs}) == 1


def test_exports_are_read_back_by_the_importers(fabric: fs.Fabric, tmp_path: Path) -> None:
    (tmp_path / "a.topo").write_text(fs.htsim_topology(fabric))
    (tmp_path / "a.cm").write_text(fs.htsim_matrix(fabric, [ring(fabric)]))
    files, out = (
        [str(tmp_path / "a.topo"), str(tmp_path / "a.cm")],
        [str(tmp_path / "f.yaml"), str(tmp_path / "j.yaml")],
    )
    done = CliRunner().invoke(app, ["import", "htsim", *files, "--fabric-out", out[0], "--out", out[1]])
    assert done.exit_code == 0, done.output
    read = fs.load_fabric(out[0])
    assert read.host_names == fabric.host_names
    ours, theirs = (fs.traffic(fabric, [each]) for each in (ring(fabric), fs.load_job(out[1])))
    assert sorted(zip(ours.src, ours.dst, ours.bytes, strict=True)) == sorted(
        zip(theirs.src, theirs.dst, theirs.bytes, strict=True)
    )


def test_every_name_of_the_api_is_there() -> None:
    assert all(hasattr(fs, name) for name in fs.__all__)
