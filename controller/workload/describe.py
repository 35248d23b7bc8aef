"""Description of a job: its groups, its collectives by kind, and their traffic on the network and between leaves."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from controller.model.fabric import Fabric, IntArray
from controller.model.job import CollectiveCall, Job
from controller.model.timing import IterationSpan
from controller.model.waits import FOR_COMPUTING
from controller.workload.collectives import count_of
from controller.workload.expand import JobTraffic, expand
from controller.workload.job_document import times_of
from controller.workload.placement.placement import participants
from controller.workload.strategy.computing_time import ComputingTime
from controller.workload.strategy.iteration import PHASES
from controller.workload.strategy.strategy_form import Strategy
from controller.workload.waits import not_overlapped

_GIVEN = "flows"


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of one dimension of the strategy, or of one kind of collective.

    Attributes:
        dimension: ``tp``, ``dp`` (with context-parallel ranks) ..; without a strategy the kind of the collectives.
        size: number of ranks in each group.
        first: ranks of the first group.
        on_one_server: number of groups whose ranks are on one server; ``None`` if the job is not placed on a fabric.
        under_one_leaf: number of groups whose ranks are under one leaf; ``None`` if the job is not placed on a fabric.
    """

    dimension: str
    groups: int
    size: int
    first: tuple[int, ...]
    on_one_server: int | None = None
    under_one_leaf: int | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """The traffic of some collectives in one iteration.

    Attributes:
        flows: number of flows on the network; without a fabric, of all flows.
        network_bytes: bytes of these flows; ``None`` without a fabric.
        cross_leaf_bytes: bytes of the flows between two leaves; ``None`` without a fabric.
        cross_leaf_share: their share of the bytes on the network; ``None`` where there are none.
    """

    flows: int
    network_bytes: int | None = None
    cross_leaf_bytes: int | None = None
    cross_leaf_share: float | None = None


