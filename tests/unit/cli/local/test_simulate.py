"""``fairspine simulate``: from a scenario file to tables, a report and exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from controller.cli.main import main
from tests.unit.emulation.evaluation.small import document


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Any:
    """Run with a scenario of these fields; exit code, standard output and standard error."""

    def call(*arguments: str, name: str = "s.json", **more: Any) -> tuple[object, str, str]:
        path = tmp_path / name
        path.write_bytes(orjson.dumps(document(**more)))
        with pytest.raises(SystemExit) as end:
            main(["simulate", "--scenario", str(path), "--out", str(tmp_path / "out"), *arguments])
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_a_scenario_gives_a_table_and_a_report(run: Any, tmp_path: Path) -> None:
    code, out, err = run(failed_spines=[0, 1], policies=["ecmp", "fair", "fair+split"])
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "1.000 (1.000)" in rows["fair"]
    assert [name in rows for name in ("ecmp", "fair+split", "report:")] == [True] * 3
    assert (tmp_path / "out" / "index.html").exists()
    assert not (tmp_path / "out" / "results").exists()


def test_json_has_the_standings_and_every_cell(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("--format", "json", "--policies", "greedy, spray")
    told = json.loads(out)
    assert code == 0
    assert [standing["policy"] for standing in told["standings"]] == ["greedy", "spray"]
    assert [cell["policy"] for cell in told["cells"]] == ["greedy", "spray"]
    assert Path(told["report"]).read_text().startswith("<!doctype html>")


def of_tenants(*names: str | None) -> dict[str, Any]:
    """Equal rings over the same leaves, one of each tenant, which send all the time."""
    jobs = [
        {
            "job": {
                "name": f"j{n}",
                "hosts": [f"h{n + 1}", f"h{n + 9}"],
                "collectives": [{"name": "c", "op": "all_reduce", "ranks": [0, 1], "bytes": 10**8}],
                **({} if tenant is None else {"tenant": tenant}),
            },
            "epochs": 4,
        }
        for n, tenant in enumerate(names)
    ]
    fabric = {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 8}, "tenants": {"a": 2, "b": 1}}
    return {"fabric": fabric, "cases": [{"name": "shared", "jobs": jobs}]}


def test_each_tenant_has_the_time_of_its_jobs_over_that_alone(run: Any, tmp_path: Path) -> None:
    code, out, err = run("--format", "json", "--policies", "fair", **of_tenants("a", "b", "b", None))
    assert (code, err) == (0, "")
    told = json.loads(out)
    rows = {row["tenant"]: row for row in told["tenants"]}
    assert {name: row["jobs"] for name, row in rows.items()} == {"a": 1, "b": 2}
    # Four flows of each direction share an uplink of the speed of a host, whosever they are.
    assert [row["iteration"] for row in rows.values()] == pytest.approx([4.0, 4.0])
    (cell,) = told["cells"]
    assert cell["tenants"]["b"] == {
        "jobs": 2,
        "iterations": 8,
        "bytes": 2 * cell["tenants"]["a"]["bytes"],
        "iteration": pytest.approx(4.0),
    }
    written = (tmp_path / "out" / "tenants.csv").read_text().splitlines()
    assert [line.split(",")[4] for line in written] == ["tenant", "a", "b"]
    code, out, _ = run("--policies", "fair", **of_tenants("a", "b", "b", None))
    assert code == 0
    assert "iteration time of tenants' jobs divided by that alone" in out


def test_without_tenants_nothing_is_said_of_them(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("--format", "json", "--policies", "fair", **of_tenants(None, None))
    told = json.loads(out)
    assert code == 0
    assert "tenants" not in told
    assert "tenants" not in told["cells"][0]
    assert not (tmp_path / "out" / "tenants.csv").exists()


def test_several_scenarios_make_one_report(run: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_bytes(orjson.dumps(document(name="other")))
    code, out, _ = run("--scenario", str(other), "--policies", "fair")
    assert code == 0
    assert "small, collective" in out
    assert "other, collective" in out
    code, _, err = run("--scenario", str(tmp_path / "s.json"))
    assert (code, "a previous scenario has this name" in err) == (2, True)


def test_a_quick_run_is_a_part_and_its_report_says_so(run: Any, tmp_path: Path) -> None:
    goal = {"policy": "ecmp", "at_most": {"none": 0.5}}
    code, out, err = run(
        "--quick", "--format", "json", epochs=9, seeds=[1, 2, 3], failed_spines=[0, 1, 2], targets=[goal]
    )
    assert (code, err) == (0, "note: small: 1 of 1 cases, 2 epochs per job, one seed\n")
    cells = json.loads(out)["cells"]
    assert [(cell["policy"], cell["failure"], cell["seed"]) for cell in cells] == [
        (policy, failure, 1) for failure in ("none", "1 spine") for policy in ("ecmp", "fair")
    ]
    assert {cell["epochs"] / cell["jobs"] for cell in cells} == {2}
    assert "1 of 1 cases, 2 epochs per job, one seed" in (tmp_path / "out" / "index.html").read_text()


def test_whole_simulations_are_kept_if_asked_for(run: Any, tmp_path: Path) -> None:
    assert run("--policies", "fair", "--results")[0] == 0
    (folder,) = (tmp_path / "out" / "results").iterdir()
    assert (folder / "results.json").exists()
    assert (folder / "flows.parquet").exists()


def test_a_job_that_never_gets_a_path_is_a_failure_after_the_report(run: Any, tmp_path: Path) -> None:
    code, _, err = run("--policies", "fair", changes=[{"at": 0.0, "names": ["leaf1"]}])
    assert (code, err.count("\n")) == (1, 1)
    assert "a path that never became available" in err
    assert (tmp_path / "out" / "index.html").exists()


def test_targets_are_reported_and_a_missed_one_is_a_failure_after_the_report(run: Any, tmp_path: Path) -> None:
    goal = {"policy": "fair", "at_most": {"none": 1.0}}
    code, out, err = run(targets=[goal])
    assert (code, err) == (0, "")
    assert "fair, mean" in out
    code, out, err = run("--format", "json", targets=[goal, {"policy": "ecmp", "at_most": {"none": 1.0}}])
    assert (code, err.count("\n")) == (1, 1)
    assert "1 of 2 targets were not reached" in err
    assert [verdict["reached"] for verdict in json.loads(out)["targets"]] == [True, False]
    assert (tmp_path / "out" / "targets.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--policies", "fairest"], "no policy has this name"),
        (["--backend", "slurm"], "--backend: 'slurm': there are local, dask"),
        (["--backend", "dask"], "require each other"),
        (["--scheduler", "tcp://127.0.0.1:8786"], "require each other"),
        (["--scenario", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_run(run: Any, tmp_path: Path, arguments: list, reason: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("module", "extra", "arguments"),
    [
        ("matplotlib.figure", "", []),
        ("joblib", "", ["--workers", "2"]),
        ("pyarrow.parquet", "", ["--results"]),
        ("distributed", "[cluster]", ["--backend", "dask", "--scheduler", "tcp://127.0.0.1:9"]),
    ],
)
def test_what_is_not_installed_is_reported_before_anything_is_run(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, arguments: list[str]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    code, out, err = run(*arguments)
    assert (code, out) == (1, "")
    assert err == f"fairspine: {module} is not installed: pip install 'fairspine{extra}'\n"
    assert not (tmp_path / "out").exists()


def test_help_has_an_example(run: Any) -> None:
    assert "Example: fairspine simulate --scenario" in " ".join(run("--help")[1].split())


def test_a_folder_that_cannot_be_written_is_reported(run: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    code, _, err = run("--policies", "fair")
    assert (code, err.count("\n")) == (2, 1)
    assert str(tmp_path / "out") in err
    assert "Errno" not in err
