"""``fairspine referee``: a scenario on packets, beside the fluid simulator."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli.main import main
from emulation import needs
from emulation.packets import referee
from emulation.packets.engine import run_packets
from emulation.packets.program import NOT_BUILT, VARIABLE

SCENARIO: dict[str, Any] = {
    "name": "small",
    "fabric": {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 4}},
    "cases": [
        {
            "collective": {
                "algorithms": "ring",
                "bytes": 1_000_000,
                "groups": 2,
                "each_a_job": True,
                "order": "random",
                "seed": [1, 2],
            }
        }
    ],
    "policies": ["fair", "spray"],
    "epochs": 1,
}


def run(tmp_path: Path, *options: str, scenario: dict[str, Any] = SCENARIO) -> int:
    """Run the command on a scenario, and return its exit code."""
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    try:
        main(["referee", "--scenario", str(file), "--out", str(tmp_path / "out"), *options])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_each_policy_runs_with_and_without_paces_beside_all_sprayings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--format", "json", "--tolerance", "0.1", "--hosts-tolerance", "1") == 0
    document = json.loads(capsys.readouterr().out)
    names = ["fair", "fair+paced", "spray random", "spray round robin", "spray adaptive", "spray reps"]
    assert [each["policy"] for each in document["standings"]] == names
    assert [each["cases"] for each in document["standings"]] == [2] * 6
    bouts = document["bouts"]
    assert [(bout["case"][-6:], bout["policy"]) for bout in bouts] == [(f"seed {s}", n) for s in (1, 2) for n in names]
    for case in ("seed 1", "seed 2"):
        own = [bout for bout in bouts if bout["case"].endswith(case)]
        slowest = {bout["policy"]: bout["jobs"][-1] for bout in own}
        best = min(times["packets_seconds"] for name, times in slowest.items() if name.startswith("spray"))
        assert min(
            t["packets_over_best_spraying"] for n, t in slowest.items() if n.startswith("spray")
        ) == pytest.approx(1)
        assert slowest["fair"]["packets_over_best_spraying"] == pytest.approx(slowest["fair"]["packets_seconds"] / best)
    page = (tmp_path / "out" / "referee.html").read_text()
    assert page.count("data:image/png") == 3
    assert all(f"<td>{name}</td>" in page for name in names)


def test_windows_and_meters_in_place_of_paces_are_named_in_rows_and_in_the_sentence_on_the_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = ("--quick", "--sprayings", "random", "--format", "json", "--tolerance", "9", "--hosts-tolerance", "9")
    for option, value, name in (("--pace-window", "1.5", "fair+windows"), ("--meters", "0.5", "fair+meters")):
        assert run(tmp_path, option, value, *wide) == 0
        document = json.loads(capsys.readouterr().out)
        assert [each["policy"] for each in document["standings"]] == ["fair", name, "spray random"]
        assert f"{name.removeprefix('fair+')} of {value}" in document["engine"]
    assert run(tmp_path, "--meters", "1", "--pace-window", "1", *wide) == 2
    assert "one of --meters and --pace-window" in capsys.readouterr().err


def test_published_figures_stand_below_ours_with_their_sources(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = {"name": "theirs", "source": "a paper, table 1", "ratio": {"none": 1.25}, "ratio_worst": {"none": 1.5}}
    scenario = {**SCENARIO, "references": [theirs], "policies": ["fair"]}
    tolerances = ("--tolerance", "9", "--hosts-tolerance", "9")
    assert run(tmp_path, "--sprayings", "random", "--wide", *tolerances, scenario=scenario) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.strip().startswith("theirs "))
    assert line.split() == ["theirs", "1.250", "(1.500)", "-", "-", "-", "-"]
    assert "theirs: a paper, table 1" in out
    page = (tmp_path / "out" / "referee.html").read_text()
    assert "<td>1.250 (1.500)</td>" in page
    assert "<p>theirs: a paper, table 1</p>" in page


def test_a_deviation_above_the_tolerance_ends_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--sprayings", "adaptive", "--tolerance", "0", "--hosts-tolerance", "0") == 1
    assert "in 4 of 4 runs of plans" in capsys.readouterr().err


def test_a_run_that_is_stopped_reports_the_cases_that_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []

    def stopping(*given: Any, **options: Any) -> Any:
        runs.append("run")
        if len(runs) > 4:
            raise KeyboardInterrupt
        return run_packets(*given, **options)

    monkeypatch.setattr(referee, "run_packets", stopping)
    assert (
        run(tmp_path, "--sprayings", "random", "--format", "json", "--tolerance", "9", "--hosts-tolerance", "9") == 130
    )
    printed = capsys.readouterr()
    assert [bout["policy"] for bout in json.loads(printed.out)["bouts"]] == ["fair", "fair+paced", "spray random"]
    assert "stopped; the report has the 3 simulations of whole cases" in printed.err
    assert (tmp_path / "out" / "referee.html").exists()


def test_inputs_are_kept_and_repeat_the_run(tmp_path: Path) -> None:
    run(tmp_path, "--quick", "--keep", "--sprayings", "random", "--tolerance", "9", "--hosts-tolerance", "9")
    folders = sorted((tmp_path / "out" / "inputs").iterdir())
    assert [folder.name for folder in folders] == ["0000", "0001", "0002"]
    assert all((folder / "input.txt").stat().st_size and (folder / "answers.txt").stat().st_size for folder in folders)


def test_a_lab_that_is_not_possible_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(needs, "missing", lambda: "run it as root")
    assert run(tmp_path, "--lab") == 1
    assert capsys.readouterr().err.splitlines()[-1] == "fairspine: run it as root"
    large = {**SCENARIO, "fabric": {"clos": {"spines": 1, "leaves": 2, "hosts_per_leaf": 33}}}
    assert run(tmp_path, "--lab", scenario=large) == 2
    message = "scenario.yaml: fabric: 66: one machine emulates at most 64 hosts"
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "referee.html").exists()


@pytest.mark.parametrize(("engine", "packages"), [("own", "g++"), ("ns3", "g++ libns3-dev")])
def test_without_the_engine_one_line_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: str, packages: str
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    assert run(tmp_path, "--engine", engine) == 1
    assert capsys.readouterr().err.splitlines() == [f"fairspine: {NOT_BUILT.format(packages)}"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"jitter": 0.1}, (), "jitter: 0.1: the packet engine has no such deviation"),
        ({"policies": ["least_loaded"]}, (), "policies: 'least_loaded': the packet engine has no such policy"),
        ({}, ("--sprayings", "up"), "--sprayings: 'up': there are pinned, random"),
        ({}, ("--sprayings", "pinned"), "--sprayings: 'pinned': does not spray"),
        ({}, ("--control", "cubic"), "--control: 'cubic': there are dctcp, window"),
        ({}, ("--engine", "htsim"), "--engine: 'htsim': there are own, ns3"),
    ],
)
def test_what_it_cannot_simulate_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], options: tuple[str, ...], message: str
) -> None:
    assert run(tmp_path, *options, scenario={**SCENARIO, **change}) == 2
    assert message in capsys.readouterr().err


def test_computing_and_failed_links_are_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = {
        **SCENARIO,
        "fabric": {"clos": {"spines": 3, "leaves": 2, "hosts_per_leaf": 2}},
    }
    scenario["cases"] = [
        {
            "jobs": [
                {
                    "job": {
                        "name": "a",
                        "hosts": ["h1", "h3", "h2", "h4"],
                        "collectives": [
                            {"name": "c", "op": "all_to_all", "ranks": [0, 1, 2, 3], "bytes": 1_000_000},
                        ],
                    },
                    "compute_seconds": 0.0002,
                    "epochs": 3,
                }
            ]
        }
    ]
    scenario["changes"] = [{"at": 0.0003, "names": ["spine1"]}]
    options = ("--format", "json", "--sprayings", "random", "--tolerance", "9", "--hosts-tolerance", "9")
    assert run(tmp_path, *options, scenario=scenario) == 0
    for bout in json.loads(capsys.readouterr().out)["bouts"]:
        assert bout["jobs"][0]["packets_seconds"] > 0.0002
        assert math.isfinite(bout["jobs"][0]["deviation_from_fluid"])


def test_chosen_classes_are_held_to_packets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two jobs share one link, compute as long as they send, and begin half a sending apart.

    Without classes they never find their gap on packets, which are always lost alike, but do in the fluid model of
    hosts, in which luck decides whose packets are lost.
    """
    jobs = [
        {
            "job": {"name": name, "flows": [{"src": f"h{at}", "dst": f"h{at + 4}", "bytes": 12_000_000}]},
            "compute_seconds": 0.001,
            "epochs": 20,
            "start": start,
        }
        for name, at, start in (("a", 1, 0.0), ("b", 2, 0.0005))
    ]
    policies = ["fair", {"policy": "fair", "name": "classed", "options": {"classes": 2}}]
    scenario = {**SCENARIO, "cases": [{"jobs": jobs}], "policies": policies}
    options = ("--format", "json", "--sprayings", "random", "--tolerance", "0.4", "--hosts-tolerance", "0.4")
    assert run(tmp_path, *options, scenario=scenario) == 0
    slowest = {bout["policy"]: bout["jobs"][-1] for bout in json.loads(capsys.readouterr().out)["bouts"]}
    for name in ("classed", "classed+paced"):
        assert slowest[name]["packets_seconds"] == pytest.approx(0.002, rel=0.05)
    assert slowest["fair"]["packets_seconds"] > 0.002 * 1.2


