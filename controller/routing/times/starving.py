"""Classes of priority that starve: the work of higher classes fills a link, so that a class has its floor alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, FloatArray
from controller.model.plan import Starved
from controller.model.priority import CLASSES
from controller.model.tolerances import ROUNDING
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.times.stages import Stages


def starved(demand: Demand, assignment: Assignment) -> tuple[Starved, ...]:
    """Return the classes that starve under an assignment, those with the most work above them first.

    The work of a job on a link is the seconds in which its packets fill the link in an iteration, divided by the
    iteration without other jobs. That lasts at least as long as the job needs its busiest link, so no job fills a
    link by itself before its lowest class is through.
    """
    if not any(row.priority for row in demand.traffic.collectives):
        return ()
    stages = Stages.of(demand)
    if not len(stages.row):
        return ()
    above, starves = _above(_work(stages, assignment))
    link, priority = np.nonzero(starves)
    names = demand.fabric.link_ids
    made = [Starved(names[e], q, float(above[e, q])) for e, q in zip(link.tolist(), priority.tolist(), strict=True)]
    return tuple(sorted(made, key=lambda each: (-each.work, each.link, each.priority)))


def any_starves(stages: Stages, assignment: Assignment) -> bool:
    """Return whether some class starves on a link, if the jobs have the classes of ``stages``."""
    return bool(_above(_work(stages, assignment))[1].any())


def _above(work: FloatArray) -> tuple[FloatArray, BoolArray]:
    """Return the work [E, Q] of the classes above each one, and whether that one starves."""
    above = np.cumsum(work[:, ::-1], axis=1)[:, ::-1] - work
    return above, (above >= 1.0 - ROUNDING) & (work > ROUNDING)


def _work(stages: Stages, assignment: Assignment) -> FloatArray:
    """Return the work [E, Q] of each class on each link."""
    incidence = Incidence.of(stages.demand, assignment)
    n_links = len(incidence.capacity)
    stage_of = np.full(len(stages.demand.traffic.collectives), -1, dtype=np.int64)
    stage_of[stages.row] = np.arange(len(stages.row))
    link = np.repeat(np.arange(n_links), np.diff(incidence.link_ptr))
    stage = stage_of[incidence.link_coll]
    kept = (stage >= 0) & (incidence.capacity[link] > 0)
    link, stage = link[kept], stage[kept]
    seconds = incidence.link_gbps[kept] / incidence.capacity[link] * stages.send[stage]
    job = stages.job[stage]
    pair, place = np.unique(job.astype(np.int64) * n_links + link, return_inverse=True)
    busiest = np.zeros(len(stages.names))
    np.maximum.at(busiest, pair // n_links, np.bincount(place.reshape(-1), weights=seconds))
    period = np.maximum(stages.alone, busiest)
    work = np.zeros((n_links, CLASSES))
    np.add.at(work, (link, stages.priority[stage]), seconds / period[job])
    return work


def starved_line(rows: Sequence[Starved]) -> str:
    """Return the line by which people are told of classes that starve, of which there is at least one."""
    first = rows[0]
    more = f"; {len(rows) - 1} more on links" if len(rows) > 1 else ""
    return (
        f"class {first.priority} starves down to its floor on {first.link}: packets of the classes above need this "
        f"link {first.work:.2f} of the time{more}"
    )
