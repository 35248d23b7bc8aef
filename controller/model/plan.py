"""Plan: an assignment, its objective, and the bounds of any plan."""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.assignment import Assignment
from controller.model.fabric import FloatArray, IntArray
from controller.model.priority import JobClass
from controller.model.timing import PlanTimes, Schedule


@dataclass(frozen=True)
class Level:
    """One step of the sorted levels: its value, the proved bound, and the number of collectives that share it.

    No plan with the same levels at lower positions has a higher one than ``bound`` here.
    """

    level: float
    bound: float | None
    collectives: int


@dataclass(frozen=True, eq=False)
class Objective:
    """Two-layer max-min fairness of an assignment (docs/explanation/objective.md).

    Attributes:
        ideal_seconds: [K] A_k, seconds collective k takes alone on the live fabric with free splitting; NaN where
            it has no flow on the network or is unroutable.
        healthy_seconds: [K] the same on the intended fabric with everything up.
        speed: [K] s_k = A_k / T_k in (0, 1]; 0 where unroutable, NaN without flows on the network.
        link_load: [E] Gbit/s on each link at these speeds.
        levels: speeds over weights, ascending, with equal ones merged; each round of a collective is one by itself.
        min_speed: the lowest speed, 0 if some flow is unroutable; 1 where no collective has flows on the network.
        min_level: the lowest level, of collectives whose flows all have a path; 1 where there are none.
        exact_phases: whether every combination of phases was examined (else the load is an upper bound).
        ideal_within: by what part an ideal time may be longer than ``ideal_seconds``, at most; 0: all are exact.
        flow_seconds: [F] in which each flow is sent, NaN where it has no path, if some collective is sent in rounds;
            ``None``: each flow is sent as long as its collective.
    """

    ideal_seconds: FloatArray
    healthy_seconds: FloatArray
    speed: FloatArray
    link_load: FloatArray
    levels: tuple[Level, ...]
    min_speed: float
    min_level: float
    exact_phases: bool = True
    ideal_within: float = 0.0
    flow_seconds: FloatArray | None = None


@dataclass(frozen=True)
class Bound:
    """Upper bounds on ``min_level`` of any plan; ``None`` where nothing is proved.

    Attributes:
        split: with flows split at will.
        single: with one path for each placement unit.
        split_exact: whether some way to split flows reaches ``split``; else it may be too high.
    """

    split: float | None = None
    single: float | None = None
    split_exact: bool = True


@dataclass(frozen=True, slots=True)
class Starved:
    """A class of priority on a link that the classes above it fill, so that it has its floor alone.

    Attributes:
        link: the id of the link.
        priority: the class that starves.
        work: of the classes above: the part of the time in which their packets need the link, at least 1.
    """

    link: str
    priority: int
    work: float


@dataclass(frozen=True, eq=False)
class Plan:
    """The result of a policy for one fabric and one traffic.

    Attributes:
        seconds: the policy's own time, without reading, compiling or printing.
        gap: bound / min_level - 1 for the bound that applies; ``None`` where there is none.
        unroutable: flow indices that no live path joins.
        times: expected iteration times over random phases, if some job states its computing times.
        schedule: when the iterations of these jobs begin, if the policy advises it.
        classes: the classes of priority that the policy chose, by job; of other jobs those that they state.
        starved: classes that starve on links, those with the most work above them first.
    """

    traffic_version: str
    policy: str
    assignment: Assignment
    objective: Objective
    bound: Bound
    gap: float | None
    unroutable: IntArray
    seconds: float
    status: str = "ok"
    times: PlanTimes | None = None
    schedule: Schedule | None = None
    starved: tuple[Starved, ...] = ()
    classes: tuple[JobClass, ...] = ()
