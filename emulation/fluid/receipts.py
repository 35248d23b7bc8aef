"""Runs of a group in which each host goes on by itself: it sends the next run when it has received the last.

So a host that is behind delays those after it, and not all.
"""

from __future__ import annotations

import numpy as np

from controller.model.fabric import IntArray
from emulation.fluid.movers import Transfers
from emulation.fluid.state import Movers, Program, Receipts


def receipts_of(program: Program, transfers: Transfers, movers: Movers, src: IntArray, dst: IntArray) -> Receipts:
    """Return the members of the groups that run several times.

    Args:
        program: the groups.
        transfers: their transfers.
        movers: pieces of transfers.
        src: [T] sender of each transfer.
        dst: [T] its receiver.
    """
    n_hosts = 1 + int(max(src.max(initial=0), dst.max(initial=0)))
    several = program.repeat[movers.group] > 1
    at = np.flatnonzero(several)
    owner, group = movers.owner[at], movers.group[at].astype(np.int64)
    keys = np.concatenate([group * n_hosts + src[owner], group * n_hosts + dst[owner]])
    members, number = np.unique(keys, return_inverse=True)
    source, sink = (np.full(len(movers.group), -1, dtype=np.int64) for _ in range(2))
    source[at], sink[at] = number[: len(at)], number[len(at) :]
    n = len(members)
    receives = np.bincount(sink[at], minlength=n) > 0
    # A member that receives nothing waits for what it has sent.
    waits = np.concatenate([sink[at], source[at][~receives[source[at]]]])
    what = np.concatenate([at, at[~receives[source[at]]]])
    order, ahead = np.argsort(source[at], kind="stable"), np.argsort(waits, kind="stable")
    return Receipts(
        source,
        sink,
        np.searchsorted(source[at][order], np.arange(n + 1)).astype(np.int64),
        at[order].astype(np.int64),
        np.searchsorted(waits[ahead], np.arange(n + 1)).astype(np.int64),
        what[ahead].astype(np.int64),
        np.zeros(len(movers.group), dtype=np.int64),
        np.zeros(len(movers.group), dtype=np.bool_),
    )
