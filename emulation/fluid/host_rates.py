"""What hosts do with their rates: keep the paces of a plan, or share links as unevenly as packets do.

Both need no other way to share links: a limit of a mover is a link of its own, and an uneven share is another load for
the same rate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import Fabric, FloatArray, IntArray
from controller.model.timing import Schedule
from controller.model.traffic import Int64Array, Traffic
from controller.routing.base import DEFAULT_PACES, PaceRule
from controller.routing.pacing.contention import Contention
from controller.routing.pacing.paces import wire_paces
from emulation.fluid.replanning import part_of
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.state import Movers


@dataclass(frozen=True)
class HostSharing:
    """How unevenly hosts without paces share links, which depends on their congestion control.

    Attributes:
        spread: standard deviation of the logarithm of a flow's weight among those with which it shares a link.
        alone: part of a link that a flow takes of which others could have a part: it needs time to grow after they have
            ended.
    """

    spread: float
    alone: float


NSCC = HostSharing(0.472, 0.9)
"""Ultra Ethernet's congestion control, as htsim simulates it.

Of two flows, the faster one has 61 % in the median and 75 % in the 90th percentile, from which the spread follows. The
other number is chosen such that rings of 1 MB a step take as long as with packets (docs/reference/simulator.md).
"""

DCTCP = HostSharing(0.14, 1.0)
"""DCTCP from a window of one bandwidth-delay product, as our packet engine simulates it (docs/reference/referee.md)."""


def in_turns(jobs: Sequence[SimulatedJob]) -> frozenset[str]:
    """Return the jobs of which it is not known when they send.

    Not all flows of a collective send in each step, and its traffic has no rounds.
    """
    names = []
    for job in jobs:
        schedule, traffic = job.schedule, job.traffic
        named = max(len(traffic.collectives), int(schedule.collective.max(initial=-1)) + 1)
        each = np.bincount(traffic.collective, minlength=named)
        # A flow with several QPs is several flows, which send in the same step.
        sent = np.bincount(schedule.group, minlength=schedule.n_groups)
        rounds = np.array([bool(row.rounds) for row in traffic.collectives] + [False] * named, dtype=np.bool_)
        whole = (sent == 0) | (sent == each[schedule.collective]) | rounds[schedule.collective]
        computes = job.compute_seconds > 0 and not any(row.timing for row in traffic.collectives)
        if not whole.all() or (schedule.delay > 0).any() or computes:
            names.append(job.name)
    return frozenset(names)


def paces_of(
    fabric: Fabric,
    traffic: Traffic,
    assignment: Assignment,
    flows: Int64Array,
    schedule: Schedule | None,
    varying: Collection[str],
    rule: PaceRule = DEFAULT_PACES,
) -> FloatArray:
    """Return the paces [R] of the rows of an assignment in Gbit/s; infinite where a row is not paced.

    Args:
        fabric: the fabric as it is.
        traffic: of all jobs.
        assignment: the paths of its flows.
        flows: those of the jobs that are present, ascending.
        schedule: when iterations begin.
        varying: jobs of which it is not known when they send.
        rule: how rates are divided among jobs that share links.
    """
    rows, present = _present(assignment, flows)
    limit = np.full(assignment.n_rows, np.inf)
    paces = wire_paces(fabric, part_of(traffic, flows), present, schedule=schedule, varying=varying, rule=rule)
    limit[rows] = np.where(np.isnan(paces), np.inf, paces)
    return limit


def uneven(
    fabric: Fabric, traffic: Traffic, assignment: Assignment, flows: Int64Array, seed: int, sharing: HostSharing
) -> tuple[FloatArray, FloatArray]:
    """Return the limits [R] in Gbit/s and the weights [R] of the rows of an assignment where hosts keep no pace.

    Args:
        fabric: the fabric as it is.
        traffic: of all jobs.
        assignment: the paths of its flows.
        flows: those of the jobs that are present, ascending.
        seed: of the weights, which a flow keeps.
        sharing: how uneven they are.
    """
    rows, present = _present(assignment, flows)
    shared = rows[Contention.of(fabric, part_of(traffic, flows), present).contends]
    limit, weight = np.full(assignment.n_rows, np.inf), np.ones(assignment.n_rows)
    drawn = np.exp(sharing.spread * np.random.default_rng([seed, 2]).standard_normal(traffic.n_flows))
    flow = assignment.flow[shared]
    ends = np.minimum(fabric.link_gbps[traffic.src[flow]], fabric.link_gbps[fabric.n_hosts + traffic.dst[flow]])
    limit[shared], weight[shared] = sharing.alone * ends, drawn[flow]
    return limit, weight


def limited(movers: Movers, first_link: int, weight: FloatArray) -> Movers:
    """Return movers with a link of their own each, whose capacity is their limit.

    Args:
        movers: of one row each.
        first_link: number of the link of the first mover.
        weight: [M] shares of full links are in these proportions.
    """
    own = (first_link + np.arange(len(weight), dtype=np.int32))[:, None]
    link: IntArray = np.ascontiguousarray(np.concatenate([movers.link, own], axis=1))
    return movers._replace(link=link, amount=movers.amount / weight, load=movers.load * weight)


def in_classes(movers: Movers, share: FloatArray) -> Movers:
    """Return movers whose shares [M] of full links are in these proportions; the same for empty ones."""
    return (
        movers._replace(amount=movers.amount / share, load=movers.load * share[movers.row_mover])
        if len(share)
        else movers
    )


def _present(assignment: Assignment, flows: Int64Array) -> tuple[Int64Array, Assignment]:
    """Return the rows of some flows, and these as an assignment of the traffic of these flows alone."""
    rows = np.flatnonzero(np.isin(assignment.flow, flows))
    flow = np.searchsorted(flows, assignment.flow[rows]).astype(np.int32)
    return rows, Assignment(flow, assignment.path[rows], assignment.share[rows])
