"""What failures leave of jobs whose packets take sets of paths: stated speeds against linear programs of this file.

These programs have cables, hosts and the solver of the product. They list the paths by themselves, and give each flow
the weights with which all flows end soonest.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.model.assignment import UNROUTABLE, Assignment
from controller.model.choices.failure_kind import FailureKind
from controller.model.fabric import Cable, Fabric
from controller.model.files.clos import clos
from controller.model.files.pod_clos import pod_clos
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import ANY_PORT, Collective, Traffic
from controller.planning.survival import Outcome, Situation, pairs, single_failures, survive
from controller.routing import assign
from controller.routing.relaxation.solver import LinearProgram
from tests.unit.laws import examples
from tests.unit.routing.instances import traffic_of
from tests.unit.strategies import with_routers

Path = tuple[str, ...]
"""Names of directed links."""

Shares = list[dict[Path, float]]
"""Of each flow."""

SMALL_WEIGHTS = 2e-3
"""Hosts divide packets no finer than by 1/10,000, so weights below it are left out."""


class Network:
    """Paths and capacities of what is left of a fabric."""

    def __init__(self, fabric: Fabric, failed: Sequence[str] = ()) -> None:
        """Leave out cables that are down or named."""
        self.cables: list[tuple[str, Cable]] = [
            (name, cable)
            for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)
            if cable.up and name not in failed
        ]
        self.hosts = fabric.hosts
        self.gbps = {f"{host.name} {way}": host.gbps for host in fabric.hosts for way in ("out", "in")}
        self.gbps |= {f"{name} {way}": cable.gbps for name, cable in self.cables for way in ("up", "down")}
        # Where leaves meet does not depend on what is up.
        self.wired = [(cable.lower, cable.upper) for cable in fabric.cables]

    def paths(self, src: int, dst: int) -> list[Path]:
        """Return every path of two hosts over the first layer of switches above which their leaves meet.

        Where switches are joined by several cables, a path comes down by those of the number by which it went up.
        """
        one, other = self.hosts[src], self.hosts[dst]
        own = (f"{one.name} out",), (f"{other.name} in",)
        if one.leaf == other.leaf:
            return [own[0] + own[1]]
        tiers, below = 0, ({one.leaf}, {other.leaf})
        while not below[0] & below[1]:
            below = tuple({upper for lower, upper in self.wired if lower in side} for side in below)  # type: ignore[assignment]
            tiers += 1
            assert all(below), "the leaves do not meet"
        ups, downs = self._climbs(one.leaf, tiers), self._climbs(other.leaf, tiers)
        return [
            (*own[0], *(f"{name} up" for name in up), *(f"{name} down" for name in reversed(down)), *own[1])
            for top, up in ups
            for peak, down in downs
            if top == peak and _numbers(up) == _numbers(down)
        ]

    def _climbs(self, leaf: str, tiers: int) -> list[tuple[str, Path]]:
        """Return the switches above a leaf by this many tiers of cables, and the cables to them."""
        at: list[tuple[str, Path]] = [(leaf, ())]
        for _ in range(tiers):
            at = [(cable.upper, (*way, name)) for low, way in at for name, cable in self.cables if cable.lower == low]
        return at

    def least_seconds(self, flows: Sequence[tuple[int, int, float]]) -> float:
        """Return the shortest time in which all flows (source, destination, Gbit) can end; infinite: one cannot."""
        rows: list[tuple[int, float, Path]] = []
        for number, (src, dst, gbit) in enumerate(flows):
            rows += [(number, gbit, path) for path in self.paths(src, dst)]
        if {number for number, _, _ in rows} != set(range(len(flows))):
            return np.inf
        links = {name: at for at, name in enumerate(self.gbps)}
        program = LinearProgram()
        time, part = program.columns(1, cost=1.0), program.columns(len(rows))
        whole, full = program.rows(len(flows), lower=1.0, upper=1.0), program.rows(len(links), upper=0.0)
        program.add(whole[[number for number, _, _ in rows]], part, 1.0)
        program.add(full, int(time[0]), [-gbps for gbps in self.gbps.values()])
        for column, (_, gbit, path) in zip(part.tolist(), rows, strict=True):
            program.add(full[[links[link] for link in path]], column, gbit)
        solved = program.solve()
        assert solved.optimal
        return solved.value

    def seconds(self, flows: Sequence[tuple[int, int, float]], shares: Shares) -> float:
        """Return when the last of flows ends that are spread like this; infinite: one has no path."""
        busy = dict.fromkeys(self.gbps, 0.0)
        for (_, _, gbit), ways in zip(flows, shares, strict=True):
            if not ways:
                return np.inf
            for path, share in ways.items():
                for link in path:
                    busy[link] += gbit * share
        return max(carried / self.gbps[link] for link, carried in busy.items())


def _numbers(cables: Path) -> list[str]:
    """Return which of the cables between its two switches each one is."""
    return [name.partition(":")[2] for name in cables]


def drawn_fabric(rng: np.random.Generator) -> Fabric:
    """A small fabric of routers with two or three tiers, narrow, parallel and unequal cables, one of them down."""
    if rng.random() < 0.7:
        spines, leaves, hosts = (int(rng.integers(*ends)) for ends in ((2, 4), (2, 4), (1, 3)))
        parallel = int(rng.choice([1, 1, 2])) if spines * leaves <= 4 else 1
        fabric = clos(spines, leaves, hosts, host_gbps=100.0, uplink_gbps=50.0, parallel=parallel)
    else:
        fabric = pod_clos(2, int(rng.integers(1, 3)), 2, int(rng.integers(1, 3)), 1)
    uneven = rng.random() < 0.5
    cables = tuple(
        dataclasses.replace(cable, gbps=float(rng.choice([25.0, 50.0, 100.0]))) if uneven else cable
        for cable in fabric.cables
    )
    fabric = dataclasses.replace(fabric, cables=cables)
    down = [str(rng.choice(fabric.cable_names))] if rng.random() < 0.3 else []
    return with_routers(fabric.without_links(down))


def drawn_traffic(rng: np.random.Generator, fabric: Fabric, jobs: int) -> Traffic:
    """Jobs of one collective each, whose packets may arrive in any order."""
    flows = []
    for job in range(jobs):
        for _ in range(int(rng.integers(2, 8))):
            src, dst = rng.choice(fabric.n_hosts, 2, replace=False).tolist()
            flows.append((src, dst, int(rng.choice([10**9, 3 * 10**9])), job))
    table = [Collective(f"job{job}", "c", any_order=True) for job in range(jobs)]
    return traffic_of(flows, table, [ANY_PORT] * len(flows))


SEEDS = st.integers(0, 2**32 - 1)


def amounts(traffic: Traffic, job: int | None = None) -> list[tuple[int, int, float]]:
    """Return source, destination and Gbit of the flows of a job, or of all."""
    return [
        (src, dst, size * 8e-9)
        for src, dst, size, of in zip(
            traffic.src.tolist(),
            traffic.dst.tolist(),
            traffic.bytes.tolist(),
            traffic.collective.tolist(),
            strict=True,
        )
        if job is None or of == job
    ]


def spread(fabric: Fabric, traffic: Traffic, assignment: Assignment) -> Shares:
    """Return the parts of each flow on its paths, by the numbers of links that the fabric documents."""
    named = [f"{host.name} {way}" for way in ("out", "in") for host in fabric.hosts]
    named += [f"{name} {way}" for name in fabric.cable_names for way in ("up", "down")]
    shares: Shares = [{} for _ in range(traffic.n_flows)]
    for flow, path, share in zip(assignment.flow, assignment.path, assignment.share.tolist(), strict=True):
        if path == UNROUTABLE:
            continue
        src, dst = traffic.src[flow], traffic.dst[flow]
        between: list[int] = []
        if path >= 0:
            leaves = fabric.host_leaf[[src]], fabric.host_leaf[[dst]]
            between = [link for link in fabric.ways.links(*leaves, np.array([path]))[0].tolist() if link >= 0]
        way = (named[src], *(named[link] for link in between), named[fabric.n_hosts + dst])
        shares[flow][way] = shares[flow].get(way, 0.0) + share
    return shares


def remaining(shares: Shares, network: Network) -> Shares:
    """Return what hosts do by themselves: leave dead paths out, and keep the proportions of the others."""
    left: Shares = []
    for ways in shares:
        live = {path: share for path, share in ways.items() if all(link in network.gbps for link in path)}
        left.append({path: share / sum(live.values()) for path, share in live.items()})
    return left


def judged(survival_of: Sequence[Outcome], brute: Mapping[tuple[str, ...], float]) -> None:
    """Compare every stated speed, and the worst, with that of brute force."""
    assert {outcome.failure.names for outcome in survival_of} == set(brute)
    for outcome in survival_of:
        assert outcome.min_speed == pytest.approx(brute[outcome.failure.names], rel=SMALL_WEIGHTS), outcome.failure
    if brute:
        assert survival_of[0].min_speed == pytest.approx(min(brute.values()), rel=SMALL_WEIGHTS)


@settings(max_examples=examples(8, 300), deadline=None)
@given(seed=SEEDS)
def test_the_stated_worst_case_after_one_and_two_failures_is_that_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn_fabric(rng)
    traffic = drawn_traffic(rng, fabric, 1)
    flows = amounts(traffic)
    alone = Network(fabric.healthy()).least_seconds(flows)
    situation = Situation.of(fabric, traffic, policy="fair")
    live = [name for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.up]
    ones = single_failures(fabric, [FailureKind.CABLE])
    twos = pairs(ones)
    assert [failure.names for failure in ones] == [(name,) for name in live]
    assert [failure.names for failure in twos] == list(combinations(live, 2))
    for failures in (ones, twos):
        brute = {failure.names: alone / Network(fabric, failure.names).least_seconds(flows) for failure in failures}
        judged(survive(situation, failures).outcomes, brute)


@settings(max_examples=examples(8, 200), deadline=None)
@given(seed=SEEDS)
def test_a_new_plan_is_never_slower_than_what_failures_leave_of_the_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn_fabric(rng)
    traffic = drawn_traffic(rng, fabric, 1)
    flows = amounts(traffic)
    alone = Network(fabric.healthy()).least_seconds(flows)
    situation = Situation.of(fabric, traffic, policy="fair")
    sets = spread(fabric, traffic, assign("fair", fabric, traffic).assignment)
    ones = single_failures(fabric, [FailureKind.CABLE])
    # Each costs two plans, and even a small fabric has a hundred pairs.
    every = [*ones, *pairs(ones)]
    for failure in (every[at] for at in rng.permutation(len(every))[:12]):
        network, outcome = Network(fabric, failure.names), situation.after(failure)
        left = alone / network.seconds(flows, remaining(sets, network))
        assert outcome.min_speed >= left * (1 - SMALL_WEIGHTS)
        # The speed that is stated is that of the weights that hosts then get.
        after = fabric.without_links(failure.cables)
        planned = assign("fair", after, traffic, previous=situation.previous).assignment
        stated = alone / network.seconds(flows, spread(after, traffic, planned))
        assert outcome.min_speed == pytest.approx(stated, rel=TOLERANCE)


@settings(max_examples=examples(8, 300), deadline=None)
@given(seed=SEEDS)
def test_of_several_jobs_the_slowest_is_as_fast_as_any_weights_allow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = drawn_fabric(rng)
    traffic = drawn_traffic(rng, fabric, 2)
    whole = Network(fabric.healthy())
    situation = Situation.of(fabric, traffic, policy="fair")
    for failure in single_failures(fabric, [FailureKind.CABLE]):
        network, outcome = Network(fabric, failure.names), situation.after(failure)
        ideal = [network.least_seconds(amounts(traffic, job)) for job in range(2)]
        healthy = [whole.least_seconds(amounts(traffic, job)) for job in range(2)]
        for job in range(2):
            assert (outcome.speed[job] == 0) == np.isinf(ideal[job])
        if np.isinf(ideal).any():
            continue
        # The level of a job is its speed where 1 is what it has alone on what is left.
        level = min(outcome.speed[job] * ideal[job] / healthy[job] for job in range(2))
        jobs = traffic.collective.tolist()
        all_at_once = [
            (src, dst, gbit / ideal[job]) for (src, dst, gbit), job in zip(amounts(traffic), jobs, strict=True)
        ]
        assert level == pytest.approx(min(1.0, 1 / network.least_seconds(all_at_once)), rel=SMALL_WEIGHTS)
