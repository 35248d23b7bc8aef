"""Numba's array functions without SciPy.

Numba loads them before the first compiled function. Their module imports SciPy's linear algebra, only to see whether
BLAS is there, which is half of its time: a fifth of a second in each process. Kernels use no BLAS. Compiled functions
of others still do: Numba imports SciPy's again where it compiles a product of matrices.
"""

from __future__ import annotations

import importlib
import sys

ARRAYS, LINALG = "numba.np.arraymath", "scipy.linalg"


def load_array_functions() -> None:
    """Import the array functions as if there was no BLAS, unless they or SciPy's linear algebra are there already."""
    if ARRAYS in sys.modules or LINALG in sys.modules:
        return
    # An import of a module that is None fails at once.
    sys.modules[LINALG] = None  # type: ignore[assignment]
    try:
        importlib.import_module(ARRAYS)
    finally:
        del sys.modules[LINALG]
