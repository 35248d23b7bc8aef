"""The jobs of the paper's evaluation, from the traffic files of its simulator.

``ofircohen205/dcn-simulators`` (MIT) has a folder ``concurrent_jobs_J/ring_size_R`` a scenario and a file a job; the
fabric (64 leaves, 32 spines, 32 hosts a leaf, 100 Gbit/s) is in ``topology.properties``. The importer ``traffic-pairs``
reads the rings; here the times are added that a job of the controller does not have.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric
from controller.model.units import NANOSECOND
from controller.workload.importers.base import ImportRequest
from controller.workload.importers.streams import open_sources
from controller.workload.importers.traffic_pairs import read
from emulation.evaluation.timed_job import TimedJob

START, COMPUTING = 4, 6
"""Columns of a file, in nanoseconds."""


def folder_of(root: Path, jobs: int, ring: int) -> Path:
    """Return the folder of a scenario of the paper."""
    return root / f"concurrent_jobs_{jobs}" / f"ring_size_{ring}"


def jobs_of_folder(fabric: Fabric, folder: Path, epochs: int) -> tuple[TimedJob, ...]:
    """Return one job per file, in order of the file names. Ring sizes are those of the files, not of the folder name.

    Raises:
        InputError: there is no file, or a file is invalid.
    """
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise InputError("holds no traffic file (*.txt)", source=str(folder))
    return tuple(_job(fabric, path, epochs) for path in files)


def _job(fabric: Fabric, path: Path, epochs: int) -> TimedJob:
    imported = read(open_sources([path], None), ImportRequest(name=None, fabric=fabric))
    if not imported.placed:
        raise InputError(f"its hosts are not those of the fabric: {imported.notes[-1]}", source=str(path))
    # The importer has checked every field by now.
    times = np.loadtxt(path, dtype=np.int64, usecols=(START, COMPUTING), ndmin=2) * NANOSECOND
    job = dataclasses.replace(imported.job, name=path.stem)
    return TimedJob(
        job,
        compute_seconds=float(times[:, 1].max()),
        epochs=epochs,
        start=float(times[:, 0].min()),
        source=str(path),
    )
