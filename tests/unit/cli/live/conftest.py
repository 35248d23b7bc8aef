"""A controller with answers that are laid out, and a command that asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.cli.main import main
from tests.unit.cli.fake_controller import Controller, serving

Run = Callable[..., tuple[object, str, str]]


@pytest.fixture
def controller() -> Iterator[Controller]:
    one = Controller()
    with serving(one):
        yield one


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, controller: Controller
) -> Run:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("FAIRSPINE_URL", controller.url)

    def call(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            main(arguments)
        return end.value.code or 0, *capsys.readouterr()

    return call
