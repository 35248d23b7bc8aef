"""Preparation for compiled kernels (Numba), before the first one is used: stale ones go, and compilation is announced.

Modules with kernels call ``prepare``, themselves or in a module that they import.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from controller.compilation.array_functions import load_array_functions
from controller.compilation.compile_notice import announce_compilation
from controller.compilation.kernel_cache import KernelCache
from controller.compilation.temporary_cache import offer_temporary_cache

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("controller", "emulation")
"""Packages that have kernels: functions that users compile are not of interest."""


@cache
def prepare() -> None:
    """Remove compiled kernels of former sources, and begin to watch what is compiled; once in a process."""
    load_array_functions()
    offer_temporary_cache(PACKAGES)
    kernels = KernelCache(ROOT, PACKAGES)
    kernels.remove_stale()
    kernels.watch()
    announce_compilation(PACKAGES)
