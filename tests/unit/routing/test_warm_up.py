from __future__ import annotations

import importlib
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from controller.routing import POLICIES, Options, PreviousPlan, assign, kernels, warm_up
from controller.routing.bounds import bound
from controller.routing.kernels.compile_notice import TEXT
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


def said(cache: Path, program: str) -> str:
    """Return what a program writes to standard error, with kernels cached in a folder of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_program_says_once_that_it_compiles_and_nothing_if_the_code_is_cached(tmp_path: Path) -> None:
    program = """
import numba, numpy as np
from controller.routing.kernels.lookup import first_rows
from controller.routing.kernels.phases import group_total
numba.njit(lambda x: x + 1)(1)
print("of the user", file=__import__("sys").stderr)
for kind in (np.float64, np.float32):
    group_total(np.ones(2, kind), np.zeros(2, np.int32))
"""
    assert said(tmp_path, program) == f"of the user\n{TEXT}\n"
    assert said(tmp_path, program) == "of the user\n"
