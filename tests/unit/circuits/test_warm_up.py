"""Set-up compiles the kernels of the planner of circuits, so that no plan waits for the compiler."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.circuits import kernels
from controller.circuits.fabric.optical_fabric import OpticalFabric
from controller.circuits.planning.circuit_plan import NOW, POLICIES
from controller.circuits.warm_up import warm_up
from controller.model.errors import InputError
from tests.unit.circuits.drawn import drawn_job, optical_fabrics, planned
from tests.unit.laws import examples

MODULES = [import_module(f"{kernels.__name__}.{module.name}") for module in pkgutil.iter_modules(kernels.__path__)]


once = cache(warm_up)


def compiled() -> dict[str, int]:
    """Count the signatures that each kernel is compiled for."""
    return {
        f"{module.__name__}.{name}": len(kernel.nopython_signatures)
        for module in MODULES
        for name, kernel in vars(module).items()
        if hasattr(kernel, "nopython_signatures")
    }


@settings(deadline=None, max_examples=examples(20, 120))
@given(
    optical_fabrics(),
    st.integers(0, 10**6),
    st.sampled_from([name for name in POLICIES if name != NOW]),
    st.integers(1, 2),
)
def test_after_warming_up_no_kernel_is_compiled_by_any_plan(
    fabric: OpticalFabric, seed: int, policy: str, phases: int
) -> None:
    once()
    before = compiled()
    assert len(before) >= 21
    try:
        planned(fabric, drawn_job(seed, list(fabric.servers), phases=phases), policy=policy, seed=seed)
    except InputError:
        return
    assert compiled() == before
