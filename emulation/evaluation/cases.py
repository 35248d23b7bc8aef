"""Cases of a scenario, built from its description of jobs: named sets of jobs on the scenario's fabric."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Algorithm, CollectiveCall, Job, Op
from controller.model.queue_pairs import ONE_QP, QueuePairs
from controller.model.traffic import Int64Array
from controller.workload.collectives import ALGORITHMS
from controller.workload.job_file import load_job, parse_job
from controller.workload.placement.placement import participants
from emulation.evaluation.data_files import folder_of, jobs_of_folder
from emulation.evaluation.generator import SHAPES, Mix, generate
from emulation.evaluation.graph_job import load_graph
from emulation.evaluation.scenario_form import CaseForm, FilesForm, GeneratedForm, JobRow, ScenarioCollectiveForm
from emulation.evaluation.timed_job import TimedJob, scaled, sending_at_once, simulated_jobs
from emulation.fluid.schedule import SimulatedJob


@dataclass(frozen=True, eq=False)
class Case:
    """A set of jobs.

    Attributes:
        kind: ``files``, ``generated``, ``jobs`` or ``collective``, or the name that the scenario gives it: cases of
            one kind are averaged.
        name: its own.
        described: the same jobs as they were described.
        ring: number of ranks of its rings, where the scenario gives it.
        qps: the QPs of connections of jobs that do not say.
    """

    kind: str
    name: str
    jobs: tuple[SimulatedJob, ...]
    described: tuple[TimedJob, ...] = ()
    ring: int | None = None
    qps: QueuePairs = ONE_QP


def cases_of(fabric: Fabric, form: CaseForm, epochs: int, base: Path) -> Iterator[Case]:
    """Yield the cases of one entry of a scenario.

    Args:
        fabric: the fabric of the scenario.
        form: the entry.
        epochs: number of epochs of jobs that do not have one.
        base: the folder that paths are relative to.

    Raises:
        InputError: a file (which is named) or a field of the entry is invalid.
    """
    if form.jobs is not None:
        named = _of_jobs(fabric, form.jobs, epochs, base)
    elif form.files is not None:
        named = _of_files(fabric, form.files, epochs, base)
    elif form.generated is not None:
        named = _of_seeds(fabric, form.generated, epochs)
    else:
        assert form.collective is not None
        named = _of_collective(fabric, form.collective, epochs)
    for name, described, ring in named:
        jobs = tuple(scaled(job, form.scale) for job in described)
        if form.at_once:
            jobs = tuple(map(sending_at_once, jobs))
        for count in form.qps:
            qps = QueuePairs(count, form.qp_mode)
            suffix = form.qps_suffix(count)
            yield Case(form.kind + suffix, name + suffix, simulated_jobs(fabric, jobs, qps), jobs, ring, qps)


_Named = tuple[str, tuple[TimedJob, ...], int | None]
"""A case's name, its jobs, and the size of their rings."""


def _of_jobs(fabric: Fabric, rows: list[JobRow], epochs: int, base: Path) -> Iterator[_Named]:
    jobs: list[TimedJob] = []
    for i, row in enumerate(rows):
        times = row.compute_seconds, row.epochs or epochs, row.start, row.pieces
        if row.graph is None:
            assert row.job is not None
            job, source = _described(row.job, f"jobs[{i}].job", base)
            jobs.append(TimedJob(job, *times, source))
        else:
            taken = {host for other in jobs for host in participants(other.job)}
            graph = load_graph(row.graph, fabric, taken, base)
            jobs.append(TimedJob(graph.job, *times, str(base / row.graph.files[0]), graph.dag))
    yield "+".join(each.job.name for each in jobs), tuple(jobs), None


def _described(given: str | dict[str, Any], field: str, base: Path) -> tuple[Job, str]:
    """Return a job from a file name or a document, and the source that errors name."""
    if isinstance(given, str):
        return load_job(base / given), str(base / given)
    try:
        return parse_job(given), ""
    except InputError as error:
        raise InputError(error.reason, field=f"{field}.{error.field}", value=error.value) from None


