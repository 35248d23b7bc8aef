"""What hosts do with their rates: keep the paces of a plan, or share links as unevenly as packets do.

Both need no other way to share links: a limit of a mover is a link of its own, and an uneven share is another load for
the same rate. Those who keep no pace have windows (emulation/fluid/windows.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from controller.model.assignment import Assignment
from controller.model.fabric import BoolArray, Fabric, FloatArray, IntArray
from controller.model.timing import Schedule
from controller.model.traffic import Int64Array, Traffic
from controller.model.units import GBIT, MICROSECOND
from controller.routing.base import DEFAULT_PACES, PaceRule
from controller.routing.pacing.contention import Contention
from controller.routing.pacing.paces import wire_paces
from emulation.fluid.replanning import part_of
from emulation.fluid.schedule import SimulatedJob
from emulation.fluid.state import Movers, Windows


@dataclass(frozen=True)
class HostSharing:
    """How hosts without paces share links: windows of their congestion control (emulation/fluid/windows.py).

    Attributes:
        packet_bytes: on the wire.
        ack_bytes: of an acknowledgement.
        cable_seconds: delay of a cable.
        growth: packets that a window grows by in a round trip.
        held: packets that wait for an acknowledgement with others, so that more may be in flight.
        most: the largest window, over that at first.
        queue: of a full link, in bandwidth-delay products.
        room: for a queue, in bandwidth-delay products.
        pull: how fast windows approach each other, over what a packet more and the same part less give.
        spread: standard deviation of the logarithm of windows on one link, drawn anew as time passes.
        alpha: part of packets that a new connection expects to be marked: the half of it is a cut of its window.
        memory: round trips after which it expects what it has met.
        cuts: of a window until less in flight shows.
        luck: the same as ``spread`` where all packets have no room.
        idle: largest window of connections that wait for each other at their host, over what they use.
        tick: round trips between two changes of windows.
        longer: as a part of the time since a flow came or went, where that is more.
    """

    packet_bytes: float = 4178
    ack_bytes: float = 84
    cable_seconds: float = MICROSECOND
    growth: float = 1.0
    held: float = 2.0
    most: float = 1.5
    queue: float = 0.26
    room: float = 1.0
    pull: float = 0.5
    spread: float = 0.2
    alpha: float = 1.0
    memory: float = 16.0
    cuts: float = 1.5
    luck: float = 0.5
    idle: float = 1.2
    tick: float = 3.0
    longer: float = 0.25

    def round_trip_seconds(self, fabric: Fabric, links: IntArray) -> FloatArray:
        """Return the times from a packet to its acknowledgement over so many links with empty queues."""
        gbps = float(np.median(fabric.link_gbps))
        each = 2 * self.cable_seconds + (self.packet_bytes + self.ack_bytes) * GBIT / gbps
        return links.astype(np.float64) * each

    def law(self, fabric: Fabric) -> FloatArray:
        """Return the numbers by which windows change, as kernels have them: seconds, Gbit, and parts."""
        longest, product = self._longest(fabric)
        return np.array(
            [
                self.tick * longest,
                self.growth * self.packet_bytes * GBIT,
                self.most * self.first_window(fabric),
                self.queue * product,
                self.pull,
                self.spread,
                self.longer,
                self.memory,
                self.idle,
                self.room * product,
                self.cuts,
                self.luck,
            ]
        )

    def first_window(self, fabric: Fabric) -> float:
        """Return the Gbit that a connection has in flight at first: a bandwidth-delay product."""
        return self._longest(fabric)[1] + self.held * self.packet_bytes * GBIT

    def _longest(self, fabric: Fabric) -> tuple[float, float]:
        """Return the seconds of the longest round trip, and the Gbit that a host sends in it."""
        seconds = float(self.round_trip_seconds(fabric, np.array([2 * len(fabric.layers)], dtype=np.int32))[0])
        return seconds, seconds * float(fabric.link_gbps[: fabric.n_hosts].max())


DCTCP = HostSharing()
"""DCTCP from a window of one bandwidth-delay product, as our packet engine simulates it (docs/reference/referee.md)."""

NSCC = HostSharing(spread=0.5, alpha=0.0)
"""Ultra Ethernet's congestion control, as htsim simulates it: the spread was chosen such that rings of 1 MB a step take
as long as with packets (docs/reference/simulator.md); it does not cut windows of new connections so far."""

EVEN = HostSharing(growth=1000.0, spread=0.0, alpha=0.0)
"""Senders of equal windows that are never cut, as the hosts of experiments on this machine have."""


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


def shared_rows(fabric: Fabric, traffic: Traffic, assignment: Assignment, flows: Int64Array) -> BoolArray:
    """Return which rows [R] of an assignment share a link that they can overfill, or a host's with such a row.

    Args:
        fabric: the fabric as it is.
        traffic: of all jobs.
        assignment: the paths of its flows.
        flows: those of the jobs that are present, ascending.
    """
    rows, present = _present(assignment, flows)
    shared = np.zeros(assignment.n_rows, dtype=np.bool_)
    shared[rows[Contention.of(fabric, part_of(traffic, flows), present).contends]] = True
    return shared


@dataclass(frozen=True, eq=False)
class HostConnections:
    """The connections of the rows of an assignment, which keep their windows from one transfer to the next.

    Attributes:
        flow: [R].
        gbit: [R] in flight.
        alpha: [R] part of their packets that they expect to be marked.
        draws: [R] state of their random numbers.
    """

    flow: IntArray
    gbit: FloatArray
    alpha: FloatArray
    draws: NDArray[np.uint64]

    @staticmethod
    def of(fabric: Fabric, traffic: Traffic, flow: IntArray, sharing: HostSharing, seed: int) -> HostConnections:
        """Return new connections of these flows; what they draw does not depend on the order of jobs."""
        keys = []
        for f in flow.tolist():
            row = traffic.collectives[traffic.collective[f]]
            ends = fabric.host_names[traffic.src[f]], fabric.host_names[traffic.dst[f]]
            name = repr((seed, row.job, row.name, *ends, int(traffic.number[f])))
            keys.append(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()))
        turn = np.arange(len(flow)) - np.searchsorted(flow, flow)
        draws = np.array(keys, dtype=np.uint64) + turn.astype(np.uint64)
        window = sharing.first_window(fabric)
        return HostConnections(flow, np.full(len(flow), window), np.full(len(flow), sharing.alpha), draws)

    def after(self, before: HostConnections) -> HostConnections:
        """Return these with the windows of the last plan: the mean of those of the same flow, if it had some."""
        n = 1 + int(max(self.flow.max(initial=-1), before.flow.max(initial=-1)))
        count = np.bincount(before.flow, minlength=n)
        known = count[self.flow] > 0

        def kept(new: FloatArray, old: FloatArray) -> FloatArray:
            mean = np.bincount(before.flow, weights=old, minlength=n) / np.maximum(count, 1)
            return np.where(known, mean[self.flow], new)

        return replace(self, gbit=kept(self.gbit, before.gbit), alpha=kept(self.alpha, before.alpha))


def windows_of(
    fabric: Fabric,
    movers: Movers,
    row: Int64Array,
    shared: BoolArray,
    connections: HostConnections,
    sharing: HostSharing,
) -> Windows:
    """Return the windows of movers, and let their loads be in proportion to them.

    Args:
        fabric: the fabric.
        movers: of one row each, with a link of their own.
        row: [M] of the assignment.
        shared: [R] which rows have a window.
        connections: of the rows.
        sharing: the law of windows.
    """
    n_links = fabric.n_links + 1 + len(row)
    links = (movers.link[:, :-1] >= 0).sum(axis=1, dtype=np.int32)
    windows = Windows(
        row=np.where(shared[row], row, -1).astype(np.int64),
        gbit=connections.gbit,
        share=movers.load.copy(),
        round_trip=sharing.round_trip_seconds(fabric, links),
        followed=np.zeros(n_links),
        begun=np.zeros(n_links),
        active=np.zeros(fabric.n_hosts, dtype=np.int64),
        alpha=connections.alpha,
        draws=connections.draws,
        first_own=np.array([fabric.n_links + 1], dtype=np.int64),
        n_hosts=np.array([fabric.n_hosts], dtype=np.int64),
        law=sharing.law(fabric),
    )
    has = windows.row >= 0
    movers.load[has] = windows.share[has] * windows.gbit[windows.row[has]]
    return windows


def rates_alone(windows: Windows, limit: FloatArray) -> FloatArray:
    """Return the Gbit/s [M] that movers have by their windows on empty paths; ``limit`` [M] without one."""
    has = windows.row >= 0
    made = limit.copy()
    made[has] = windows.gbit[windows.row[has]] / windows.round_trip[has]
    return made


def limited(movers: Movers, first_link: int) -> Movers:
    """Return movers with a link of their own each, whose capacity is their limit.

    Args:
        movers: of one row each.
        first_link: number of the link of the first mover.
    """
    own = (first_link + np.arange(len(movers.link), dtype=np.int32))[:, None]
    link: IntArray = np.ascontiguousarray(np.concatenate([movers.link, own], axis=1))
    return movers._replace(link=link)


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
