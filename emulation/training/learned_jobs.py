"""What a controller learned of jobs while they trained, against what their files say that they send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller.model.fabric import Fabric
from controller.model.traffic import Traffic

Edge = tuple[str, str]
"""Sending and receiving host."""


@dataclass(frozen=True)
class JobLearning:
    """What was learned of a job.

    Attributes:
        steps: that all of its ranks had taken when the network first followed a plan for all jobs; 0: it never did.
        recall: the part of its edges that were learned.
        precision: the part of the edges of these learned jobs that are its own.
        bytes_off: the largest relative error of the bytes of an edge (NaN: none was learned).
    """

    job: str
    steps: int
    recall: float
    precision: float
    bytes_off: float

    @property
    def is_whole(self) -> bool:
        """Whether every edge was learned and planned, and no other one."""
        return bool(self.steps) and self.recall == self.precision == 1.0

    @property
    def in_words(self) -> str:
        """All of it in a line."""
        when = f"planned after {self.steps} steps" if self.steps else "never planned"
        right = f"recall {self.recall:.3f}, precision {self.precision:.3f}, bytes off by {self.bytes_off:.2%} at most"
        return f"{self.job} {when}; {right}"


def edges_of(fabric: Fabric, traffic: Traffic) -> dict[str, dict[Edge, float]]:
    """Return the bytes that each job sends over each edge in a step."""
    names, edges = fabric.host_names, dict[str, dict[Edge, float]]()
    columns = (traffic.src, traffic.dst, traffic.bytes, traffic.collective)
    for src, dst, size, collective in zip(*(column.tolist() for column in columns), strict=True):
        own = edges.setdefault(traffic.collectives[collective].job, {})
        own[names[src], names[dst]] = own.get((names[src], names[dst]), 0.0) + size
    return edges


def compare(job: str, sent: Mapping[Edge, float], learned: Sequence[Mapping[str, Any]], steps: int) -> JobLearning:
    """Compare the edges of a job with the documents of all learned jobs."""
    right, strange = dict[Edge, float](), 0
    for document in learned:
        edges: dict[Edge, float] = {}
        for flow in document["job"]["flows"]:
            edges[flow["src"], flow["dst"]] = edges.get((flow["src"], flow["dst"]), 0.0) + flow["bytes"]
        own = edges.keys() & sent.keys()
        if own:
            right |= {edge: edges[edge] for edge in own}
            strange += len(edges) - len(own)
    return JobLearning(
        job,
        steps,
        recall=len(right) / len(sent),
        precision=len(right) / max(len(right) + strange, 1),
        bytes_off=max((abs(size / sent[edge] - 1) for edge, size in right.items()), default=float("nan")),
    )
