"""A training job as its owner describes it: ranks on hosts, and what they send each other in one step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from controller.model.fabric import IntArray
from controller.model.traffic import Int64Array

Op = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
Algorithm = Literal["ring", "direct"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One operation in which ranks take part.

    Attributes:
        ranks: in ring order where the algorithm is a ring; (sender, receiver) of a ``send_recv``.
        bytes: size S of the operation as NCCL's tests define it: of the buffer that an ``all_reduce`` reduces, of the
            whole that an ``all_gather`` collects or a ``reduce_scatter`` starts from, of what a rank of an
            ``all_to_all`` has for all ranks together, of a ``send_recv``'s message.
        algorithm: of an ``all_reduce``; the others have only one.
        phase: collectives of one job in different phases never run at once.
    """

    name: str
    op: Op
    ranks: tuple[int, ...]
    bytes: int
    algorithm: Algorithm = "ring"
    phase: int = 0


@dataclass(frozen=True, eq=False)
class FlowList:
    """F flows given one by one.

    Attributes:
        src, dst: [F] host names.
        bytes: [F].
        collective: [F] name of the collective that each belongs to.
        udp_src: [F] UDP source port, 0 where none is claimed.
    """

    src: tuple[str, ...] = ()
    dst: tuple[str, ...] = ()
    bytes: Int64Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    collective: tuple[str, ...] = ()
    udp_src: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))


@dataclass(frozen=True, eq=False)
class Matrix:
    """``bytes`` [N, N]: what host i (row) sends host j (column), as one collective."""

    hosts: tuple[str, ...]
    bytes: Int64Array
    collective: str


@dataclass(frozen=True, eq=False)
class Job:
    """A job; ``workload.job_file`` makes it from a document and validates it, this class does not.

    Flows and the matrix that name a collective of ``collectives`` are part of it; other names are collectives of
    their own, in phase 0.

    Attributes:
        weight: the job's share against others where they compete.
        hosts: ``hosts[i]`` is where rank i runs.
        ports_known: whether each flow has a UDP source port that somebody can know.
    """

    name: str
    weight: float = 1.0
    hosts: tuple[str, ...] = ()
    collectives: tuple[CollectiveCall, ...] = ()
    flows: FlowList = field(default_factory=FlowList)
    matrix: Matrix | None = None
    ports_known: bool = True
