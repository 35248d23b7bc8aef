"""Importer ``goal``: schedules of LogGOPSim and ATLAHS, as text or in the binary form of their ``txt2bin``.

A schedule has a graph for each rank: ``calc`` (ns), ``send`` and ``recv``, and which of them ``requires`` which
(Hoefler, Siebert, Lumsdaine, Group Operation Assembly Language, ICPP 2009). Sends and receives of two ranks with one
tag match in their order; a warning names those without a match. A message begins when the send may, and the send and
the receive have ended when it has arrived. ``irequires`` waits for the other's start: here for its dependencies.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.dags import imported
from controller.workload.importers.fabrics.graph import one
from controller.workload.importers.fields import job_name
from controller.workload.importers.goal.binary import MAGIC, read_binary
from controller.workload.importers.goal.match import GoalSchedule
from controller.workload.importers.goal.text import read_text
from controller.workload.importers.head import Head, head_of


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if head.data.startswith(MAGIC):
        return "a GOAL schedule, binary (LogGOPSim, ATLAHS)"
    if any(line.split()[:1] == ["num_ranks"] for line in head.lines[:50]):
        return "a GOAL schedule (LogGOPSim, ATLAHS)"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a job, and the graph of its tasks.

    Raises:
        InputError: a line or a field is invalid, or a receive has another size than its send.
    """
    source = one(sources, "GOAL")
    schedule = GoalSchedule(source)
    if head_of(source).data.startswith(MAGIC):
        read_binary(source, schedule)
    else:
        read_text(source, schedule)
    dag = schedule.dag()
    return imported(dag, request.name or job_name(source, "goal"), source.name, warnings=tuple(schedule.warnings[:3]))
