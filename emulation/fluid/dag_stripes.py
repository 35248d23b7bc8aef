"""Task graphs whose messages are sent in stripes, one a port where NICs have several."""

from __future__ import annotations

import dataclasses

import numpy as np

from controller.model.dag import NO_PEER, Dag


def striped(dag: Dag, stripes: int) -> Dag:
    """Return the graph with each message cut into so many of almost equal bytes, which begin together.

    Ranks are ports: stripe s goes from rank r + s * n_ranks to the peer's port of the same number. The message itself
    becomes a task without duration, which ends with its last stripe. Messages without bytes stay whole.
    """
    if stripes == 1:
        return dag
    cut = np.flatnonzero(dag.is_message & (dag.bytes > 0))
    number = np.repeat(np.arange(stripes), len(cut))
    task = np.tile(cut, stripes)
    part, rest = np.divmod(dag.bytes[task], stripes)
    stripe = dag.n_tasks + np.arange(len(task))
    peer, size = dag.peer.copy(), dag.bytes.copy()
    peer[cut], size[cut] = NO_PEER, 0
    # What comes before a message comes before each of its stripes.
    place = np.full(dag.n_tasks, -1)
    place[cut] = np.arange(len(cut))
    into = np.flatnonzero(place[dag.after] >= 0)
    stays = np.flatnonzero(place[dag.after] < 0)
    begun = dag.n_tasks + (place[dag.after[into]][None, :] + len(cut) * np.arange(stripes)[:, None]).ravel()

    def appended(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        return np.concatenate([old, new]).astype(old.dtype)

    return dataclasses.replace(
        dag,
        n_ranks=dag.n_ranks * stripes,
        rank=appended(dag.rank, dag.rank[task] + number * dag.n_ranks),
        peer=appended(peer, dag.peer[task] + number * dag.n_ranks),
        bytes=appended(size, part + (number < rest)),
        seconds=appended(dag.seconds, np.zeros(len(task))),
        lane=appended(dag.lane, dag.lane[task]),
        before=np.concatenate([dag.before[stays], np.tile(dag.before[into], stripes), stripe]).astype(np.int32),
        after=np.concatenate([dag.after[stays], begun, task]).astype(np.int32),
    )
