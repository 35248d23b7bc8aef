"""Where no folder for compiled kernels can be written, a temporary one is used, and the user is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from controller.compilation import ROOT

READ_ONLY = """
import os, sys
place = os.environ["PLACE"]
def refuse(event, arguments):
    # As file systems that are mounted read-only: nothing is written but in one folder.
    writes = event == "os.mkdir" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))
    if writes and not str(arguments[0]).startswith((place, "/dev/")):
        raise OSError(30, os.strerror(30), arguments[0])
sys.addaudithook(refuse)
"""
KERNEL = """
import numpy as np
from controller.routing.kernels.lookup import first_rows
from controller.routing.kernels.phases import group_total
print(group_total(np.ones(2), np.zeros(2, np.int32)))
print(group_total.stats.cache_path)
print(os.environ["NUMBA_CACHE_DIR"])
"""
COMMAND = "from controller.cli.main import main; main(sys.argv[1:])"


def run_read_only(program: str, place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that can write in one folder only."""
    variables = {"PLACE": str(place), "TMPDIR": str(place), "HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-B", "-c", READ_ONLY + program, *arguments],
        env=kept | variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def test_kernels_are_compiled_to_a_temporary_folder_that_is_told_and_removed(tmp_path: Path) -> None:
    done = run_read_only(KERNEL, tmp_path)
    assert done.returncode == 0, done.stderr
    _, path, passed_on = done.stdout.splitlines()
    assert Path(path).is_relative_to(passed_on)
    assert Path(passed_on).is_relative_to(tmp_path)
    (line,) = [line for line in done.stderr.splitlines() if "NUMBA_CACHE_DIR" in line]
    assert passed_on in line
    assert not list(tmp_path.iterdir())


def test_without_any_folder_there_is_one_line_that_says_what_to_set(tmp_path: Path) -> None:
    files = ("--fabric", "examples/clos-4x4x4.yaml", "--job", "examples/gpt3-a.json")
    done = run_read_only(COMMAND, tmp_path / "none", "plan", *files)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"fairspine: .*NUMBA_CACHE_DIR.*\n", done.stderr)


def test_doctor_names_the_folder_of_compiled_kernels_or_says_that_there_is_none(tmp_path: Path) -> None:
    def check(program: str) -> dict[str, str]:
        printed = json.loads(run_read_only(program, tmp_path, "doctor", "--format", "json").stdout)
        (row,) = [row for row in printed["checks"] if row["check"] == "compiled kernels"]
        return dict(row)

    none = check(COMMAND)
    assert (none["state"], "NUMBA_CACHE_DIR" in none["mend"]) == ("warning", True)
    kept = check("os.environ['NUMBA_CACHE_DIR'] = place\n" + COMMAND)
    assert kept["state"] == "ok"
    assert f"{tmp_path}/" in kept["found"]
