"""Set-up compiles the kernels of the simulator, so that no simulation of a user waits for the compiler."""

from __future__ import annotations

from pathlib import Path

from emulation.evaluation.cell import run_cell
from emulation.evaluation.warm_up import warm
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
