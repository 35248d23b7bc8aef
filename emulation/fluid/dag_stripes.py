"""Task graphs whose messages are sent in stripes, one a port where NICs have several."""

from __future__ import annotations

import numpy as np

from controller.model.dag import Dag
from emulation.fluid.dag_parts import with_parts


def striped(dag: Dag, stripes: int) -> Dag:
    """Return the graph with each message cut into so many parts of almost equal bytes.

    Ranks are ports: stripe s goes from rank r + s * n_ranks to the peer's port of the same number. Messages without
    bytes stay whole.
    """
    if stripes == 1:
        return dag
    cut = np.flatnonzero(dag.is_message & (dag.bytes > 0))
    number, task = np.repeat(np.arange(stripes), len(cut)), np.tile(cut, stripes)
    part, rest = np.divmod(dag.bytes[task], stripes)
    port = number * dag.n_ranks
    return with_parts(
        dag, dag.n_ranks * stripes, task, dag.rank[task] + port, dag.peer[task] + port, part + (number < rest)
    )
