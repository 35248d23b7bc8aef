"""``fairspine referee --htsim``: another simulator, here a program in its place, beside the packet engine."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.cli.main import main

SCENARIO: dict[str, Any] = {
    "name": "small",
    "fabric": {"clos": {"spines": 2, "leaves": 2, "hosts_per_leaf": 4}},
    "cases": [
        {
            "name": "rings",
            "collective": {
                "algorithms": "ring",
                "bytes": 400_000,
                "groups": 2,
                "each_a_job": True,
                "order": "random",
            },
        }
    ],
    "policies": ["fair"],
    "epochs": 1,
}

PROGRAM = """#!{python}
# Prints what htsim_uec prints: connection n ends after 100 + n us, under reps after 50 + n us.
import re, sys
words = dict(zip(sys.argv[2::2], sys.argv[3::2]))
assert sys.argv[1] == "-sender_cc_only"
assert open(words["-topo"]).read().startswith("Nodes 8\\nTiers 2")
matrix = open(words["-tm"]).read()
first = 50 if words["-load_balancing_algo"] == "reps" else 100
numbers = [int(number) for number in re.findall(r"->\\d+ id (\\d+)", matrix)]
print("Starting simulation")
for number in numbers:
    print(f"Flow Uec_0_1 flowId {{number}} uecSrc 0 starting at 0")
    {line}
print("Done")
print(f"New: 990 Rtx: 10 RTS: 0 Bounced: 0 ACKs: {{len(numbers)}} NACKs: 0 Pulls: 0 sleek_pkts: 0")
{end}
"""

FINISHED = (
    'print(f"Flow Uec_0_1 flowId {number} uecSrc 0 finished at {first + number} total messages 1 total packets 2")'
)


def program(folder: Path, line: str = FINISHED, end: str = "") -> Path:
    """Write a program in the place of htsim_uec."""
    file = folder / "htsim_uec"
    file.write_text(PROGRAM.format(python=sys.executable, line=line, end=end))
    file.chmod(0o755)
    return file


def run(tmp_path: Path, *options: str, scenario: dict[str, Any] = SCENARIO) -> int:
    """Run the command on a scenario, and return its exit code."""
    file = tmp_path / "scenario.yaml"
    file.write_text(yaml.safe_dump(scenario))
    few = ("--sprayings", "random", "--tolerance", "9", "--hosts-tolerance", "9", "--out", str(tmp_path / "out"))
    try:
        main(["referee", "--scenario", str(file), *few, *options])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_its_sprayings_stand_beside_ours_over_the_same_ideal_and_the_best_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = program(tmp_path)
    options = ("--htsim", str(file), "--htsim-balancing", "oblivious,reps,ecmp", "--format", "json", "--keep")
    assert run(tmp_path, *options) == 0
    document = json.loads(capsys.readouterr().out)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    assert f"htsim_uec: {file}, SHA-256 {digest}" in document["engine"]
    names = [each["policy"] for each in document["standings"]]
    assert names[-3:] == ["oblivious, htsim_uec", "reps, htsim_uec", "ecmp, htsim_uec"]
    assert [bout["policy"] for bout in document["htsim"]] == names[-3:]
    # Two rings of 4: each has 4 hosts that send 6 steps, and the second one the later numbers.
    for bout, first in zip(document["htsim"], (100, 50, 100), strict=True):
        seconds = [job["packets_seconds"] for job in bout["jobs"]]
        assert seconds == pytest.approx([(first + 24) * 1e-6, (first + 48) * 1e-6, (first + 48) * 1e-6])
        assert bout["jobs"][-1]["packets_over_best_spraying"] == pytest.approx((first + 48) / 98)
        assert (bout["packets"], bout["sent_again"]) == (1000, 10)
    ours = document["bouts"][0]["jobs"][-1]
    ideal = ours["packets_seconds"] / ours["packets_over_ideal"]
    assert document["htsim"][0]["jobs"][-1]["packets_over_ideal"] == pytest.approx(148e-6 / ideal)
    kept = tmp_path / "out" / "inputs" / "htsim-0002"
    assert sorted(path.name for path in kept.iterdir()) == ["command.txt", "fabric.topo", "jobs.cm", "output.txt"]
    command = (kept / "command.txt").read_text()
    assert "-load_balancing_algo oblivious -paths 1 " in command
    assert " -linkspeed 100000 " in command
    page = (tmp_path / "out" / "referee.html").read_text()
    assert "reps, htsim_uec" in page
    assert digest in page


def test_a_program_in_the_path_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert run(tmp_path, "--htsim", "htsim_uec", "--htsim-balancing", "mixed", "--wide") == 0
    assert "mixed, htsim_uec" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "end", "message"),
    [
        ("number > 3 and " + FINISHED, "", "has not ended 3 of 48 connections, the first is 1"),
        (FINISHED, 'sys.exit("no such topology")', "htsim_uec has failed with 1: no such topology"),
    ],
)
def test_what_goes_wrong_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, end: str, message: str
) -> None:
    assert run(tmp_path, "--htsim", str(program(tmp_path, line, end))) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"failed_spines": [1]}, (), "htsim_uec takes no failed links"),
        ({"changes": [{"at": 0.1, "names": ["spine1"]}]}, (), "htsim_uec takes no failed links"),
        ({"epochs": 2}, (), "simulates one iteration"),
        ({"slow": [{"names": "leaf1-spine1", "part": 0.5}]}, (), "scenario.yaml: "),
        ({}, ("--htsim-balancing", "best"), "--htsim-balancing: 'best': there are oblivious, bitmap, reps, mixed"),
        ({}, ("--htsim", "no-such-program"), "--htsim: 'no-such-program': there is no such program"),
    ],
)
def test_what_it_cannot_simulate_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], options: tuple[str, ...], message: str
) -> None:
    chosen = options if "--htsim" in options else ("--htsim", str(program(tmp_path)), *options)
    assert run(tmp_path, *chosen, scenario={**SCENARIO, **change}) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "referee.html").exists()
