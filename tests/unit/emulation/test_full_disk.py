"""Files of experiments and evaluations on a disk that becomes full: whole or not at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import pytest

from controller.model.errors import InputError
from controller.whole_file import write_bytes
from emulation.evaluation.report import write_report
from emulation.evaluation.sweep import Finished
from emulation.experiments import command, picture, scenario_command
from emulation.experiments import run as experiment_run
from tests.unit.emulation.evaluation.report_rows import row
from tests.unit.emulation.experiments.agreement_experiments import experiments
from tests.unit.emulation.experiments.made import outcome_of, ring, scenario_of


class FullDisk:
    """An open file that takes some bytes, and then no more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __enter__(self) -> FullDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def writelines(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._file.write(part[: len(part) // 2])
            self._file.flush()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function after whose call every file that is opened is on a full disk."""
    opened = os.fdopen

    def fill() -> None:
        monkeypatch.setattr("controller.whole_file.os.fdopen", lambda handle, mode: FullDisk(opened(handle, "wb")))

    return fill


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_picture(folder: Path) -> None:
    inputs = folder.with_name("inputs")
    inputs.mkdir(exist_ok=True)
    scenario = scenario_of(
        inputs, "{spines: 2, leaves: 2, hosts_per_leaf: 1}", [ring("a", ["h1", "h2"])], policies=("ecmp",)
    )
    picture.draw(outcome_of(scenario, {"ecmp": {"a": 9.0}}), folder / "a.png")


def write_inputs(folder: Path) -> None:
    for experiment in experiments(folder)[0]:
        experiment.write()


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: write_report(folder, [row()], []),
        lambda folder: scenario_command._write(folder, [], []),
        lambda folder: Finished(folder).write("key", row()),
        write_picture,
        write_inputs,
    ],
    ids=["report", "agreement", "cell", "picture", "inputs"],
)
def test_a_full_disk_leaves_each_file_as_it_was_and_is_told(
    write: Callable[[Path], object], tmp_path: Path, full_disk: Callable[[], None]
) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    new.mkdir()
    old.mkdir()
    write(old)
    before = contents(old)
    full_disk()
    for folder in (new, old):
        with pytest.raises(InputError, match="No space left on device; free some space or choose another place"):
            write(folder)
    assert contents(new) == {}
    assert contents(old) == before


def test_an_experiment_that_cannot_write_its_results_ends_with_one_line(
    tmp_path: Path,
    full_disk: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    scenario = scenario_of(
        tmp_path, "{spines: 2, leaves: 2, hosts_per_leaf: 1}", [ring("a", ["h1", "h2"])], policies=("ecmp",)
    )
    outcome = outcome_of(scenario, {"ecmp": {"a": 9.0}})
    monkeypatch.setattr(experiment_run, "run", lambda *_: outcome)
    scenario.request.out.mkdir()
    full_disk()
    assert command.main([scenario.request.to_json(), "none"]) == 1
    assert "No space left on device; free some space" in capsys.readouterr().err
    assert contents(scenario.request.out) == {}


def test_the_full_disk_of_these_tests_takes_a_part(tmp_path: Path, full_disk: Callable[[], None]) -> None:
    write_bytes(tmp_path / "a", [b"whole"])
    full_disk()
    with pytest.raises(InputError):
        write_bytes(tmp_path / "a", [b"changed"])
    assert (tmp_path / "a").read_bytes() == b"whole"
