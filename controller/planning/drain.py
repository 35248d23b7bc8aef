"""Administrative draining: which cables are taken out of use, and which stay in use although they are drained.

A drained cable carries no traffic if other paths connect the leaves; otherwise it stays in use.
So draining never causes an outage, whatever is drained or fails at the same time; if all is drained, all stays in use.

Two leaves are joined in two senses: by a live path (used by planned flows) and by live cables that lead up from both
to one switch (used by base forwarding; with parallel cables this is possible where no path is live). Both are kept. Of
the connections that join two leaves, those with the fewest drained cables stay in use, all of them alike.

Where NICs have several ports, whole planes can be drained, too. Stripes leave drained planes and drained leaves for
other ports (``plane_drain``), and the cables there go on carrying what is sent there all the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.errors import NotFoundError
from controller.model.fabric import BoolArray, Fabric, IntArray
from controller.model.paths.plane_places import plane_names, planes_of_cables
from controller.planning.plane_drain import NONE_ASIDE, PortsAside, needed_aside, ports_aside

Costs = NDArray[np.int16]

_NEVER = 100
"""The cost of what is not live: more than any connection has cables."""


@dataclass(frozen=True)
class Drain:
    """The effect of draining on one fabric, by names of cables, in cable order.

    Attributes:
        unused: cables that carry no more traffic.
        still_used: drained cables that are up and stay in use.
        ports: ports of NICs that plans avoid. Cables of these planes and leaves, and of pods of such leaves, are among
            neither of these, unless they are drained in another way, or the plane or leaf joins NICs that no other
            ports join: then all that are up and not unused are still used.
    """

    unused: tuple[str, ...] = ()
    still_used: tuple[str, ...] = ()
    ports: PortsAside = NONE_ASIDE


def kind_of(fabric: Fabric, name: str) -> str | None:
    """Return what an id stands for; ``None``: nothing.

    It is the role of a switch, ``cable``, ``pod`` in three layers, or ``plane`` where NICs have several ports.
    """
    if name in fabric.layer_of:
        return fabric.roles[fabric.layer_of[name]]
    if name in fabric.cable_names:
        return "cable"
    if name in fabric.pod_names:
        return "pod"
    return "plane" if name in plane_names(fabric) else None


def cables_of(fabric: Fabric, name: str) -> tuple[str, ...]:
    """Return the cables that an id stands for: the cable itself, or all of a switch, of a pod's switches, or a plane's.

    Raises:
        NotFoundError: there is no cable, switch, pod or plane of this name.
    """
    if kind_of(fabric, name) is None:
        kinds = ["cable", "switch", *(["pod"] if fabric.pod_names else []), *(["plane"] if plane_names(fabric) else [])]
        raise NotFoundError("link", name, f"{', '.join(kinds[:-1])} or {kinds[-1]}")
    return _names(fabric, drained_cables(fabric, [name]))


def known(fabric: Fabric, names: Iterable[str]) -> frozenset[str]:
    """Return the ids that can be drained; a stored drain may name a part that a new fabric file omits."""
    names = set(names)
    every = (*fabric.layer_of, *fabric.cable_names, *fabric.pod_names, *plane_names(fabric)) if names else ()
    return frozenset(names.intersection(every))


def drained_cables(fabric: Fabric, drained: Iterable[str]) -> BoolArray:
    """Return whether each cable is drained [C]: by itself, with a switch, with a pod, or with its plane.

    Ids that the fabric does not have are ignored. A switch that has the name of a pod or plane stands for itself.
    """
    names = known(fabric, drained)
    cables = _drained_by_parts(fabric, names)
    planes = ports_aside(fabric, names).planes
    return cables | np.isin(planes_of_cables(fabric), planes) if planes else cables


def _drained_by_parts(fabric: Fabric, names: frozenset[str]) -> BoolArray:
    """Return whether each cable is drained [C] in another way than with its plane."""
    wanted: BoolArray = np.zeros(len(fabric.cables), dtype=np.bool_)
    if not names:
        return wanted
    cables = zip(fabric.cable_names, fabric.cables, strict=True)
    wanted[:] = [not names.isdisjoint((name, cable.lower, cable.upper)) for name, cable in cables]
    pods = [p for p, name in enumerate(fabric.pod_names) if name in names and name not in fabric.layer_of]
    if pods:
        # Each cable below the cores is within a pod, and each cable to a core leaves one.
        of_lower = np.where(
            fabric.cable_tier == 0,
            fabric.pods.of_leaf.take(fabric.cable_lower, mode="clip"),
            fabric.pods.of_agg.take(fabric.cable_lower, mode="clip"),
        )
        wanted |= np.isin(of_lower, pods)
    return wanted


def drain(fabric: Fabric, drained: Iterable[str]) -> Drain:
    """Take drained cables out of use except the needed ones. Ids that the fabric does not have are ignored."""
    names = known(fabric, drained)
    wanted, ports = _drained_by_parts(fabric, names), ports_aside(fabric, names)
    up = fabric.link_up[fabric.first_cable_link :: 2]
    aside = wanted & up
    if wanted.any():
        _admit_paths(fabric, aside)
        _admit_switches(fabric, up, aside)
    if ports:
        left = fabric.without_links(_names(fabric, aside)) if aside.any() else fabric
        needed = needed_aside(left, ports)
        wanted &= ~_below_only(fabric, sorted(set(ports.leaves).difference(needed.leaves)))
        wanted |= np.isin(planes_of_cables(fabric), needed.planes)
    return Drain(_names(fabric, aside), _names(fabric, wanted & up & ~aside), ports)


def _below_only(fabric: Fabric, leaves: list[int]) -> BoolArray:
    """Return whether each cable [C] leads up from one of these leaves, or from a pod that has no other leaves."""
    chosen = np.zeros(fabric.n_leaves, dtype=np.bool_)
    chosen[leaves] = True
    lower = fabric.cable_tier == 0
    below: BoolArray = lower & chosen[np.where(lower, fabric.cable_lower, 0)]
    if len(fabric.layers) == 3:
        pods = np.setdiff1d(fabric.pod_of_leaf[chosen], fabric.pod_of_leaf[~chosen])
        upper = fabric.cable_tier == 1
        below |= upper & np.isin(fabric.pods.of_agg[np.where(upper, fabric.cable_lower, 0)], pods)
    return below


def without_drained(fabric: Fabric, drained: Drain) -> Fabric:
    """Return the fabric that is left for traffic."""
    return fabric.without_links(drained.unused) if drained.unused else fabric


def joined_by_spines(fabric: Fabric) -> BoolArray:
    """Return whether base forwarding leads from one leaf to the other [L, L]: live cables lead up to one switch."""
    up = fabric.link_up[fabric.first_cable_link :: 2]
    reach: BoolArray = np.eye(fabric.n_leaves, dtype=np.bool_)
    joined = np.zeros_like(reach)
    for tier, (lower, upper) in enumerate(itertools.pairwise(fabric.layers)):
        cables = up & (fabric.cable_tier == tier)
        wired = np.zeros((len(upper), len(lower)), dtype=np.bool_)
        wired[fabric.cable_upper[cables], fabric.cable_lower[cables]] = True
        reach = _any_way(reach, wired)
        joined |= _any_way(reach, reach)
    return joined


def _any_way(out: BoolArray, back: BoolArray) -> BoolArray:
    """Return whether some connection leads from one switch to the other [L, M]."""
    ways: BoolArray = (out.astype(np.float32) @ back.T.astype(np.float32)) > 0
    return ways


def _names(fabric: Fabric, chosen: BoolArray) -> tuple[str, ...]:
    return tuple(fabric.cable_names[c] for c in np.flatnonzero(chosen).tolist())


class _Connections(NamedTuple):
    """The ways up from the N switches below a tier, and back down to them, by choice.

    Attributes:
        out: [N, K] the cable by which a choice leaves a switch; -1: none, or it is down.
        back: [N, K] the cable by which it reaches the switch.
        above: [N, K] the switch to which it leads, -1: none.
    """

    out: IntArray
    back: IntArray
    above: IntArray


def _admit_paths(fabric: Fabric, aside: BoolArray) -> None:
    """Keep in use (in place) the cables without which two leaves would lose their last live path."""

    def cable(link: IntArray) -> IntArray:
        cables: IntArray = np.where(link < 0, -1, (link - fabric.first_cable_link) // 2).astype(np.int32)
        return cables

    tiers = [
        _Connections(cable(links.up), cable(links.down), each.switch)
        for links, each in zip(fabric.tiers, fabric.choices, strict=True)
    ]
    _admit(tiers, fabric.pod_of_leaf, aside)


def _admit_switches(fabric: Fabric, up: BoolArray, aside: BoolArray) -> None:
    """Keep in use (in place) the cables without which two leaves would not lead up to a common switch any more.

    Two switches are joined by any of their cables: a drained one counts only where all live ones are drained.
    """
    cables = np.flatnonzero(up)
    # Backwards, so that the first of each pair is kept: one that is not drained, if there is one.
    cables = cables[np.argsort(aside[cables], kind="stable")][::-1]
    tiers = []
    for tier, each in enumerate(fabric.choices):
        own = cables[fabric.cable_tier[cables] == tier]
        first = np.flatnonzero(each.number == 0)
        above = each.switch[:, first]
        between = np.full((len(fabric.layers[tier]), len(fabric.layers[tier + 1])), -1, dtype=np.int32)
        between[fabric.cable_lower[own], fabric.cable_upper[own]] = own
        cable = np.where(above < 0, -1, np.take_along_axis(between, np.maximum(above, 0), axis=1)).astype(np.int32)
        tiers.append(_Connections(cable, cable, above))
    before = aside.copy()
    _admit(tiers, fabric.pod_of_leaf, aside)
    taken_back = before & ~aside
    if taken_back.any():
        # Parallel cables of a pair are alike: all of them are kept in use.
        pair = fabric.cable_lower.astype(np.int64) * max(map(len, fabric.layers)) + fabric.cable_upper
        pair = pair * len(tiers) + fabric.cable_tier
        aside[np.isin(pair, pair[taken_back])] = False


def _admit(tiers: list[_Connections], pod: IntArray, aside: BoolArray) -> None:
    """Keep in use what joins pairs of leaves that were joined and no longer are.

    Leaves of one pod with the same live and the same drained choices are alike: one of them speaks for all.

    Args:
        tiers: the connections of the leaves, and in three layers those of the aggregation switches.
        pod: [L] pod of each leaf.
        aside: [C] cables that are out of use; changes in place.
    """
    lower = tiers[0]
    out, back = _cost(lower.out, aside), _cost(lower.back, aside)
    _, first, alike = np.unique(np.column_stack([pod, out, back]), axis=0, return_index=True, return_inverse=True)
    alike = alike.reshape(-1)
    many = np.bincount(alike)
    between = _BetweenPods(tiers, pod, aside)
    kept_out, kept_back = (np.zeros((len(first), out.shape[1]), dtype=np.bool_) for _ in range(2))
    kept_between = np.zeros(between.cost.shape, dtype=np.bool_)
    for one, leaf in enumerate(first.tolist()):
        cost = out[leaf] + back[first] + between.cost[pod[leaf], pod[first]]
        least = cost.min(axis=1, initial=_NEVER)
        if many[one] == 1:
            least[one] = 0  # a leaf needs no way to itself
        lost = np.flatnonzero((least > 0) & (least < _NEVER))
        row, choice = np.nonzero(cost[lost] == least[lost, None])
        kept_out[one, choice] = True
        kept_back[lost[row], choice] = True
        kept_between[pod[leaf], pod[first[lost[row]]], choice] = True
    aside[lower.out[kept_out[alike]]] = False
    aside[lower.back[kept_back[alike]]] = False
    between.keep(kept_between, aside)


def _cost(cable: IntArray, aside: BoolArray) -> Costs:
    """Return the number of drained cables of each connection [N, K]: 0 or 1, or ``_NEVER`` where there is none."""
    cost: Costs = np.where(cable < 0, _NEVER, aside[cable]).astype(np.int16)
    return cost


class _BetweenPods:
    """The cheapest ways from pod to pod by each plane; leaves of one pod need none.

    Attributes:
        cost: [P, P, K] drained cables of the cheapest way from one pod to another above each choice of the leaves.
    """

    def __init__(self, tiers: list[_Connections], pod: IntArray, aside: BoolArray) -> None:
        """Take the connections of leaves, and of aggregation switches if there are any."""
        n_pods, n_choices = 1 + int(pod.max(initial=0)), tiers[0].above.shape[1]
        self._upper = tiers[1] if len(tiers) > 1 else None
        self._agg = np.full((n_pods, n_choices), -1, dtype=np.int32)
        np.maximum.at(self._agg, pod, tiers[0].above)
        self.cost: Costs = np.zeros((n_pods, n_pods, n_choices), dtype=np.int16)
        if self._upper is None:
            # Nothing joins two networks.
            self.cost[~np.eye(n_pods, dtype=np.bool_)] = _NEVER
            return
        self._out, self._back = _cost(self._upper.out, aside), _cost(self._upper.back, aside)
        for choice in range(n_choices):
            self.cost[:, :, choice] = self._ways(choice).min(axis=2, initial=_NEVER)
        self.cost[np.arange(n_pods), np.arange(n_pods)] = 0

    def _ways(self, choice: int) -> Costs:
        """Return the drained cables between two pods [P, P, M] by each choice of aggregation switches of a plane."""
        agg = self._agg[:, choice]
        missing = np.where(agg < 0, _NEVER, 0).astype(np.int16)[:, None]
        ways: Costs = (self._out[agg] + missing)[:, None] + (self._back[agg] + missing)[None]
        return ways

    def keep(self, wanted: BoolArray, aside: BoolArray) -> None:
        """Keep in use (in place) the cables of the cheapest ways from pod to pod that are wanted [P, P, K]."""
        if self._upper is None:
            return
        wanted[np.arange(len(wanted)), np.arange(len(wanted))] = False
        for choice in np.flatnonzero(wanted.any(axis=(0, 1))).tolist():
            agg, cheapest = self._agg[:, choice], self.cost[:, :, choice]
            chosen = (self._ways(choice) == cheapest[:, :, None]) & wanted[:, :, choice, None]
            for cable, used in ((self._upper.out, chosen.any(axis=1)), (self._upper.back, chosen.any(axis=0))):
                aside[cable[agg][used]] = False