@dataclass(frozen=True, slots=True)
class CollectiveFamily:
    """Collectives whose names differ only in numbers: ``dp*.reduce``.

    Attributes:
        op: the operation; ``flows`` where they are given flow by flow.
        collectives: number of collectives.
        ranks: number of ranks of the largest; 0 where they are given flow by flow.
        bytes: S of all of them together in an iteration, as ``CollectiveCall.bytes``; of flows their total bytes.
        largest: S of the largest.
        priority: class of their packets (``model.priority``).
        until: the later phase that waits for them; ``None``: their own.
    """

    name: str
    op: str
    phase: int
    collectives: int
    ranks: int
    bytes: int
    largest: int
    load: Load
    priority: int = 0
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase, beside which runs only what a later one waits for; ``name`` is empty where only its number is known."""

    phase: int
    name: str
    collectives: int
    load: Load


@dataclass(frozen=True, slots=True)
class Description:
    """A described job.

    Attributes:
        strategy: one line of text, empty for a job without model and parallelism.
        timing: ``compute_seconds`` or ``period_seconds`` as in a job file; empty if the job states no times.
        computing: the derivation of the computing time, where it follows from a GPU's throughput.
        not_overlapped: collectives that are to overlap with computing that the job does not state.
        time_line: of an iteration alone (``planning.time_line``); empty if the job has no place on a fabric, or neither
            states times nor what collectives wait for.
    """

    job: str
    strategy: str
    ranks: int
    leaves: int | None
    groups: tuple[Groups, ...]
    kinds: tuple[CollectiveFamily, ...]
    phases: tuple[Phase, ...]
    total: Load
    timing: Mapping[str, Any]
    computing: ComputingTime | None
    not_overlapped: tuple[str, ...] = ()
    time_line: tuple[IterationSpan, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """One collective."""

    name: str
    op: str
    phase: int
    ranks: int
    bytes: int
    flows: int
    network: int
    cross_leaf: int
    priority: int
    until: int | None

    @property
    def kind(self) -> tuple[int, str, str, int, int]:
        until = self.phase if self.until is None else self.until
        return self.phase, family(self.name), self.op, self.priority, until


def describe(job: Job, strategy: Strategy | None = None, fabric: Fabric | None = None) -> Description:
    """Describe a job, and with a fabric its traffic there.

    Args:
        job: the job.
        strategy: the strategy from which the job was derived, if any.
        fabric: a fabric that has all hosts of the job.

    Raises:
        InputError: the fabric does not have a host of the job.
    """
    # Without ports, flows between the same hosts look alike, which must not have two classes.
    alike = dataclasses.replace(job, ports_known=False, priorities=dict.fromkeys(job.collective_names, 0))
    traffic = None if fabric is None else expand(fabric, alike)
    rows = _rows(job, fabric, traffic)
    placed = fabric is not None
    kinds: dict[tuple[int, str, str, int, int], list[_Row]] = {}
    phases: dict[int, list[_Row]] = {}
    for row in rows:
        kinds.setdefault(row.kind, []).append(row)
        phases.setdefault(row.phase, []).append(row)
    hosts = participants(job)
    return Description(
        job=job.name,
        strategy="" if strategy is None else _line(strategy),
        ranks=len(hosts),
        leaves=None if fabric is None else len({fabric.hosts[fabric.host_index[name]].leaf for name in hosts}),
        groups=_located(_groups(job, strategy), job, fabric),
        kinds=tuple(
            CollectiveFamily(
                name=name,
                op=op,
                phase=phase,
                collectives=len(same),
                ranks=max(row.ranks for row in same),
                bytes=sum(row.bytes for row in same),
                largest=max(row.bytes for row in same),
                load=_load(same, placed),
                priority=priority,
                until=same[0].until,
            )
            for (phase, name, op, priority, _), same in sorted(kinds.items())
        ),
        phases=tuple(
            Phase(
                phase=phase,
                name=PHASES[phase] if strategy is not None and phase < len(PHASES) else "",
                collectives=len(same),
                load=_load(same, placed),
            )
            for phase, same in sorted(phases.items())
        ),
        total=_load(rows, placed),
        timing={} if job.timing is None else times_of(job.timing),
        computing=None if strategy is None else strategy.computing,
        not_overlapped=not_overlapped(job),
    )


def family(name: str) -> str:
    """Return the name of the collectives whose names differ from this one only in numbers: ``dp*.reduce``."""
    return re.sub(r"\d+", "*", name)


def _rows(job: Job, fabric: Fabric | None, traffic: JobTraffic | None) -> list[_Row]:
    calls = {call.name: call for call in job.collectives}
    carried: dict[str, list[int]] = {}
    for name, size in zip(job.flows.collective, job.flows.bytes.tolist(), strict=True):
        carried.setdefault(name, []).append(size)
    if job.matrix is not None:
        sizes = job.matrix.bytes[job.matrix.bytes > 0].tolist()
        carried.setdefault(job.matrix.collective, []).extend(sizes)
    names = list(calls | carried)
    phase, waits = job.phase_by_name, job.waits_by_name
    flows = {name: count_of(calls[name]) if name in calls else 0 for name in names}
    for name, sizes in carried.items():
        flows[name] += len(sizes)
    network, cross_leaf = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    if fabric is not None and traffic is not None:
        n = len(traffic.collectives)
        apart = fabric.host_leaf[traffic.src] != fabric.host_leaf[traffic.dst]
        on_network = _summed(traffic, np.ones(traffic.n_flows, dtype=np.bool_), n)
        between = _summed(traffic, apart, n)
        count = np.bincount(traffic.collective, minlength=n).tolist()
        for k, row in enumerate(traffic.collectives):
            phase[row.name] = row.phase
            flows[row.name], network[row.name], cross_leaf[row.name] = count[k], on_network[k], between[k]
    return [
        _Row(
            name=name,
            op=calls[name].op if name in calls else _GIVEN,
            phase=phase.get(name, 0),
            ranks=len(calls[name].ranks) if name in calls else 0,
            bytes=(calls[name].bytes if name in calls else 0) + sum(carried.get(name, ())),
            flows=flows[name],
            network=network[name],
            cross_leaf=cross_leaf[name],
            priority=job.priority_of(name),
            until=waits.get(name, FOR_COMPUTING).until,
        )
        for name in names
    ]


def _summed(traffic: JobTraffic, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], n: int) -> list[int]:
    """Return the bytes [n] of the chosen flows by collective, exactly (floats would round values above 2^53)."""
    total = np.zeros(n, dtype=np.int64)
    np.add.at(total, traffic.collective[chosen], traffic.bytes[chosen])
    answer: list[int] = total.tolist()
    return answer


def _load(rows: Iterable[_Row], placed: bool) -> Load:
    rows = list(rows)
    flows = sum(row.flows for row in rows)
    if not placed:
        return Load(flows)
    network, cross_leaf = sum(row.network for row in rows), sum(row.cross_leaf for row in rows)
    return Load(flows, network, cross_leaf, cross_leaf / network if network else None)


def _groups(job: Job, strategy: Strategy | None) -> list[tuple[str, IntArray]]:
    """Return dimension and ranks [groups, members] of each kind of group."""
    if strategy is None:
        return [(f"{op}, {size}", ranks) for (op, size), ranks in _distinct(job.collectives).items()]
    p = strategy.parallelism
    groups = [
        ("tp", p.groups("tp")),
        ("cp", p.groups("cp")),
        ("dp", p.groups("dp")),
        ("dp-cp", p.groups("cp", "dp")),
        ("pp", p.groups("pp")),
    ]
    if strategy.model.experts:
        groups += [("ep", p.expert_groups("ep")), ("etp", p.expert_groups("tp")), ("edp", p.expert_groups("dp"))]
    return [(name, ranks) for name, ranks in groups if name != "dp-cp" or p.cp > 1]


def _distinct(calls: Iterable[CollectiveCall]) -> dict[tuple[str, int], IntArray]:
    """Return the distinct groups of ranks of each operation and size."""
    seen: dict[tuple[str, int], dict[tuple[int, ...], None]] = {}
    for call in calls:
        seen.setdefault((call.op, len(call.ranks)), {})[call.ranks] = None
    return {key: np.array(list(groups), dtype=np.int32) for key, groups in sorted(seen.items())}


def _located(groups: list[tuple[str, IntArray]], job: Job, fabric: Fabric | None) -> tuple[Groups, ...]:
    rows = []
    for name, ranks in groups:
        row = Groups(name, ranks.shape[0], ranks.shape[1], tuple(ranks[0].tolist()))
        if fabric is not None:
            at = np.array([fabric.host_index[host] for host in job.hosts], dtype=np.int64)[ranks]
            number: dict[str, int] = {}
            server = np.array([number.setdefault(host.server, len(number)) for host in fabric.hosts])[at]
            leaf = fabric.host_leaf[at]
            row = dataclasses.replace(
                row,
                on_one_server=int((server == server[:, :1]).all(axis=1).sum()),
                under_one_leaf=int((leaf == leaf[:, :1]).all(axis=1).sum()),
            )
        rows.append(row)
    return tuple(rows)


def _line(strategy: Strategy) -> str:
    """Return one line such as ``gpt3-175b, tp 8 x cp 1 x dp 4 x pp 8, 16 micro-batches of 1``."""
    model, p, batch = strategy.model, strategy.parallelism, strategy.batch
    parts = [model.name, f"tp {p.tp} x cp {p.cp} x dp {p.dp} x pp {p.pp}"]
    if model.experts:
        parts.append(f"experts: etp {p.etp} x ep {p.ep} x edp {p.edp} x pp {p.pp}")
    if p.vpp > 1:
        parts.append(f"vpp {p.vpp}")
    parts.append(f"{batch.micro_batches} micro-batches of {batch.micro_batch_size}")
    if batch.distributed_optimizer:
        parts.append("distributed optimizer")
    parts += [f"{op} by {algorithm}" for op, algorithm in strategy.algorithms.items()]
    if strategy.channels is not None:
        parts.append(f"{strategy.channels} channels")
    return ", ".join(parts)
