"""The objective: two-layer max-min fairness of an assignment (docs/explanation/objective.md)."""

from __future__ import annotations

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray
from controller.model.plan import Level, Objective
from controller.model.tolerances import ROUNDING, TOLERANCE
from controller.model.traffic import Traffic
from controller.routing.objective.incidence import Incidence
from controller.routing.problem.demand import Demand
from controller.routing.problem.rounds import as_sent, summed


def evaluate(fabric: Fabric, traffic: Traffic, assignment: Assignment, *, demand: Demand | None = None) -> Objective:
    """Evaluate an assignment: levels, speeds and ideal times.

    Two collectives of one flow each, from different hosts of leaf 1 to different hosts of leaf 2. Over two spines each
    has speed 1; over one spine they share an uplink and each has half:

    >>> from controller.model.files.clos import clos
    >>> from controller.model.traffic import Collective
    >>> one = np.array([0, 1], np.int32)
    >>> jobs = (Collective("a", "c"), Collective("b", "c"))
    >>> traffic = Traffic(one, one + 2, np.array([10**9, 10**9]), one, one * 0, one + 49152, jobs)
    >>> evaluate(clos(2, 2, 2), traffic, Assignment.single(np.array([0, 1]))).speed
    array([1., 1.])
    >>> evaluate(clos(2, 2, 2), traffic, Assignment.single(np.array([1, 1]))).speed
    array([0.5, 0.5])

    Args:
        fabric: the fabric.
        traffic: the flows.
        assignment: the paths of all flows.
        demand: ``Demand.of(fabric, as_sent(traffic))`` if the caller has it already.
    """
    demand = demand or Demand.of(fabric, as_sent(traffic))
    parts = demand.traffic
    incidence = Incidence.of(demand, assignment)
    level, exact = incidence.levels(demand)
    speed = np.minimum(level * parts.weight, 1.0)
    load = incidence.loads(demand, speed)
    # Filling adds up loads of flows, so the last bit of a level may be above what a speed of 1 allows.
    most, bounds = 1.0 / parts.weight, level_bounds(demand)
    steps = merged_levels(np.minimum(level, most), None if bounds is None else np.minimum(bounds, most), parts.weight)
    # A collective that has speed 1 proves that it needs no longer than its ideal time.
    within = float(demand.ideal_within.max(initial=0.0, where=~(speed >= 1 - ROUNDING)))
    ideal = summed(traffic, parts, demand.ideal_seconds)
    healthy = summed(traffic, parts, demand.without_failures().ideal_seconds)
    in_rounds = len(parts.collectives) > len(traffic.collectives)
    flow_seconds = (demand.ideal_seconds / speed)[parts.collective] if in_rounds else None
    speed = of_collectives(traffic, demand, speed)
    has_flows = np.bincount(traffic.collective, minlength=len(traffic.collectives)) > 0
    speed[np.isnan(speed) & has_flows] = 0.0
    if flow_seconds is not None:
        flow_seconds[speed[traffic.collective] == 0] = np.nan
    return Objective(
        ideal_seconds=ideal,
        healthy_seconds=healthy,
        speed=speed,
        link_load=load,
        levels=steps,
        min_speed=float(speed[has_flows & ~np.isnan(speed)].min(initial=1.0)),
        min_level=steps[0].level if steps else 1.0,
        exact_phases=exact,
        ideal_within=within,
        flow_seconds=flow_seconds,
    )


def of_collectives(traffic: Traffic, demand: Demand, speed: FloatArray) -> FloatArray:
    """Return the speeds [K] of collectives from those of their rounds: seconds of all rounds alone over those taken.

    Args:
        traffic: the flows.
        demand: of the flows as they are sent.
        speed: of the collectives of ``demand``.
    """
    parts = demand.traffic
    if len(parts.collectives) == len(traffic.collectives):
        return speed
    alone, took = (summed(traffic, parts, each) for each in (demand.ideal_seconds, demand.ideal_seconds / speed))
    # Rounding must not make a collective faster than alone.
    return np.minimum(alone / took, 1.0)


def merged_levels(level: FloatArray, bound: FloatArray | None, weight: FloatArray | None = None) -> tuple[Level, ...]:
    """Return levels [K] (NaN: none) sorted ascending, equal ones merged; ``bound`` [K] holds those of the relaxation.

    Both are sorted, and a step carries the bound at the position of its first collective. That of the relaxation holds
    while all collectives at lower positions reach theirs: what one of them leaves, others may take. After the first
    that does not, only the largest level that these weights [K] (``None``: all 1) allow is a bound.
    """
    has_level = ~np.isnan(level)
    values = np.sort(level[has_level])
    limits = None
    if bound is not None:
        limits = np.sort(bound[~np.isnan(bound)])
        missing = np.flatnonzero(values < limits * (1 - TOLERANCE))
        if len(missing):
            most = np.ones(len(values)) if weight is None else np.sort(1.0 / weight[has_level])
            limits[missing[0] + 1 :] = most[missing[0] + 1 :]
    steps: list[Level] = []
    at = 0
    while at < len(values):
        after = int(np.searchsorted(values, values[at] * (1 + TOLERANCE), side="right"))
        steps.append(Level(float(values[at]), None if limits is None else float(limits[at]), after - at))
        at = after
    return tuple(steps)


def relaxed_levels(demand: Demand) -> FloatArray | None:
    """Return the best levels [K] with free splitting, where the live paths of two leaves are alike; else ``None``."""
    if not demand.fabric.paths_alike:
        return None
    level, _ = Incidence.relaxed(demand).levels(demand)
    return level


def level_bounds(demand: Demand) -> FloatArray | None:
    """Return bounds [K] of the sorted levels, in any order; ``None`` where the lowest needs the linear program.

    With several phases a collective's level is its worst over combinations: only the lowest level of the relaxation is
    then a bound, and the only bound of the others is that speeds are at most 1.
    """
    relaxed = relaxed_levels(demand)
    if relaxed is None or len(demand.group_job) == 1 or np.isnan(relaxed).all():
        return relaxed
    most = np.where(np.isnan(relaxed), np.nan, np.maximum(1.0 / demand.traffic.weight, np.nanmin(relaxed)))
    most[np.nanargmin(relaxed)] = np.nanmin(relaxed)
    return most


def compare_levels(one: FloatArray, other: FloatArray) -> int:
    """Return 1 if levels ``one`` [K] are lexicographically better than ``other``, -1 if worse, 0 if equal."""
    a, b = np.sort(one[~np.isnan(one)]), np.sort(other[~np.isnan(other)])
    differs = np.flatnonzero(np.abs(a - b) > TOLERANCE * np.maximum(a, b))
    return 0 if not len(differs) else (1 if a[differs[0]] > b[differs[0]] else -1)
