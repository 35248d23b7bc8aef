"""Administrative draining: which cables are taken out of use, and which stay in use although they are drained.

A drained cable carries no traffic if other paths connect the leaves; otherwise it stays in use.
So draining never causes an outage, whatever is drained or fails at the same time; if all is drained, all stays in use.

Two leaves are joined in two senses: by a live path class (used by planned flows) and by some spine with a live cable
to each (used by base forwarding; with parallel cables this is possible where no class is live). Both are kept. Of the
connections that join two leaves, those with the fewest drained cables stay in use, all of them alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from controller.model.errors import NotFoundError
from controller.model.fabric import BoolArray, Fabric, IntArray


@dataclass(frozen=True)
class Drain:
    """The effect of draining on one fabric, by names of cables, in cable order.

    Attributes:
        unused: cables that carry no more traffic.
        still_used: drained cables that are up and stay in use.
    """

    unused: tuple[str, ...] = ()
    still_used: tuple[str, ...] = ()


def cables_of(fabric: Fabric, name: str) -> tuple[str, ...]:
    """Return the cables that an id stands for: the cable itself, or all of a spine or leaf.

    Raises:
        NotFoundError: there is no cable, spine or leaf of this name.
        InputError: the fabric has three layers.
    """
    fabric.require_leaf_spine("drains are possible")
    if name in fabric.spine_index:
        return tuple(n for n, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.upper == name)
    if name in fabric.leaf_index:
        return tuple(n for n, cable in zip(fabric.cable_names, fabric.cables, strict=True) if cable.lower == name)
    if name in fabric.cable_names:
        return (name,)
    raise NotFoundError("link", name, "cable, spine or leaf")


def known(fabric: Fabric, names: Iterable[str]) -> frozenset[str]:
    """Return the ids that can be drained; a stored drain may name a part that a new fabric file omits.

    A fabric of three layers has none.
    """
    if len(fabric.layers) > 2:
        return frozenset()
    names = set(names)
    switches = {name for name in names if name in fabric.spine_index or name in fabric.leaf_index}
    return frozenset(switches | names.intersection(fabric.cable_names)) if names else frozenset()


def drain(fabric: Fabric, drained: Iterable[str]) -> Drain:
    """Take drained cables out of use except the needed ones. Ids that the fabric does not have are ignored."""
    names = known(fabric, drained)
    if not names:
        return Drain()
    wanted = np.array(
        [
            not names.isdisjoint((name, cable.lower, cable.upper))
            for name, cable in zip(fabric.cable_names, fabric.cables, strict=True)
        ],
        dtype=np.bool_,
    )
    up = fabric.link_up[fabric.first_cable_link :: 2]
    aside = wanted & up
    _admit_classes(fabric, up, aside)
    _admit_spines(fabric, up, aside)
    used = wanted & up & ~aside
    return Drain(_names(fabric, aside), _names(fabric, used))


def without_drained(fabric: Fabric, found: Drain) -> Fabric:
    """Return the fabric that is left for traffic."""
    return fabric.without_links(found.unused) if found.unused else fabric


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


def _names(fabric: Fabric, chosen: BoolArray) -> tuple[str, ...]:
    return tuple(fabric.cable_names[c] for c in np.flatnonzero(chosen).tolist())


def _admit_classes(fabric: Fabric, up: BoolArray, aside: BoolArray) -> None:
    """Keep in use (in place) the cables without which two leaves would lose their last live path class."""
    out, back = _cable_of(fabric, fabric.up_link), _cable_of(fabric, fabric.down_link)
    _admit(out, back, _live(out, up), _live(back, up), aside)


def _admit_spines(fabric: Fabric, up: BoolArray, aside: BoolArray) -> None:
    """Keep in use (in place) the cables without which two leaves would have no spine in common any more.

    A leaf and a spine are joined by any of their cables: a drained one counts only where all live ones are drained.
    """
    cables = np.flatnonzero(up)
    cables = cables[np.argsort(aside[cables], kind="stable")]
    spine = np.full((fabric.n_leaves, fabric.n_spines), -1, dtype=np.int32)
    # Backwards, so that the first of each pair is kept: one that is not drained, if there is one.
    spine[fabric.cable_lower[cables[::-1]], fabric.cable_upper[cables[::-1]]] = cables[::-1]
    live = spine >= 0
    before = aside.copy()
    _admit(spine, spine, live, live, aside)
    taken_back = before & ~aside
    if taken_back.any():
        # Parallel cables of a pair are alike: all of them are kept in use.
        pair = fabric.cable_lower.astype(np.int64) * fabric.n_spines + fabric.cable_upper
        aside[np.isin(pair, pair[taken_back])] = False


def _admit(out: IntArray, back: IntArray, live_out: BoolArray, live_back: BoolArray, aside: BoolArray) -> None:
    """Keep in use what joins pairs of leaves that were joined and no longer are.

    Args:
        out: [L, N] the cable by which traffic leaves a leaf, for each of N connections.
        back: [L, N] the cable by which traffic reaches a leaf, for each of N connections.
        live_out: [L, N] whether the connection exists from the leaf.
        live_back: [L, N] whether the connection exists to the leaf.
        aside: [C] cables that are out of use; changes in place.
    """
    drained_out, drained_back = live_out & aside[out], live_back & aside[back]
    joined = _any_way(live_out, live_back)
    left = _any_way(live_out & ~drained_out, live_back & ~drained_back)
    lost = joined & ~left
    np.fill_diagonal(lost, False)
    for a in np.flatnonzero(lost.any(axis=1)).tolist():
        others = np.flatnonzero(lost[a])
        cost = drained_out[a].astype(np.int8) + drained_back[others]
        cost[~(live_out[a] & live_back[others])] = 3
        row, way = np.nonzero(cost == cost.min(axis=1, keepdims=True))
        aside[out[a, way]] = False
        aside[back[others[row], way]] = False


def _any_way(out: BoolArray, back: BoolArray) -> BoolArray:
    """Return whether some connection leads from one switch to the other [L, M]."""
    ways: BoolArray = (out.astype(np.float32) @ back.T.astype(np.float32)) > 0
    return ways


def _cable_of(fabric: Fabric, link: IntArray) -> IntArray:
    """Return cable indices of links, -1 where there is no link."""
    cable: IntArray = np.where(link < 0, -1, (link - fabric.first_cable_link) // 2).astype(np.int32)
    return cable


def _live(cable: IntArray, up: BoolArray) -> BoolArray:
    live: BoolArray = (cable >= 0) & up[cable]
    return live
