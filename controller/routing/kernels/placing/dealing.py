"""Deals the paths of exchangeable units to connections: as many different paths as possible for each."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(nogil=True, cache=True)
def deal(run, unit, run_ptr, new_class, port, n_paths, path):
    """Return path classes [U]: those of each class of runs, dealt to its runs in turn.

    A run is the exchangeable QPs of one connection. Path by path, copies of a path go to the runs of a class one after
    the other. Within a run, copies of a path have adjacent ports, in blocks of powers of two, largest blocks first: if
    the ports of a run are consecutive from a multiple of a power of two, a masked match covers each block.

    Args:
        run: [M] the runs, class by class.
        unit: [U] the units of all runs, run by run.
        run_ptr: [M+1] where each run begins in ``unit``.
        new_class: [M] whether a class begins at this place of ``run``.
        port: [U] UDP source port of each unit.
        n_paths: the number of path classes.
        path: [U] path classes before.
    """
    dealt = path.copy()
    left = np.zeros(n_paths, np.int64)
    taken = np.empty(len(unit), np.int32)
    first = 0
    while first < len(run):
        last, longest = first, 0
        while last < len(run) and (last == first or not new_class[last]):
            r = run[last]
            longest = max(longest, run_ptr[r + 1] - run_ptr[r])
            for at in range(run_ptr[r], run_ptr[r + 1]):
                left[path[unit[at]]] += 1
            last += 1
        k = 0
        for turn in range(longest):
            for place in range(first, last):
                at = run_ptr[run[place]] + turn
                if at >= run_ptr[run[place] + 1]:
                    continue
                while left[k] == 0:
                    k += 1
                taken[at] = k
                left[k] -= 1
        left[k] = 0
        for place in range(first, last):
            _arrange(unit, run_ptr[run[place]], run_ptr[run[place] + 1], port, taken, dealt)
        first = last
    return dealt


@nb.njit(nogil=True, cache=True)
def _arrange(unit, begin, end, port, taken, dealt):
    """Give units ``begin`` to ``end`` the paths ``taken`` there (ascending), blocks of equal ones in order of ports."""
    for at in range(begin + 1, end):
        moving, to = unit[at], at
        while to > begin and port[unit[to - 1]] > port[moving]:
            unit[to] = unit[to - 1]
            to -= 1
        unit[to] = moving
    block = 1
    while 2 * block <= end - begin:
        block *= 2
    to = begin
    while block > 0:
        at = begin
        while at < end:
            beyond = at
            while beyond < end and taken[beyond] == taken[at]:
                beyond += 1
            if (beyond - at) & block:
                for _ in range(block):
                    dealt[unit[to]] = taken[at]
                    to += 1
            at = beyond
        block //= 2
