"""A command that asks the controller of the test."""

from __future__ import annotations

import pytest

from tests.unit.cli.fake_controller import Controller
from tests.unit.cli.running import Run


@pytest.fixture
def run(run: Run, monkeypatch: pytest.MonkeyPatch, controller: Controller) -> Run:
    monkeypatch.setenv("FAIRSPINE_URL", controller.url)
    return run
