"""A format of another distribution: found by its entry point, used by the commands, and kept apart where it is broken.

Each test runs commands in a process of its own, which sees the distribution as installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PLUGIN = ROOT / "examples" / "importer-plugin"
TRAFFIC = "sender,receiver,bytes\n0,1,700\n1,2,500\n"


def _installed(folder: Path, entries: str) -> Path:
    """A folder of packages with the example and what pip writes about it."""
    site = folder / "site"
    shutil.copytree(PLUGIN / "fairspine_csv_matrix", site / "fairspine_csv_matrix")
    about = site / "fairspine_csv_matrix-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fairspine-csv-matrix\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[fairspine.importers]\n{entries}\n")
    return site


def _run(site: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "controller.cli.main", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    file = tmp_path / "traffic.csv"
    file.write_text(TRAFFIC)
    return file


def test_an_installed_format_is_imported_and_guessed(tmp_path: Path, traffic: Path) -> None:
    site = _installed(tmp_path, "csv-matrix = fairspine_csv_matrix")
    fabric, out = ROOT / "examples/clos-4x4x4.yaml", tmp_path / "job.json"
    done = _run(site, "import", "csv-matrix", traffic, "--fabric", fabric, "--out", out, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["ranks"] == 3
    flows = json.loads(out.read_text())["flows"]
    assert [(row["src"], row["dst"], row["bytes"]) for row in flows] == [("h1", "h2", 700), ("h2", "h3", 500)]
    guessed = json.loads(_run(site, "import", "--guess", traffic, "--format", "json").stdout)
    assert [(row["format"], row["holds"]) for row in guessed] == [("csv-matrix", "a traffic matrix (CSV)")]
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(TRAFFIC + "2,2,1\n")
    refused = _run(site, "import", "csv-matrix", wrong)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{wrong}: line 4: " in refused.stderr


def test_a_broken_plugin_is_reported_when_it_is_used_and_affects_nothing_more(tmp_path: Path, traffic: Path) -> None:
    site = _installed(tmp_path, "csv-matrix = fairspine_csv_matrix\nbroken = no_such_module\nnccl = no_such_module")
    guessed = _run(site, "import", "--guess", traffic, ROOT / "examples/goal/two-layers.goal", "--format", "json")
    assert [row["format"] for row in json.loads(guessed.stdout)] == ["csv-matrix", "goal"]
    asked = _run(site, "import", "broken", traffic)
    assert asked.returncode == 2
    assert asked.stderr.startswith("fairspine: format: 'broken': the plug-in no_such_module cannot be loaded: ")
    # Nobody takes the place of a format that comes with the project.
    own = _run(site, "import", "nccl", *sorted((ROOT / "examples/nccl").glob("rank*.log")))
    assert own.returncode == 0


def test_without_the_distribution_the_format_is_not_there(tmp_path: Path, traffic: Path) -> None:
    done = _run(tmp_path, "import", "csv-matrix", traffic)
    assert done.returncode == 2
    assert "no format has this name; there are nccl, nccl-tests," in done.stderr
