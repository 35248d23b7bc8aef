"""Kernels without Numba's runtime: they make no arrays and return none, whose references nobody would count."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
from numba.core.errors import NumbaError
from numba.core.runtime import _nrt_python, rtsys  # type: ignore[attr-defined]

from controller.routing.kernels.without_runtime import without_runtime
from emulation.evaluation.warm_up import simulate_small_jobs, warm


@pytest.fixture
def counting() -> Iterator[None]:
    _nrt_python.memsys_enable_stats()
    yield
    _nrt_python.memsys_disable_stats()


def held() -> int:
    """The arrays that Numba's runtime has made and not freed."""
    gc.collect()
    counts = rtsys.get_allocation_stats()
    return counts.mi_alloc - counts.mi_free


@pytest.mark.usefixtures("counting")
def test_every_kernel_frees_the_arrays_that_it_makes() -> None:
    warm()
    simulate_small_jobs.__wrapped__()  # caches are filled now
    before = held()
    made = rtsys.get_allocation_stats().mi_alloc
    simulate_small_jobs.__wrapped__()
    assert held() == before
    assert rtsys.get_allocation_stats().mi_alloc > made + 1000


def test_a_function_that_would_make_an_array_is_refused() -> None:
    with pytest.raises(NumbaError, match="NRT"):
        without_runtime(lambda n: np.zeros(n).sum())(3)
