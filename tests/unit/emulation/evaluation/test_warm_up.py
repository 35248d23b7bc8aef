"""Set-up compiles the kernels of the simulator, so that no simulation of a user waits for the compiler."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest

from emulation.evaluation import warm_up
from emulation.evaluation.cell import run_cell
from emulation.evaluation.warm_up import compile_in_parallel, warm
from emulation.fluid import engine, heap, sharing
from tests.unit.emulation.evaluation.small import scenario

KERNELS = {
    f"{module.__name__}.{name}": kernel
    for module in (engine, heap, sharing)
    for name, kernel in vars(module).items()
    if hasattr(kernel, "nopython_signatures")
}


def compiled() -> dict[str, int]:
    """Count the signatures that each kernel is compiled for."""
    return {name: len(kernel.nopython_signatures) for name, kernel in KERNELS.items()}


def test_after_warming_up_no_kernel_is_compiled_by_any_simulation() -> None:
    warm()
    before = compiled()
    assert len(before) > 10
    cells = scenario(
        failed_spines=[0, 1],
        policies=["fair", "fair+split", "spray"],
        allocation=["flow", "paced", "collective"],
        changes=[{"at": 0.001, "names": ["spine2"]}, {"at": 0.004, "names": ["spine2"], "up": True}],
        bins=0.01,
    ).cells()
    assert len(cells) > 10
    for cell in cells:
        run_cell(cell)
    assert compiled() == before


def test_set_up_warms_up() -> None:
    script = (Path(__file__).parents[4] / "scripts" / "setup.sh").read_text()
    assert '"$venv/bin/fairspine" warm-up' in script


def _fails() -> None:
    os._exit(1)


def _hangs_until_it_is_ended() -> None:
    multiprocessing.Event().wait()


def test_the_second_process_ends_with_its_work() -> None:
    others = set(multiprocessing.active_children())
    compile_in_parallel()
    assert set(multiprocessing.active_children()) <= others


def test_a_second_process_that_fails_leaves_its_work_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_compile_second_half", _fails)
    done: list[str] = []
    # The test above does this part's work.
    monkeypatch.setattr(warm_up, "warm_up_plans", lambda *, timed: done.append("half"))
    monkeypatch.setattr(warm_up, "warm", lambda: done.append("all"))
    compile_in_parallel()
    assert done == ["half", "all"]


def test_ctrl_c_ends_the_second_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*, timed: bool) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(warm_up, "_compile_second_half", _hangs_until_it_is_ended)
    monkeypatch.setattr(warm_up, "warm_up_plans", interrupted)
    others = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        compile_in_parallel()
    for child in set(multiprocessing.active_children()) - others:
        child.join(60)
    assert set(multiprocessing.active_children()) <= others
