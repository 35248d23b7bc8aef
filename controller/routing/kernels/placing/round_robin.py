"""Ethereal's division of each sender's flows among its paths (compiled)."""

from __future__ import annotations

import numba as nb
import numpy as np

from controller.routing.kernels.paths import met, next_live, path_links


@nb.njit(nogil=True, cache=True)
def round_robin(order, sender, size, src, dst, ways):
    """Split each class of equal flows of a sender as Ethereal does (``order`` has them one after the other).

    Flows of a class meet in the same tier of cables.

    Returns:
        row, path, share: the pieces; ``row`` is the flow of each.
    """
    links = np.empty(2 * len(ways.width), np.int64)
    row, path, share = [np.int64(0) for _ in range(0)], [np.int64(0) for _ in range(0)], [0.0 for _ in range(0)]
    at, turn, top_before = 0, 0, -1
    while at < len(order):
        head = order[at]
        top = met(ways, src[head], dst[head])
        first, n_paths = ways.first[top], ways.first[top + 1] - ways.first[top]
        after = at
        while (
            after < len(order)
            and sender[order[after]] == sender[head]
            and size[order[after]] == size[head]
            and met(ways, src[order[after]], dst[order[after]]) == top
        ):
            after += 1
        if at == 0 or sender[order[at - 1]] != sender[head] or top != top_before:
            turn = sender[head] % n_paths
        top_before = top
        paths = 0
        for k in range(n_paths):
            n = path_links(ways, src[head], dst[head], first + k, links)
            out = True
            for i in range(0, n, 2):
                out = out and links[i] >= 0
            paths += out
        over = (after - at) % paths
        a, b = over, paths
        while b:
            a, b = b, a % b
        cut = paths // a if over else 1
        for i in range(at, after):
            f = order[i]
            pieces = 1 if i < after - over else cut
            for _ in range(pieces):
                k = next_live(ways, src[f], dst[f], first + turn, first + n_paths, links)
                if k < 0:
                    k = next_live(ways, src[f], dst[f], first, first + n_paths, links)
                row.append(f)
                path.append(k)
                share.append(1.0 / pieces)
                turn = (k - first + 1) % n_paths
        at = after
    return np.array(row), np.array(path), np.array(share)