def test_jobs_that_overlap_take_as_long_on_packets_as_in_the_fluid_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each job ``ep`` waits for the computing, which is as long as ``dp`` takes alone; one of them shares a link."""
    jobs = [
        {
            "job": {
                "name": name,
                "compute_seconds": 0.0004,
                "flows": [
                    {"src": f"h{at}", "dst": f"h{at + 4}", "bytes": 4_000_000, "collective": "ep"},
                    {"src": f"h{at + 1}", "dst": f"h{at + 5}", "bytes": 5_000_000, "collective": "dp"},
                ],
                "overlap": {"dp": "compute"},
            },
            "epochs": 3,
        }
        for name, at in (("a", 1), ("b", 3))
    ]
    fabric = {"clos": {"spines": 3, "leaves": 2, "hosts_per_leaf": 4}}
    scenario = {**SCENARIO, "fabric": fabric, "cases": [{"jobs": jobs}], "policies": ["fair", "spray"]}
    options = ("--format", "json", "--sprayings", "random", "--tolerance", "0.15", "--hosts-tolerance", "0.15")
    assert run(tmp_path, *options, scenario=scenario) == 0
    bouts = json.loads(capsys.readouterr().out)["bouts"]
    for bout in bouts:
        for row in bout["jobs"]:
            least = (0.0004 + 0.00032) * 0.999  # computing, and after it 4 MB at 100 Gbit/s
            assert row["packets_seconds"] > least
            assert row["fluid_seconds"] > least
