"""Fabrics, jobs and traffic from plain Python data: the same documents as in files and in the HTTP API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.files.fabric_file import parse_fabric
from controller.model.job import Job
from controller.model.traffic import Traffic
from controller.planning.live_traffic import live_traffic
from controller.workload.expand import ExpandedJobs
from controller.workload.job_file import parse_job


def fabric(document: Mapping[str, Any]) -> Fabric:
    """Return the fabric that a document describes (docs/reference/files.md has both forms).

    Raises:
        InputError: a field is invalid; it names the first one.
    """
    return parse_fabric(dict(document))


def job(name: str, *, hosts: Sequence[str] = (), **fields: Any) -> Job:
    """Return a job.

    Args:
        name: the name of the job.
        hosts: names of hosts of the fabric; ``hosts[i]`` is where rank i runs.
        fields: the other fields of a job document (docs/reference/files.md): ``collectives``, ``flows``, ``matrix``,
            ``weight`` and so on.

    Raises:
        InputError: a field is invalid; it names the first one.
    """
    document = {"name": name, **({"hosts": list(hosts)} if len(hosts) else {}), **fields}
    return parse_job(_plain(document))


def traffic(fabric: Fabric, jobs: Traffic | Iterable[Job]) -> Traffic:
    """Return every flow of some jobs on a fabric; a ``Traffic`` is returned as it is.

    UDP source ports are assigned in the order of the jobs, as the controller assigns them.

    Raises:
        InputError: two jobs have the same name, or a job does not fit the fabric.
    """
    if isinstance(jobs, Traffic):
        return jobs
    every = list(jobs)
    distinct: dict[str, Job] = {}
    for each in every:
        if each.name in distinct:
            break
        distinct[each.name] = each
    expanded = ExpandedJobs(fabric)
    try:
        expanded.expand(list(distinct.values()))
    except InputError as error:
        raise error.with_source(every[len(expanded.jobs)].name) from None
    if len(distinct) < len(every):
        raise InputError("a previous job has this name", field="name", value=every[len(distinct)].name)
    return live_traffic(fabric, expanded.jobs)


def _plain(value: Any) -> Any:
    """Return a document with NumPy values and tuples converted to the plain types that the checks expect."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(each) for each in value]
    return value
