"""What jobs really send, and how far the learned jobs are from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any

from emulation.roce.collectives.spec import CollectiveSpec
from emulation.roce.run import CollectiveResult, FlowKey, PortShare

Edge = tuple[str, str, int]
"""Sending host, receiving host, UDP source port."""


@dataclass(frozen=True)
class SentJob:
    """What a job sends: the bytes of each edge in an iteration, and the seconds of an iteration."""

    job: str
    bytes: Mapping[Edge, float]
    period_seconds: float


@dataclass(frozen=True)
class LearnedAgainstSent:
    """How what was learned of a job differs from it.

    Attributes:
        names: the learned jobs that have some of its edges.
        recall: part of its edges that were learned.
        precision: part of the edges of these learned jobs that are its own.
        bytes_off: largest relative error of the bytes of an edge.
        period_off: relative error of the period.
        iterations: seen when it was compared.
    """

    job: str
    names: tuple[str, ...]
    recall: float
    precision: float
    bytes_off: float
    period_off: float
    iterations: int


def sent_jobs(
    specs: Sequence[CollectiveSpec], ports: Mapping[FlowKey, Sequence[PortShare]], results: Iterable[CollectiveResult]
) -> list[SentJob]:
    """Return what jobs sent; jobs of one iteration, or without results, have no period (NaN)."""
    edges: dict[str, dict[Edge, float]] = {}
    for spec in specs:
        own = edges.setdefault(spec.job, {})
        for (a, b), size in spec.flows().items():
            src, dst = spec.ranks[a], spec.ranks[b]
            for piece in ports[spec.job, spec.name, src, dst]:
                edge = (piece.src or src, piece.dst or dst, piece.udp_src)
                own[edge] = own.get(edge, 0.0) + size * piece.share
    periods: dict[str, float] = {}
    for result in results:
        begins = [begin for begin, _ in result.spans]
        periods[result.job] = fmean(b - a for a, b in pairwise(begins)) if len(begins) > 1 else float("nan")
    return [SentJob(job, sizes, periods.get(job, float("nan"))) for job, sizes in edges.items()]


def compare(sent: SentJob, learned: Sequence[Mapping[str, Any]]) -> LearnedAgainstSent:
    """Compare a job with the documents of all learned jobs."""
    names, sizes, strange, period, iterations = [], dict[Edge, float](), 0, float("nan"), 0
    for document in learned:
        flows = {(flow["src"], flow["dst"], flow["udp_src"]): flow["bytes"] for flow in document["job"]["flows"]}
        own = flows.keys() & sent.bytes.keys()
        if own:
            names.append(document["summary"]["name"])
            sizes |= {edge: flows[edge] for edge in own}
            strange += len(flows) - len(own)
            period = document["summary"]["period_seconds"] or float("nan")
            iterations = document["summary"]["iterations"]
    return LearnedAgainstSent(
        sent.job,
        tuple(names),
        len(sizes) / len(sent.bytes),
        len(sizes) / max(len(sizes) + strange, 1),
        max((abs(size / sent.bytes[edge] - 1) for edge, size in sizes.items()), default=float("nan")),
        abs(period / sent.period_seconds - 1),
        iterations,
    )