def _of_files(fabric: Fabric, form: FilesForm, epochs: int, base: Path) -> Iterator[_Named]:
    root = base / form.folder
    if not root.is_dir():
        if form.optional:
            return
        raise InputError("the folder does not exist", field="files.folder", value=str(root))
    for jobs in form.jobs:
        for ring in form.rings:
            folder = folder_of(root, jobs, ring)
            if folder.is_dir():
                yield f"{jobs} jobs, rings of {ring}", jobs_of_folder(fabric, folder, epochs), ring


def _of_seeds(fabric: Fabric, form: GeneratedForm, epochs: int) -> Iterator[_Named]:
    for i, model in enumerate(form.models):
        if model not in SHAPES:
            raise InputError(f"must be one of {', '.join(SHAPES)}", field=f"generated.models[{i}]", value=model)
    for jobs in form.jobs:
        for ring in form.rings:
            for seed in form.seeds:
                mix = Mix(
                    jobs,
                    ring,
                    form.models,
                    form.placement,
                    form.unequal,
                    form.all_to_all_bytes,
                    form.come_and_go_seconds,
                )
                name = f"{jobs} jobs, rings of {ring}" + (f", seed {seed}" if len(form.seeds) > 1 else "")
                yield name, generate(fabric, mix, epochs, seed), ring


def _of_collective(fabric: Fabric, form: ScenarioCollectiveForm, epochs: int) -> Iterator[_Named]:
    nics = fabric.nic_names
    size, rest = divmod(len(nics), form.groups)
    if rest or size < 2:
        raise InputError(
            f"{len(nics)} hosts cannot be divided into groups of equal size",
            field="collective.groups",
            value=form.groups,
        )
    for i, algorithm in enumerate(form.algorithms):
        if algorithm not in ALGORITHMS[form.op]:
            raise InputError(
                f"{form.op} supports {', '.join(ALGORITHMS[form.op])}",
                field=f"collective.algorithms[{i}]",
                value=algorithm,
            )
        for many, seed in itertools.product(form.bytes, form.seed):
            hosts = tuple(nics[nic] for nic in _nic_order(fabric, form.order, seed).tolist())
            name, per_job = f"{algorithm}-{many}", 1 if form.each_a_job else form.groups
            jobs = [
                Job(
                    name if per_job == form.groups else f"{name}-{first}",
                    hosts=hosts[first * size : (first + per_job) * size],
                    collectives=tuple(
                        call
                        for g in range(per_job)
                        for call in _calls(f"group{g}", form.op, range(g * size, (g + 1) * size), many, algorithm)
                    ),
                )
                for first in range(0, form.groups, per_job)
            ]
            suffix = f", seed {seed}" if len(form.seed) > 1 else ""
            timed = tuple(TimedJob(job, epochs=epochs, pieces=form.pieces) for job in jobs)
            yield f"{algorithm}, {many / 1e6:g} MB{suffix}", timed, None


def _calls(name: str, op: Op, group: range, many: int, algorithm: Algorithm) -> Iterator[CollectiveCall]:
    """Yield the collective of a group; of ``send_recv`` one from each rank to the next."""
    ranks = tuple(group)
    if op != "send_recv":
        yield CollectiveCall(name, op, ranks, many, algorithm)
        return
    for rank, after in zip(ranks, (*ranks[1:], ranks[0]), strict=True):
        yield CollectiveCall(f"{name}.{rank}", op, (rank, after), many, algorithm)


def _nic_order(fabric: Fabric, order: str, seed: int) -> Int64Array:
    """Return [N] the NIC of each rank of a drawn collective."""
    first_port = fabric.planes.ports[:, 0]
    if order == "in_order":
        return np.arange(len(first_port))
    drawn = np.random.default_rng(seed).permutation(len(first_port))
    if order == "random":
        return drawn
    pod = fabric.pod_of_leaf[fabric.host_leaf[first_port[drawn]]]
    hosts = np.bincount(pod)
    if len(hosts) < 2 or len(np.unique(hosts)) > 1:
        raise InputError("needs two or more pods of as many hosts each", field="collective.order", value=order)
    by_pod: Int64Array = drawn[np.argsort(pod, kind="stable")].reshape(len(hosts), -1)
    return by_pod.T.reshape(-1)
