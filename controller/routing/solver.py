"""HiGHS from arrays: the one place that knows its interface."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from controller.model.fabric import FloatArray, IntArray
from controller.model.traffic import Int64Array

INFINITY = float(highspy.kHighsInf)


@dataclass(frozen=True, eq=False)
class Program:
    """minimise cost @ x subject to row_lower <= A x <= row_upper, lower <= x <= upper.

    A is given by its non-zeros: ``rows``, ``columns``, ``values``. ``integer`` [n] marks integer columns, or ``None``.
    """

    cost: FloatArray
    lower: FloatArray
    upper: FloatArray
    row_lower: FloatArray
    row_upper: FloatArray
    rows: IntArray | Int64Array
    columns: IntArray | Int64Array
    values: FloatArray
    integer: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """``x`` is ``None`` where nothing feasible was found; ``bound`` is what no solution can be below."""

    x: FloatArray | None
    value: float
    bound: float
    optimal: bool


def solve(
    program: Program, *, start: FloatArray | None = None, nodes: int | None = None, seconds: float | None = None
) -> Solution:
    """Solve to a vertex (linear) or to proven optimality within the limits (integer). Deterministic unless ``seconds``.

    Args:
        start: a feasible point to begin from.
        nodes: limit of branch-and-bound nodes.
        seconds: limit by HiGHS's clock.
    """
    order = np.argsort(program.columns, kind="stable")
    n, m = len(program.cost), len(program.row_lower)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, m
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = program.cost, program.lower, program.upper
    lp.row_lower_, lp.row_upper_ = program.row_lower, program.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(program.columns, minlength=n))]).astype(np.int32)
    lp.a_matrix_.index_ = program.rows[order].astype(np.int32)
    lp.a_matrix_.value_ = program.values[order]
    if program.integer is not None:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        lp.integrality_ = [kinds[int(flag)] for flag in program.integer]
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    highs.setOptionValue("output_flag", False)
    # More threads than one make no difference to these sizes, and one is the same on every machine.
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("mip_rel_gap", 1e-7)
    highs.setOptionValue("mip_abs_gap", 1e-9)
    if nodes is not None:
        highs.setOptionValue("mip_max_nodes", nodes)
    if seconds is not None:
        highs.setOptionValue("time_limit", seconds)
    highs.passModel(lp)
    if start is not None:
        point = highspy.HighsSolution()
        point.col_value = list(start)
        highs.setSolution(point)
    highs.run()
    info = highs.getInfo()
    found = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
    optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    value = float(info.objective_function_value) if found else INFINITY
    bound = float(info.mip_dual_bound) if program.integer is not None else (value if optimal else -INFINITY)
    return Solution(np.array(highs.getSolution().col_value) if found else None, value, bound, optimal)
