"""HiGHS from arrays: the only module that uses its interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import highspy
import numpy as np
from numpy.typing import ArrayLike

from controller.model.fabric import FloatArray
from controller.model.tolerances import ROUNDING, SOLVER_GAP
from controller.model.traffic import Int64Array

INFINITY = float(highspy.kHighsInf)


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of a solver run.

    ``x`` is ``None`` where nothing feasible was found; ``bound`` is a lower bound of the value of any solution.
    ``prices`` are the dual values of the constraints of a linear program that was solved to the end.
    """

    x: FloatArray | None
    value: float
    bound: float
    optimal: bool
    prices: FloatArray | None = None


class LinearProgram:
    """A linear or integer program to minimise, built block by block."""

    def __init__(self) -> None:
        """Create a program without variables and constraints."""
        self._columns: list[tuple[FloatArray, FloatArray, FloatArray, FloatArray]] = []
        self._rows: list[tuple[FloatArray, FloatArray]] = []
        self._entries: list[tuple[Int64Array, Int64Array, FloatArray]] = []
        self.n_columns = 0
        self.n_rows = 0

    def columns(
        self, n: int, *, lower: float = 0.0, upper: float = INFINITY, cost: ArrayLike = 0.0, integer: bool = False
    ) -> Int64Array:
        """Add n variables and return their numbers."""
        cost_of = np.broadcast_to(np.asarray(cost, dtype=np.float64), (n,))
        self._columns.append((np.full(n, lower), np.full(n, upper), cost_of, np.full(n, float(integer))))
        self.n_columns += n
        return np.arange(self.n_columns - n, self.n_columns)

    def rows(self, n: int, *, lower: ArrayLike = -INFINITY, upper: ArrayLike = INFINITY) -> Int64Array:
        """Add n constraints and return their numbers."""
        limits = [np.broadcast_to(np.asarray(limit, dtype=np.float64), (n,)) for limit in (lower, upper)]
        self._rows.append((limits[0], limits[1]))
        self.n_rows += n
        return np.arange(self.n_rows - n, self.n_rows)

    def add(self, rows: Int64Array, columns: Int64Array | int, values: ArrayLike) -> None:
        """Add ``values[i] * variable columns[i]`` to constraint ``rows[i]`` (equal pairs add up)."""
        shape = rows.shape
        self._entries.append(
            (
                rows,
                np.broadcast_to(np.asarray(columns, dtype=np.int64), shape),
                np.broadcast_to(np.asarray(values, dtype=np.float64), shape),
            )
        )

    def solve(
        self, *, start: FloatArray | None = None, nodes: int | None = None, seconds: float | None = None
    ) -> Solution:
        """Solve to a vertex (linear) or to proven optimality within the limits (integer).

        The result is deterministic without ``seconds``.

        Args:
            start: a feasible point to begin from.
            nodes: limit of branch-and-bound nodes.
            seconds: limit on HiGHS's own clock.
        """
        lower, upper, cost, integer = _stack(self._columns, 4)
        row_lower, row_upper = _stack(self._rows, 2)
        rows, columns, values = _stack(self._entries, 3)
        key, place = np.unique(
            columns.astype(np.int64) * max(1, self.n_rows) + rows.astype(np.int64), return_inverse=True
        )
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.n_columns, self.n_rows
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = cost, lower, upper
        lp.row_lower_, lp.row_upper_ = row_lower, row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        per_column = np.bincount(key // max(1, self.n_rows), minlength=self.n_columns)
        lp.a_matrix_.start_ = np.concatenate([[0], np.cumsum(per_column)]).astype(np.int32)
        lp.a_matrix_.index_ = (key % max(1, self.n_rows)).astype(np.int32)
        lp.a_matrix_.value_ = np.bincount(place.reshape(-1), weights=values, minlength=len(key)).astype(np.float64)
        is_integer = bool(integer.any())
        if is_integer:
            kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
            lp.integrality_ = [kinds[int(flag)] for flag in integer]
        highs = _SilentHighs()  # type: ignore[no-untyped-call]
        # More threads bring no speed-up at these sizes, and one gives the same result on every machine.
        highs.setOptionValue("threads", 1)
        highs.setOptionValue("mip_rel_gap", SOLVER_GAP)
        highs.setOptionValue("mip_abs_gap", ROUNDING)
        if nodes is not None:
            highs.setOptionValue("mip_max_nodes", nodes)
        if seconds is not None:
            highs.setOptionValue("time_limit", float(seconds))
        highs.passModel(lp)
        if start is not None:
            point = highspy.HighsSolution()
            point.col_value = list(start)
            highs.setSolution(point)
        highs.run()
        info = highs.getInfo()
        feasible = info.primal_solution_status == int(highspy.SolutionStatus.kSolutionStatusFeasible)
        optimal = highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
        value = float(info.objective_function_value) if feasible else INFINITY
        bound = float(info.mip_dual_bound) if is_integer else (value if optimal else -INFINITY)
        solution = highs.getSolution()
        prices = np.array(solution.row_dual) if optimal and not is_integer else None
        return Solution(np.array(solution.col_value) if feasible else None, value, bound, optimal, prices)


class _SilentHighs(highspy.Highs):
    """HiGHS without output: it writes its name at the first call, which from 1.16 on is one of its constructor."""

    def enableCallbacks(self) -> None:  # noqa: N802 (HiGHS's name)
        """Turn the output off before the constructor makes its call."""
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def _stack(blocks: Sequence[tuple[FloatArray | Int64Array, ...]], width: int) -> tuple[FloatArray, ...]:
    if not blocks:
        return (np.zeros(0),) * width
    return tuple(np.concatenate(column).astype(np.float64) for column in zip(*blocks, strict=True))
