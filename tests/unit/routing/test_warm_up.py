from __future__ import annotations

import importlib
import pkgutil

import numpy as np

from controller.routing import POLICIES, Options, PreviousPlan, assign, kernels, warm_up
from controller.routing.bounds import bound
from controller.routing.objective import evaluate
from tests.unit.routing.instances import random_fabric, random_traffic


def compiled() -> dict[str, int]:
    """How many signatures each kernel is compiled for."""
    count = {}
    for found in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        for name, kernel in vars(module).items():
            if hasattr(kernel, "nopython_signatures"):
                count[f"{found.name}.{name}"] = len(kernel.nopython_signatures)
    return count


def test_after_warming_up_no_kernel_is_compiled_by_any_request() -> None:
    warm_up()
    before = compiled()
    assert len(before) > 20
    for seed in range(60):
        rng = np.random.default_rng(seed)
        fabric = random_fabric(rng)
        traffic = random_traffic(rng, fabric)
        bound(fabric, traffic)
        for name in POLICIES:
            options = Options(rounds=500, annealing_rounds=50, nodes=5, max_splits=seed % 3 * 5)
            plan = assign(name, fabric, traffic, options=options).assignment
            evaluate(fabric, traffic, plan)
            failed = fabric.without_links([fabric.cable_names[-1]])
            assign(name, failed, traffic, previous=PreviousPlan.of(fabric, traffic, plan), options=options)
    assert compiled() == before


def test_every_kernel_releases_the_lock_that_other_threads_wait_for() -> None:
    for found in pkgutil.iter_modules(kernels.__path__):
        module = importlib.import_module(f"{kernels.__name__}.{found.name}")
        for kernel in vars(module).values():
            if hasattr(kernel, "targetoptions"):
                assert kernel.targetoptions.get("nogil") is True
