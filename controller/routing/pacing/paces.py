"""The rates of paced flows: a pure function of fabric, jobs, paths and shifts (docs/explanation/objective.md, "Paces").

A row is paced where that binds and is safe. It binds on a link between switches that planned flows can overfill, and
beside rows on such links that leave or reach the same hosts. It is safe where the rate of the flow does not change
while it is sent: all jobs that its job meets send all the time, or the job meets none while it sends.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.timing import Schedule
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array, Traffic
from controller.model.waits import FOR_COMPUTING
from controller.routing.base import DEFAULT_PACES, PaceRule
from controller.routing.objective.incidence import Incidence
from controller.routing.pacing.contention import Contention
from controller.routing.pacing.room import with_room
from controller.routing.problem.alike_phases import first_alike, kept_rows
from controller.routing.problem.demand import Demand
from controller.routing.problem.one_peer import has_one_peer
from controller.routing.problem.rounds import by_rounds, parts_of_rounds
from controller.routing.times.stages import Stages

FREE = 0.01
"""Part of links that stays free where hosts send to several others at once: where many flows meet at the rate of the
link, their packets make queues, which congestion control takes for too much, and some flows then miss their pace."""


def wire_paces(
    fabric: Fabric,
    traffic: Traffic,
    assignment: Assignment,
    *,
    schedule: Schedule | None = None,
    varying: Collection[str] = (),
    rule: PaceRule = DEFAULT_PACES,
) -> FloatArray:
    """Return the rates [R] in Gbit/s that hosts are asked to keep, headers included; NaN where they are asked for none.

    Two flows from different hosts of leaf 1 to different hosts of leaf 2 share an uplink, or do not:

    >>> from controller.model.files.clos import clos
    >>> from controller.model.traffic import Collective
    >>> one = np.array([0, 1], np.int32)
    >>> jobs = (Collective("a", "c"), Collective("b", "c"))
    >>> traffic = Traffic(one, one + 2, np.array([10**9, 10**9]), one, one * 0, one + 49152, jobs)
    >>> wire_paces(clos(2, 2, 2), traffic, Assignment.single(np.array([1, 1])))
    array([50., 50.])
    >>> wire_paces(clos(2, 2, 2), traffic, Assignment.single(np.array([0, 1])))
    array([nan, nan])

    Args:
        fabric: of the plan: with headroom and background load taken off.
        traffic: the flows.
        assignment: their paths.
        schedule: when iterations begin, if hosts are told.
        varying: jobs of which it is not known when they send.
        rule: how rates are divided among jobs that share links.
    """
    first = first_alike(traffic)
    row = None if first is None else kept_rows(first, assignment)
    if first is not None and row is not None:
        # Phases that load the same links alike are one: a job that has no others sends all the time, at one rate.
        own = first == np.arange(traffic.n_flows)
        rows = np.flatnonzero(own[assignment.flow])
        number = np.cumsum(own, dtype=np.int32) - 1
        part = Assignment(number[assignment.flow[rows]], assignment.path[rows], assignment.share[rows])
        made = _wire_paces(fabric, traffic.of_flows(np.flatnonzero(own)), part, schedule, varying, rule)
        return made[np.searchsorted(rows, row)]
    return _wire_paces(fabric, traffic, assignment, schedule, varying, rule)


def _wire_paces(
    fabric: Fabric,
    traffic: Traffic,
    assignment: Assignment,
    schedule: Schedule | None,
    varying: Collection[str],
    rule: PaceRule,
) -> FloatArray:
    """Return the paces [R] of ``wire_paces`` of flows of which each has paths of its own."""
    traffic = by_rounds(traffic)
    gbps = np.full(assignment.n_rows, np.nan)
    contention = Contention.of(fabric, traffic, assignment)
    if not contention.contends.any():
        return gbps
    job_of_row = traffic.job_index[traffic.collective[assignment.flow]]
    concerned = np.unique(contention.group[job_of_row[contention.contends]])
    stages = Stages.on(fabric, traffic)
    which = _Jobs.of(fabric, traffic, assignment, stages, contention.group, schedule, varying)
    incidence = Incidence.of(stages.demand, assignment)
    speed = np.full(len(stages.demand.traffic.collectives), np.nan)
    group = which.group[stages.job]
    concern = np.isin(group, concerned)
    together = np.zeros(len(speed), dtype=np.bool_)
    together[stages.row[concern & np.isin(group, which.steady)]] = True
    apart = stages.row[concern & np.isin(group, which.apart)]
    weight = _weights(stages.demand, together, rule)
    flow = assignment.flow
    merged = stages.demand.traffic
    rate = np.full(assignment.n_rows, np.nan)
    waited_for = has_one_peer(traffic)[traffic.collective[flow]]
    for active in (together, *(np.arange(len(speed)) == row for row in apart.tolist())):
        if active.any():
            level = incidence.levels_among(stages.demand, active, weight)
            speed[active] = np.minimum(level * weight, 1.0)[active]
            own = np.flatnonzero(active[merged.collective[flow]])
            least = (stages.demand.gbps * speed[merged.collective])[flow[own]] * assignment.share[own]
            rate[own] = with_room(fabric, traffic, assignment, own, least, waited_for[own])
    forwards = np.array([row.forwards for row in merged.collectives], dtype=np.bool_)
    if (forwards & ~np.isnan(speed)).any():
        passed_on = forwards[merged.collective[flow]] & ~np.isnan(rate)
        rate[passed_on] = (_by_hosts(fabric, traffic)[flow] * assignment.share)[passed_on]
    sent = fabric.link_gbps[traffic.src[flow]]
    received = fabric.link_gbps[fabric.n_hosts + traffic.dst[flow]]
    with np.errstate(invalid="ignore"):
        binds = contention.contends & (rate > 0) & (rate < np.minimum(sent, received) * (1 - TOLERANCE))
    gbps[binds] = rate[binds]
    many = binds & ~waited_for & ~forwards[merged.collective[flow]]
    joined = contention.group[job_of_row]
    gbps[np.isin(joined, joined[many])] *= 1 - FREE
    return gbps


def _weights(demand: Demand, together: BoolArray, rule: PaceRule) -> FloatArray:
    """Return the speeds [K] of collectives that progressive filling keeps in proportion.

    Args:
        demand: of the stages.
        together: [K] those that are sent at once. The others are sent as if alone, and need no proportion.
        rule: how rates are divided among them.
    """
    traffic = demand.traffic
    if rule == "levels" or not together.any():
        return traffic.weight
    flows = np.flatnonzero(together[traffic.collective])
    collective, gbps = traffic.collective[flows], demand.gbps[flows]
    # Gbit/s of the busiest host of each collective at speed 1: it has `weight` Gbit/s at a level of 1.
    busiest = np.zeros(len(traffic.weight))
    for host in (traffic.src[flows], traffic.dst[flows]):
        pairs, at = np.unique(collective.astype(np.int64) << 32 | host, return_inverse=True)
        np.maximum.at(busiest, pairs >> 32, np.bincount(at, weights=gbps))
    return np.divide(traffic.weight, busiest, out=traffic.weight.copy(), where=busiest > 0)


def _by_hosts(fabric: Fabric, traffic: Traffic) -> FloatArray:
    """Return the rates [F] in Gbit/s of flows of trees if only those limit them that share an end with them in a tree.

    Of other flows it is not known whether they are sent at the same time: where data is in few pieces, those of other
    trees or steps are not. So no flow is too slow, and two children do not send faster than their parent receives.

    Args:
        fabric: whose links of hosts limit them.
        traffic: by rounds.
    """
    _, part = parts_of_rounds(traffic)
    size = traffic.bytes.astype(np.float64)
    rate: FloatArray = np.full(traffic.n_flows, np.inf)
    for host, gbps in ((traffic.src, fabric.link_gbps), (traffic.dst, fabric.link_gbps[fabric.n_hosts :])):
        _, at = np.unique(part * fabric.n_hosts + host, return_inverse=True)
        rate = np.minimum(rate, gbps[host] * size / np.bincount(at, weights=size)[at])
    return rate


class _Jobs:
    """Which groups of jobs have rates that do not change while their flows are sent.

    Attributes:
        group: of each job of the stages.
        steady: groups in which all jobs send all the time, so their flows always meet.
        apart: groups in which no two jobs send at once, so each stage is sent as if alone.
    """

    def __init__(self, group: IntArray, steady: IntArray, apart: IntArray) -> None:
        """Keep the arguments."""
        self.group, self.steady, self.apart = group, steady, apart

    @staticmethod
    def of(
        fabric: Fabric,
        traffic: Traffic,
        assignment: Assignment,
        stages: Stages,
        group: IntArray,
        schedule: Schedule | None,
        varying: Collection[str],
    ) -> _Jobs:
        jobs = {name: j for j, name in enumerate(traffic.jobs)}
        known = _known(fabric, traffic, assignment, varying)
        always, alone = np.zeros((2, len(jobs)), dtype=np.bool_)
        number = np.array([jobs[name] for name in stages.names], dtype=np.int64)
        always[number] = (np.diff(stages.first) == 1) & (stages.by_job(stages.compute) == 0)
        if schedule is not None:
            clear = [jobs[row.job] for row in schedule.jobs if row.compatibility >= 1 - TOLERANCE]
            alone[clear] = True
        # A job that sends, but has no stages, has flows that cannot arrive.
        with_flows = np.unique(traffic.job_index[_sending(traffic)])
        known[np.setdiff1d(with_flows, number)] = False
        count = np.bincount(group[with_flows], minlength=len(jobs))
        alone |= count[group] == 1
        bad_steady = group[with_flows[~(known & always)[with_flows]]]
        bad_apart = group[with_flows[~(known & alone)[with_flows]]]
        every = np.unique(group[with_flows])
        steady = np.setdiff1d(every, bad_steady)
        # Where a job always sends alone, both rates are the same.
        apart = np.setdiff1d(np.setdiff1d(every, bad_apart), steady)
        return _Jobs(group[number], steady, apart)


def _known(fabric: Fabric, traffic: Traffic, assignment: Assignment, varying: Collection[str]) -> BoolArray:
    """Return [J] whether it is known when the flows of each job are sent, and over which links."""
    known = np.array([name not in varying for name in traffic.jobs], dtype=np.bool_)
    sending = _sending(traffic)
    in_turns = np.array([row.in_turns for row in traffic.collectives], dtype=np.bool_)[sending]
    known[traffic.job_index[sending[in_turns]]] = False
    # Collectives that wait for others of their phase are not sent from its begin to its end.
    ordered = np.array([row.waits != FOR_COMPUTING for row in traffic.collectives], dtype=np.bool_)[sending]
    known[traffic.job_index[sending[ordered]]] = False
    flow, path = assignment.flow, assignment.path
    leaf_src, leaf_dst = fabric.host_leaf[traffic.src[flow]], fabric.host_leaf[traffic.dst[flow]]
    # Flows that have lost their paths take others until there is a new plan, or while the mode is frozen.
    lost = (path >= 0) & ~fabric.live_ways.joined(leaf_src, leaf_dst, path)
    known[traffic.job_index[traffic.collective[flow[lost]]]] = False
    return known


def _sending(traffic: Traffic) -> Int64Array:
    """Return the collectives that have flows."""
    return np.flatnonzero(np.bincount(traffic.collective))
