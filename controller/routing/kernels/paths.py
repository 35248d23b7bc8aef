"""The links of whole paths, read from ``Ways`` (compiled)."""

from __future__ import annotations

from controller.routing.kernels.without_runtime import without_runtime


@without_runtime
def path_links(ways, src, dst, path, links):
    """Write the links of a path between two leaves to ``links`` [2T]: an uplink and a downlink for each tier.

    The first arguments are the arrays of ``Ways`` one by one: taking an array out of a tuple counts references, which
    takes longer than all the rest.

    Returns:
        the number of links written; -1 stands for a cable that is not there.
    """
    first, width, table, up, down, above, _ = ways
    if path < first[1]:
        links[0], links[1] = up[src * width[0] + path], down[dst * width[0] + path]
        return 2
    top = 1
    while path >= first[top + 1]:
        top += 1
    after = 1
    for tier in range(1, top + 1):
        after *= width[tier]
    rest = path - first[top]
    lower, upper = src, dst
    for tier in range(top + 1):
        choice = rest // after
        rest -= choice * after
        out, back = -1, -1
        if lower >= 0:
            out = table[tier] + lower * width[tier] + choice
        if upper >= 0:
            back = table[tier] + upper * width[tier] + choice
        links[2 * tier] = up[out] if out >= 0 else -1
        links[2 * tier + 1] = down[back] if back >= 0 else -1
        if tier < top:
            lower = above[out] if out >= 0 else -1
            upper = above[back] if back >= 0 else -1
            after //= width[tier + 1]
    return 2 * (top + 1)


@without_runtime
def met(ways, src, dst):
    """Return the lowest tier of cables above which two leaves meet; the number of tiers: they do not."""
    for tier in range(len(ways.width)):
        if ways.group[tier, src] == ways.group[tier, dst]:
            return tier
    return len(ways.width)


@without_runtime
def next_live(ways, src, dst, path, last, links):
    """Return the first path from ``path`` to before ``last`` with all its links, -1: none; they are in ``links``."""
    while path < last:
        n = path_links(ways, src, dst, path, links)
        live = True
        for i in range(n):
            live = live and links[i] >= 0
        if live:
            return path
        path += 1
    return -1


@without_runtime
def first_live(ways, src, dst, links):
    """Return the first path that joins two leaves over live links, -1: none; its links are in ``links`` [2T]."""
    top = met(ways, src, dst)
    if top == len(ways.width):
        return -1
    return next_live(ways, src, dst, ways.first[top], ways.first[top + 1], links)
