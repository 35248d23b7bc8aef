"""The screen of the tests of commands, a command, and a controller with answers that are laid out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli.main import main
from tests.unit.cli.fake_controller import Controller, serving
from tests.unit.cli.running import Outcome, Run


@pytest.fixture(autouse=True)
def wide_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every command a screen on which nothing is left out; tests of small screens set another one."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("LINES", "60")


@pytest.fixture
def controller() -> Iterator[Controller]:
    one = Controller()
    with serving(one):
        yield one


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command of a user without a config file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def call(*arguments: str) -> Outcome:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return Outcome(end.value.code or 0, *capsys.readouterr())

    return call
