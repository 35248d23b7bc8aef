"""Decorators of compiled kernels. Each leaves out what no caller needs, because all of it takes time to compile."""

from __future__ import annotations

import numba as nb

from controller.routing.kernels.compile_notice import announce_compilation

announce_compilation()

kernel = nb.njit(nogil=True, cache=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
"""A function that Python calls: without an entry for C callbacks."""

inner_kernel = nb.njit(nogil=True, cache=True, no_cfunc_wrapper=True, no_cpython_wrapper=True)  # type: ignore[call-overload]
"""A function that only other kernels call: without an entry for Python, too."""

inlined_kernel = nb.njit(  # type: ignore[call-overload]
    nogil=True, cache=True, forceinline=True, _nrt=False, no_cfunc_wrapper=True, no_cpython_wrapper=True
)
"""A function that a search calls at every step. It allocates nothing, so it works without Numba's runtime (NRT):
with it, a reference is counted for each array that is taken out of a tuple, and the search takes two to three times as
long; without inlining, each call copies the descriptors of all arrays."""
