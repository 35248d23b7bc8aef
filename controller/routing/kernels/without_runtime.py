"""Decorators of kernels that allocate nothing, and work without Numba's runtime (NRT).

With the runtime, a reference is counted for each array that is taken out of a tuple: a function that takes many arrays
in tuples compiles to much more code, and runs more slowly.

Such a function must not make an array (Numba refuses to compile that; also the assignment of an array to a slice, which
may need a copy), and neither return arrays nor call functions that do: nobody would count their references.
"""

from __future__ import annotations

import numba as nb

without_runtime = nb.njit(nogil=True, cache=True, _nrt=False)  # type: ignore[call-overload]
"""A kernel, or a function that several kernels call."""

inlined = nb.njit(nogil=True, cache=True, inline="always", _nrt=False)  # type: ignore[call-overload]
"""A part of a kernel, which Numba inlines before it compiles: for functions that are called at one or two places."""

inner = nb.njit(nogil=True, cache=True, forceinline=True, _nrt=False)  # type: ignore[call-overload]
"""A function that is called at many places of an inner loop: compiled once, and inlined by LLVM. Without inlining, each
call copies the descriptors of all arrays."""
