"""The controller of an experiment: how long what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from emulation.controller_process import ANSWERS_SECONDS
from emulation.experiments import control
from emulation.experiments.control import ExperimentController
from emulation.experiments.request import Draw, ExperimentRequest
from emulation.lab.base import BaseLab


class Nowhere:
    """A lab that starts nothing."""

    def spawn(self) -> None:
        raise AssertionError


class Waiting:
    """A controller that needs some seconds until it answers, and whose network is then as intended at once."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def start(self, *, wait: bool) -> Waiting:
        assert not wait
        return self

    def answers(self) -> bool:
        return True

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float) -> None:
        del what
        if ready == self.answers:
            assert self._seconds < timeout


def test_a_controller_may_compile_its_kernels_before_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiling = Waiting(4 * ANSWERS_SECONDS)
    monkeypatch.setattr(control, "ControllerProcess", lambda *_, **__: compiling)
    request = ExperimentRequest(tmp_path / "fabric.yaml", (), out=tmp_path)
    ExperimentController(cast(BaseLab, Nowhere()), request, Draw("fair", 1)).wait_ready()
