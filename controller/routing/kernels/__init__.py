"""Compiled kernels (Numba) for the inner loops: functions of only their arrays that release the GIL.

Every kernel is compiled lazily and cached on disk; ``controller.routing.warm_up`` calls each of them once, so that a
running controller never compiles inside a request. Arrays are C-contiguous, int32 or float64, and shapes are written
in square brackets with the letters of the core values: F flows, U units, P parts, L leaves, K path classes (or
collectives, where there is no path), E links, G phase groups.
"""

from controller.compilation import prepare

prepare()
