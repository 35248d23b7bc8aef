"""Division of flows among paths: tier after tier, from the leaves up.

In a tier, a linear program over it and all tiers above says how much goes by which type of choices; within a type the
loads are divided such that each switch sends and receives at most its part of what the links above a choice carry,
or as much by each choice (``dividing``). The pieces that come to the same switches of the next tier are divided there
in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controller.model.fabric import BoolArray, FloatArray
from controller.model.paths.ways import NO_LINK, Ways
from controller.model.tolerances import TOLERANCE
from controller.model.traffic import Int64Array
from controller.routing.placing.dividing import SwitchLoads, by_kind, halve, spread
from controller.routing.placing.pieces import Pieces
from controller.routing.problem.demand import Demand
from controller.routing.relaxation import concurrent


@dataclass(frozen=True, eq=False)
class _Climbing:
    """Loads on their way up.

    Attributes:
        part: [N] number of the flow (``Pieces.part``).
        load: [N] Gbit/s at level 1.
        lower, upper: [N] switches of the present tier that they come from and go to.
        top: [N] tier above which they turn down.
        number: [N] choices so far: the path's place among those of its tier.
    """

    part: Int64Array
    load: FloatArray
    lower: Int64Array
    upper: Int64Array
    top: Int64Array
    number: Int64Array

    def rows(self, rows: NDArray[np.integer], load: FloatArray) -> _Climbing:
        """Return some of them, with other loads."""
        return _Climbing(self.part[rows], load, self.lower[rows], self.upper[rows], self.top[rows], self.number[rows])


@dataclass(frozen=True, eq=False)
class _Problem:
    """What all tiers know.

    Attributes:
        demand: the flows.
        ways: the live ways.
        kind: ``Fabric.choice_kinds``.
        seconds: how long links may be busy.
        seed: the seed of colourings.
        even: divide among types in proportion to their capacities where these are alike for all switches, instead of by
            a linear program: fewer flows are cut.
    """

    demand: Demand
    ways: Ways
    kind: list[Int64Array]
    seconds: float
    seed: int
    even: bool

    @property
    def steady(self) -> bool:
        """Whether all phase groups are one."""
        return len(self.demand.group_job) == 1

    def ends(self, tier: int, loads: _Climbing) -> SwitchLoads:
        """Return the loads by their rows."""
        group = self.demand.part_group[loads.part]
        n_switches = len(self.ways.tier(tier).up)
        return SwitchLoads(np.arange(len(loads.part)), loads.load, loads.lower, loads.upper, group, n_switches)

    def room(self, tier: int, choice: int, loads: _Climbing) -> tuple[FloatArray, FloatArray]:
        """Return the Gbit/s that a choice has for each load [N], from its switch and to its switch.

        Below the highest tier this is at most an equal part of what the switch has to which the choice leads: if all
        switches keep to their parts, that suffices, wherever their flows go.
        """
        links, gbps = self.ways.tier(tier), self.demand.fabric.link_gbps
        up, down = gbps[links.up[loads.lower, choice]], gbps[links.down[loads.upper, choice]]
        if tier + 1 == self.ways.n_tiers:
            return up, down
        above, shares = _onward(self.ways, tier, gbps)
        return (
            np.minimum(up, shares[0][above[loads.lower, choice]]),
            np.minimum(down, shares[1][above[loads.upper, choice]]),
        )


def divided_by_tier(demand: Demand, level: float, seed: int) -> Pieces:
    """Return pieces with which all links carry about what they can where every collective has this level."""
    ways = demand.fabric.live_ways
    load = demand.load[demand.part_flow]
    part = np.flatnonzero(load > 0).astype(np.int64)
    flow = demand.part_flow[part]
    lower, upper = (ends[flow].astype(np.int64) for ends in (demand.leaf_src, demand.leaf_dst))
    start = _Climbing(part, load[part], lower, upper, ways.meet(lower, upper), np.zeros(len(part), dtype=np.int64))
    kind = demand.fabric.choice_kinds
    # On one tier pieces can fill the links of every type.
    for even in (True, False) if ways.n_tiers > 1 else (False,):
        pieces = Pieces.joined(_climb(_Problem(demand, ways, kind, 1.0 / level, seed, even), 0, start))
        if even and pieces.lowest_level(demand) >= level * (1 - TOLERANCE):
            break
    return pieces


def _climb(problem: _Problem, tier: int, loads: _Climbing) -> list[Pieces]:
    """Divide loads among the choices of a tier, then of those above."""
    ways, climbed = problem.ways, []
    for choices, rows, load in _types(problem, tier, loads):
        if not len(rows):
            continue
        some = loads if load is loads.load else loads.rows(rows, load)
        pieces = _divide(problem, tier, choices, some)
        if tier + 1 == ways.n_tiers:
            path = ways.first[tier] + some.number[pieces.part] * ways.width[tier] + pieces.path
            climbed.append(Pieces(some.part[pieces.part], path, pieces.load))
            continue
        choice, reached = pieces.path, some.rows(pieces.part, pieces.load)
        number = reached.number * ways.width[tier] + choice
        ends = reached.top == tier
        climbed.append(Pieces(reached.part[ends], ways.first[tier] + number[ends], reached.load[ends]))
        for each in np.unique(choice[~ends]).tolist():
            on = np.flatnonzero(~ends & (choice == each))
            above = _above(ways, tier)[:, each]
            lower, upper = (above[end[on]] for end in (reached.lower, reached.upper))
            higher = _Climbing(reached.part[on], reached.load[on], lower, upper, reached.top[on], number[on])
            climbed += _climb(problem, tier + 1, higher)
    return climbed


def _types(problem: _Problem, tier: int, loads: _Climbing) -> list[tuple[Int64Array, Int64Array, FloatArray]]:
    """Return, for each type of choices, the choices, which of the loads [N] go by them, and how much of each."""
    used = np.zeros(len(problem.kind[tier]), dtype=np.bool_)
    used[loads.lower] = used[loads.upper] = True
    own = problem.kind[tier][used]
    types = [np.flatnonzero((own == first).any(axis=0)) for first in np.unique(own[own >= 0]).tolist()]
    whole = np.arange(len(loads.part))
    if len(types) == 1:
        return [(types[0], whole, loads.load)]
    possible = _leading(problem.ways, tier, loads.lower, loads.upper, loads.top)
    types = [choices for choices in types if possible[:, choices].any()]
    if len(types) == 1:
        return [(types[0], whole, loads.load)]
    if problem.even:
        weights = [np.concatenate(problem.room(tier, int(choices[0]), loads)) for choices in types]
        alike = all(weight.min() == weight.max() for weight in weights)
        # The equal parts of what lies above can be nothing where the choice itself leads on.
        if alike and any(weight[0] > 0 for weight in weights) and possible[:, np.concatenate(types)].all():
            weight = np.array([weight[0] * len(choices) for weight, choices in zip(weights, types, strict=True)])
            ends = problem.ends(tier, loads)
            limit = np.full(2 * ends.n_switches, problem.seconds if problem.steady else 0.0)
            pieces = halve(np.arange(len(types)), ends, limit, weight)
            by_type = [pieces.path == n for n in range(len(types))]
            return [(types[n], pieces.part[by_type[n]], pieces.load[by_type[n]]) for n in range(len(types))]
    routing = _routed(problem, tier, loads)
    if routing is None:
        types.sort(key=len, reverse=True)
        widest = np.argmax([possible[:, choices[0]] for choices in types], axis=0)
        rows = [np.flatnonzero(widest == n) for n in range(len(types))]
        return [(choices, of, loads.load[of]) for choices, of in zip(types, rows, strict=True)]
    members = {int(choices[0]): choices for choices in types}
    return [(members[first], rows, load) for first, rows, load in by_kind(routing, loads.load)]


def _leading(ways: Ways, tier: int, lower: Int64Array, upper: Int64Array, top: Int64Array) -> BoolArray:
    """Return [N, K] whether a choice, and some choice in each tier above it, leads from a switch to another."""
    leads = ways.tier(tier).possible(lower, upper)
    if tier + 1 < ways.n_tiers:
        above = _above(ways, tier)
        for choice in range(leads.shape[1]):
            on = np.flatnonzero(leads[:, choice] & (top > tier))
            ends = above[lower[on], choice], above[upper[on], choice]
            leads[on, choice] = _leading(ways, tier + 1, *ends, top[on]).any(axis=1)
    return leads


def _above(ways: Ways, tier: int) -> Int64Array:
    """Return [N, K] the switch to which each choice of a switch leads; -1: none."""
    return ways.above[ways.table[tier] : ways.table[tier + 1]].reshape(ways.tier(tier).up.shape).astype(np.int64)


def _routed(problem: _Problem, tier: int, loads: _Climbing) -> concurrent.Routing | None:
    """Return how the loads divide over the types of choices by a linear program."""
    demand = problem.demand
    known = (
        problem.ways,
        problem.kind,
        demand.fabric.link_gbps,
        tier,
        (loads.lower, loads.upper),
        loads.top,
        loads.load,
    )
    groups = demand.part_group[loads.part], demand.group_job
    # What was divided below keeps the sums of switches, not those of pairs, so this tier may need a little more time.
    return concurrent.route(*known, *groups, seconds=problem.seconds) or concurrent.route(*known, *groups)


def _divide(problem: _Problem, tier: int, choices: Int64Array, loads: _Climbing) -> Pieces:
    """Divide loads among equivalent choices of a tier; return the row of each piece in place of its part."""
    ends, room = problem.ends(tier, loads), problem.room(tier, int(choices[0]), loads)
    for one, switch in zip(room, (loads.lower, loads.upper), strict=True):
        sent = np.bincount(switch, weights=loads.load)[switch]
        if tier + 1 < problem.ways.n_tiers and (sent > one * (problem.seconds * len(choices))).any():
            # Not all keep to their parts above: then what each of them sends by each choice is equal.
            return halve(choices, ends, np.zeros(2 * ends.n_switches))
    full = room[0] * problem.seconds, room[1] * problem.seconds
    job = problem.demand.group_job[ends.group]
    if problem.steady or (job == 0).any() or (job != job[0]).any():
        return spread(choices, ends, full, problem.steady, problem.seed)
    # Phases of one job do not meet, so each is divided as if it were the only one.
    apart = []
    for group in np.unique(ends.group).tolist():
        rows = np.flatnonzero(ends.group == group)
        own = SwitchLoads(rows, ends.load[rows], ends.src[rows], ends.dst[rows], ends.group[rows], ends.n_switches)
        apart.append(spread(choices, own, (full[0][rows], full[1][rows]), True, problem.seed))
    return Pieces.joined(apart)


def _onward(ways: Ways, tier: int, gbps: FloatArray) -> tuple[Int64Array, tuple[FloatArray, FloatArray]]:
    """Return where choices lead [N, K] (-1: nowhere), and what each cable from below may send on there, each way [M+1].

    This is the capacity of the switch's links to the tier above and from it, over the number of its cables below.
    """
    next_tier = ways.tier(tier + 1)
    above = _above(ways, tier)
    cables = np.bincount(above[above >= 0], minlength=len(next_tier.up))
    of_link = np.append(gbps, 0.0)
    shares = []
    for table in next_tier:
        distinct = np.sort(table, axis=1)
        distinct[:, 1:][distinct[:, 1:] == distinct[:, :-1]] = NO_LINK
        shares.append(np.append(of_link[distinct].sum(axis=1) / np.maximum(cables, 1), np.inf))
    return above, (shares[0], shares[1])
