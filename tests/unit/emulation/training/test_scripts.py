"""Training scripts are checked before anything starts, and lines of their output are steps or are not."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.model.errors import InputError
from emulation.training.scripts import Script, StepLine, script_of, step_line
from tests.documented import ROOT

numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.integers(min_value=0), numbers, st.none() | numbers)
def test_every_reported_step_is_read_as_it_was_written(step: int, seconds: float, loss: float | None) -> None:
    values = {"step": step, "seconds": seconds} | ({} if loss is None else {"loss": loss})
    assert step_line(json.dumps(values)) == StepLine(step, seconds, loss)


@given(st.text() | st.dictionaries(st.text(), st.integers()).map(json.dumps))
def test_any_other_line_is_no_step(line: str) -> None:
    assert step_line(line) is None


@pytest.mark.parametrize(
    "line", ['{"step": 1.5, "seconds": 1}', '{"step": true, "seconds": 1}', '{"step": 1, "seconds": "1"}', "{"]
)
def test_a_step_of_the_wrong_kind_is_no_step(line: str) -> None:
    assert step_line(line) is None


def test_a_loss_that_diverged_is_a_loss() -> None:
    line = step_line('{"step": 0, "seconds": 1, "loss": NaN}')
    assert line is not None
    assert line.loss is not None
    assert math.isnan(line.loss)


def test_a_script_and_its_arguments_are_a_command(tmp_path: Path) -> None:
    (tmp_path / "beside.py").touch()
    script = tmp_path / "train.py"
    script.write_text("import json\nimport beside\nfrom . import nothing\n")
    assert script_of(f"'{script}' --width 3") == Script((sys.executable, str(script), "--width", "3"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import no_framework.x as y\n", "imports no_framework, which is not installed: pip install no_framework"),
        ("from no_framework import x\n", "imports no_framework"),
        ("def (", "is no Python"),
        ("\0", "is no Python"),
    ],
)
def test_a_script_that_cannot_run_here_is_refused_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(text)
    with pytest.raises(InputError, match=reason) as refused:
        script_of(str(script))
    assert refused.value.field == "--script"
    assert refused.value.value == str(script)


def test_the_extra_is_named_where_jax_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None if package == "jax" else package)
    with pytest.raises(InputError, match=r"imports jax, .*fairspine\[training\].*make setup-training"):
        script_of(str(ROOT / "examples/training/mlp.py"))


def test_a_script_that_imports_mpi_somewhere_is_started_by_mpirun_if_there_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = str(ROOT / "examples/training/mlp_mpi.py")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: package)
    monkeypatch.setattr("shutil.which", lambda program: program)
    assert script_of(text).uses_mpi
    monkeypatch.setattr("shutil.which", lambda program: None)
    with pytest.raises(InputError, match=r"imports mpi4py, which needs OpenMPI: apt-get install openmpi-bin"):
        script_of(text)


@pytest.mark.parametrize("text", ["", "'", "/nowhere/train.py"])
def test_what_names_no_file_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        script_of(text)
