"""``fairspine export``, and what ``fairspine import`` makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controller.cli.main import main
from controller.model.fabric_file import load_fabric

EXAMPLES = Path(__file__).parents[3] / "examples"
FABRIC = EXAMPLES / "clos-4x4x4.yaml"
JOB = EXAMPLES / "gpt3-a.json"


def _run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[object, str, str]:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0, *capsys.readouterr()


def test_an_exported_fabric_imports_as_the_same_fabric(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shape, again = tmp_path / "clos.topo", tmp_path / "clos.yaml"
    assert _run(capsys, "export", "htsim-topo", "--fabric", FABRIC, "--latency", "7", "--out", shape) == (0, "", "")
    assert shape.read_text().count("Downlink_Latency_ns 7\n") == 2
    code, _, _ = _run(capsys, "import", "htsim", shape, "--fabric-out", again, "--out", tmp_path / "job.json")
    assert (code, load_fabric(again).version) == (0, load_fabric(FABRIC).version)


def test_an_exported_job_imports_with_the_same_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    matrix, job = tmp_path / "jobs.cm", tmp_path / "job.json"
    arguments = ("export", "htsim-cm", "--fabric", FABRIC, "--job", JOB, "--scale", "0.5")
    code, printed, _ = _run(capsys, *arguments)
    assert code == 0
    assert _run(capsys, *arguments, "--out", matrix) == (0, "", "")
    assert matrix.read_text() == printed
    assert _run(capsys, "import", "htsim", matrix, "--fabric", FABRIC, "--out", job)[0] == 0
    plans = [
        json.loads(_run(capsys, "plan", "--fabric", FABRIC, "--job", file, "--format", "json")[1])
        for file in (JOB, job)
    ]
    ends = [sorted((flow["id"], flow["src"], flow["dst"]) for flow in plan["flows"]) for plan in plans]
    assert ends[0] == ends[1]
    assert plans[0]["min_speed"] == pytest.approx(plans[1]["min_speed"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["htsim-cm", "--fabric", FABRIC, "--job", JOB, "--out", "/no/such/folder/a.cm"], "cannot be written"),
        (["htsim-cm", "--fabric", FABRIC, "--job", "/no/such/job"], "cannot be read"),
        (["htsim-topo", "--fabric", "/no/such/fabric"], "cannot be read"),
    ],
)
def test_what_cannot_be_exported_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str | Path], reason: str
) -> None:
    code, out, err = _run(capsys, "export", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert reason in err
