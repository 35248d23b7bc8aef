"""All tolerances of comparisons between floating-point numbers, and why there is more than one.

``TOLERANCE`` says when two results are equal. The others are finer and allow for rounding inside a computation, so that
its errors never add up to a difference of ``TOLERANCE``. Kernels compile these values in, and are
compiled anew when this file changes (``controller.compilation.kernel_cache``).
"""

from __future__ import annotations

TOLERANCE = 1e-6
"""The one relative tolerance of results: levels, speeds, loads and sums of shares that differ by less are equal.

It is the number of digits that plans have in files (shares are printed rounded), and above the error of the solver.
"""

SOLVED = 1e-6
"""Values that the solver returns for zero may be as large (HiGHS: ``mip_feasibility_tolerance``).

It is the solver's own, and does not change with ``TOLERANCE``.
"""

SOLVER_GAP = 1e-7
"""Relative gap at which the solver may stop: below ``TOLERANCE``, so that a solved level counts as the optimum."""

ROUNDING = 1e-9
"""Relative error of sums over the flows of a link.

A load that exceeds the capacity by less fills the link. A thousand times finer than ``TOLERANCE``, because planning
compares sums of up to thousands of terms, moves flows by these comparisons, and the levels of the result must still be
equal to those of the bound within ``TOLERANCE``. Also for the means of simulations, whose order of summation varies.
"""

RATE_ROUNDING = 1e-11
"""Relative error of the simulator's rates and loads.

Finer than ``ROUNDING``, because an error of a rate adds up over the simulated time, and results of the simulator are
compared within ``ROUNDING``.
"""

SAME_VALUE = 1e-12
"""Relative error of values that come from few operations on the same inputs, by different ways.

Two moves of equal cost, two flows of equal demand, two events at the same time. Not coarser, because then different
values would count as equal: costs differ by parts of capacities, and events of long simulations lie close together.
"""

LAST_BIT = 1e-15
"""Relative error of one operation: an iteration that moves a value by less has converged."""
