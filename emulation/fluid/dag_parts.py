"""Task graphs whose messages are sent in several parts."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from controller.model.dag import NO_PEER, Dag


def with_parts(dag: Dag, n_ranks: int, task: ArrayLike, rank: ArrayLike, peer: ArrayLike, size: ArrayLike) -> Dag:
    """Return the graph with messages cut into parts, which begin together.

    A message itself becomes a task without duration, which ends with its last part. Messages without parts stay whole.

    Args:
        dag: the graph.
        n_ranks: the number of ranks of the new graph.
        task: [Q] the message of each part.
        rank: [Q] the rank that sends each part.
        peer: [Q] the rank that receives it.
        size: [Q] its bytes.
    """
    of_task = np.asarray(task, dtype=np.int64)
    order = np.argsort(of_task, kind="stable")
    of_task = of_task[order]
    count = np.bincount(of_task, minlength=dag.n_tasks)
    first = dag.n_tasks + np.cumsum(count) - count
    is_cut = count > 0
    whole_peer, whole_size = dag.peer.copy(), dag.bytes.copy()
    whole_peer[is_cut], whole_size[is_cut] = NO_PEER, 0
    # What comes before a message comes before each of its parts.
    stays, into = np.flatnonzero(~is_cut[dag.after]), np.flatnonzero(is_cut[dag.after])
    repeated = count[dag.after[into]]
    number = np.arange(repeated.sum()) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    begun = np.repeat(first[dag.after[into]], repeated) + number
    parts = dag.n_tasks + np.arange(len(of_task))

    def appended(old: np.ndarray, new: ArrayLike) -> np.ndarray:
        return np.concatenate([old, np.asarray(new)]).astype(old.dtype)

    return dataclasses.replace(
        dag,
        n_ranks=n_ranks,
        rank=appended(dag.rank, np.asarray(rank)[order]),
        peer=appended(whole_peer, np.asarray(peer)[order]),
        bytes=appended(whole_size, np.asarray(size)[order]),
        seconds=appended(dag.seconds, np.zeros(len(of_task))),
        lane=appended(dag.lane, np.zeros(len(of_task), dtype=np.int32)),
        before=np.concatenate([dag.before[stays], np.repeat(dag.before[into], repeated), parts]).astype(np.int32),
        after=np.concatenate([dag.after[stays], begun, of_task]).astype(np.int32),
    )
