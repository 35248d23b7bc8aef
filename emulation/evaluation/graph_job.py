"""Jobs of a scenario that are task graphs, which ``fairspine replay`` simulates alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from controller.model.dag import Dag
from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.job import Job
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.placing import on_fabric
from controller.workload.importers.registry import importer
from controller.workload.importers.streams import open_sources
from controller.workload.placement.placement import Method, place
from emulation.evaluation.graph_steps import in_order
from emulation.evaluation.scenario_form import GraphForm


@dataclass(frozen=True, eq=False)
class GraphJob:
    """The job of a graph's messages, a flow for each pair of ranks, on hosts; and the graph."""

    job: Job
    dag: Dag


def load_graph(form: GraphForm, fabric: Fabric, taken: Collection[str], base: Path) -> GraphJob:
    """Read a task graph and place its ranks on hosts.

    Args:
        form: the entry of the scenario.
        fabric: the fabric of the scenario.
        taken: hosts that placement methods must not use.
        base: the folder that paths are relative to.

    Raises:
        InputError: the files cannot be read or contain no graph, the graph has a cycle, or there are too few hosts.
    """
    files = [base / name for name in form.files]
    read = importer(form.format)
    imported = read(open_sources(files), ImportRequest(name=form.name, graph=True))
    if imported.dag is None:
        raise InputError("contains no task graph: use goal, taskgraph or chakra .et files", source=str(files[0]))
    for _ in in_order(imported.dag, str(files[0])):
        pass
    try:
        job = on_fabric(imported, fabric, _hosts(form.placement, imported.job, fabric, taken, form.seed))
    except InputError as error:
        raise error.with_source(str(files[0])) from None
    return GraphJob(job, imported.dag)


def _hosts(
    placement: str | Sequence[str], job: Job, fabric: Fabric, taken: Collection[str], seed: int
) -> Sequence[str]:
    if not isinstance(placement, str):
        return placement
    up = np.array([host.up for host in fabric.hosts])
    free = [
        name
        for name, ports in zip(fabric.nic_names, fabric.planes.ports, strict=True)
        if up[ports].all() and name not in taken
    ]
    if placement == "in-order":
        if len(free) < len(job.hosts):
            raise InputError(f"{len(job.hosts)} ranks need as many hosts; {len(free)} are free", field="placement")
        return free[: len(job.hosts)]
    method: Method = "packed" if placement == "packed" else "scattered" if placement == "scattered" else "random"
    return place(fabric, job, method, seed, free)
