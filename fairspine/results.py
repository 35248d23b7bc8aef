"""The results of planning and simulating: frozen values with read-only arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.paces import Paces, PacketSize
from controller.model.plan import Bound, Level, Plan
from controller.model.traffic import Traffic
from controller.planning.plan_document import plan_document
from controller.routing import PreviousPlan
from controller.routing.base import DEFAULT_PACES, PaceRule
from controller.routing.pacing.paces import wire_paces

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, eq=False)
class PlanResult:
    """A plan, with the fabric and the traffic that it is for.

    R rows (flow, path, share), ascending by flow; K collectives; E directed links. ``fabric.link_ids`` names the links,
    ``fabric.path_names`` the paths, ``collectives`` the collectives, and ``paces`` the rule of the hosts' rates.
    """

    fabric: Fabric
    traffic: Traffic
    plan: Plan
    paces: PaceRule = DEFAULT_PACES

    @property
    def policy(self) -> str:
        """Name of the policy."""
        return self.plan.policy

    @property
    def seconds(self) -> float:
        """Time that the policy itself took, in seconds."""
        return self.plan.seconds

    @property
    def min_speed(self) -> float:
        """Lowest speed of a collective: the ratio of its ideal time alone to its time in this plan; at most 1."""
        return self.plan.objective.min_speed

    @property
    def min_level(self) -> float:
        """Lowest level: speed over the weight of the job."""
        return self.plan.objective.min_level

    @property
    def levels(self) -> tuple[Level, ...]:
        """All levels, ascending, each with the proved bound."""
        return self.plan.objective.levels

    @property
    def bound(self) -> Bound:
        """Upper bounds of ``min_level`` of any plan."""
        return self.plan.bound

    @property
    def gap(self) -> float | None:
        """Bound over ``min_level``, minus 1; ``None`` where nothing is proved."""
        return self.plan.gap

    @cached_property
    def collectives(self) -> tuple[str, ...]:
        """[K] names, as ``job/collective``."""
        return tuple(f"{row.job}/{row.name}" for row in self.traffic.collectives)

    @property
    def speed(self) -> FloatArray:
        """[K] speed of each collective in (0, 1]; 0 where unroutable, NaN without flows on the network."""
        return read_only(self.plan.objective.speed)

    @property
    def ideal_seconds(self) -> FloatArray:
        """[K] seconds that each collective takes alone on the live fabric with free splitting."""
        return read_only(self.plan.objective.ideal_seconds)

    @property
    def flow(self) -> IntArray:
        """[R] flow index of each row."""
        return read_only(self.plan.assignment.flow)

    @property
    def path(self) -> IntArray:
        """[R] path of each row: an index into ``fabric.path_names``, ``LOCAL`` or ``UNROUTABLE``."""
        return read_only(self.plan.assignment.path)

    @property
    def share(self) -> FloatArray:
        """[R] part of the flow's bytes on this path."""
        return read_only(self.plan.assignment.share)

    @property
    def link_gbps(self) -> FloatArray:
        """[E] load of each directed link at these speeds, in Gbit/s."""
        return read_only(self.plan.objective.link_load)

    @property
    def unroutable(self) -> IntArray:
        """Indices of the flows that no live path joins."""
        return read_only(self.plan.unroutable)

    @cached_property
    def previous(self) -> PreviousPlan:
        """The paths, in the form that the next plan takes as ``previous``."""
        plan = self.plan
        return PreviousPlan.of(self.fabric, self.traffic, plan.assignment, plan.schedule, plan.classes)

    def document(self) -> dict[str, Any]:
        """Return the plan as plain data, as ``fairspine plan --format json`` prints it."""
        wire_gbps = wire_paces(
            self.fabric, self.traffic, self.plan.assignment, schedule=self.plan.schedule, rule=self.paces
        )
        paces = Paces(wire_gbps, PacketSize())
        document: dict[str, Any] = orjson.loads(
            orjson.dumps(plan_document(self.fabric, self.traffic, self.plan, paces))
        )
        return document

    def __repr__(self) -> str:
        """Return a summary: policy, number of flows, lowest speed and gap."""
        gap = "unknown" if self.gap is None else f"{self.gap:.3g}"
        return f"<PlanResult {self.policy}: {self.traffic.n_flows} flows, min_speed {self.min_speed:.4g}, gap {gap}>"


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """A simulation: N epochs of the jobs, in order of their ends.

    Attributes:
        policy: name of the policy that made the plans.
        job: [N] name of the job of each epoch.
        epoch: [N] number of the epoch within its job, from 0.
        began: [N] simulated seconds at which the epoch's communication began.
        ended: [N] simulated seconds at which it ended.
        ideal_seconds: by job, the least time that an epoch's communication can take on the healthy fabric alone.
        link_bytes: [E] bytes that each directed link carried.
        planning_seconds: [P] real time that each plan took.
        finished: simulated seconds at the end.
        stalled: whether some flow waited for a path until the end.
    """

    fabric: Fabric
    policy: str
    job: NDArray[np.str_]
    epoch: IntArray
    began: FloatArray
    ended: FloatArray
    ideal_seconds: Mapping[str, float]
    link_bytes: FloatArray
    planning_seconds: FloatArray
    finished: float
    stalled: bool

    def seconds(self, job: str) -> FloatArray:
        """Return the communication time [M] in seconds of each epoch of one job."""
        mine = self.job == job
        return read_only(self.ended[mine] - self.began[mine])

    @property
    def slowdown(self) -> dict[str, float]:
        """Mean epoch communication time over the ideal one, by job; NaN for a job that finished no epoch."""
        slowdowns = {}
        for name, ideal in self.ideal_seconds.items():
            seconds = self.seconds(name)
            slowdowns[name] = float(seconds.mean() / ideal) if len(seconds) and ideal > 0 else float("nan")
        return slowdowns

    def __repr__(self) -> str:
        """Return a summary: policy, number of epochs and slowdown of each job."""
        slowdown = ", ".join(f"{name} {value:.3g}" for name, value in self.slowdown.items())
        return f"<SimulationResult {self.policy}: {len(self.job)} epochs, slowdown {slowdown}>"


def read_only(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view
