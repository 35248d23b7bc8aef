from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from controller.compilation.compile_notice import TEXT
from controller.routing import POLICIES, Options, PreviousPlan, assign, warm_up
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.warm_up_instances import KINDS, FabricKind
from tests.unit.routing.compiled_kernels import compiled, kernel_modules
from tests.unit.routing.instances import random_fabric, random_traffic


def test_after_warming_up_no_kernel_is_compiled_by_any_request() -> None:
    warm_up()
    before = compiled()
    assert len(before) > 80
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


PLANS_OF_A_FORM = """
import dataclasses
import sys

import numpy as np

from controller.model.queue_pairs import QueuePairs
from controller.model.timing import JobTiming
from controller.routing import POLICIES, Options, PreviousPlan, assign, warm_up
from controller.routing.objective.bounds import bound
from controller.routing.objective.fairness import evaluate
from controller.routing.warm_up_instances import FabricKind, within_planes
from tests.unit.routing.instances import random_traffic
from tests.unit.routing.pod_fabrics import random_pods
from tests.unit.routing.compiled_kernels import compiled, plane_fabric

tiers, planes = (text == "True" for text in sys.argv[1:])
before = None
for seed in range(12):
    rng = np.random.default_rng(seed)
    fabric = plane_fabric(rng, tiers=tiers) if planes else random_pods(rng)
    if before is None:
        warm_up([FabricKind(tiers, planes)])
        before = compiled()
    traffic = random_traffic(rng, fabric)
    if planes:
        traffic = within_planes(fabric, traffic)
    timing = JobTiming(((0, 0.1),)) if seed % 3 == 0 else None
    qps = QueuePairs(1 + seed % 2 * 3)
    rows = tuple(dataclasses.replace(row, timing=timing, qps=qps) for row in traffic.collectives)
    traffic = dataclasses.replace(traffic, collectives=rows)
    bound(fabric, traffic)
    for name in POLICIES:
        shifts = "advise" if seed % 2 else "off"
        options = Options(rounds=500, annealing_rounds=50, nodes=5, max_splits=seed % 3 * 5, shifts=shifts)
        plan = assign(name, fabric, traffic, options=options)
        evaluate(fabric, traffic, plan.assignment)
        previous = PreviousPlan.of(fabric, traffic, plan.assignment, plan.schedule)
        for cable in (0, -1):
            failed = fabric.without_links([fabric.cable_names[cable]])
            assign(name, failed, traffic, previous=previous, options=options)
after = compiled()
new = {name: count - before[name] for name, count in after.items() if count != before[name]}
assert not new, f"compiled after the warm-up: {new}"
"""


@pytest.mark.parametrize("form", KINDS[1:])
def test_after_warming_up_for_a_fabric_plans_on_fabrics_of_its_form_compile_nothing(form: FabricKind) -> None:
    # In a process of its own, since this one has all kernels.
    command = [sys.executable, "-c", PLANS_OF_A_FORM, *map(str, form)]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


A_SMALL_PLAN = """
import time

import numpy as np

from controller.planning.make_plan import make_plan
from controller.routing import Options, warm_up_for
from tests.unit.routing.compiled_kernels import compiled
from tests.unit.routing.instances import random_fabric, random_traffic

rng = np.random.default_rng(0)
fabric = random_fabric(rng)
traffic = random_traffic(rng, fabric)
warm_up_for(["fair"], Options(), fabric, traffic)
before = compiled()
make_plan(fabric, traffic, policy="fair", clock=time.perf_counter)
assert compiled() == before
assert 0 < sum(before.values()) < len(before) / 2
"""


def test_a_small_plan_loads_what_it_needs_before_its_time_is_measured() -> None:
    command = [sys.executable, "-c", A_SMALL_PLAN]
    done = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_kernel_releases_the_lock_that_other_threads_wait_for() -> None:
    for module in kernel_modules():
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
