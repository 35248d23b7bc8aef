"""The tables of ``Ways`` for a fabric's cables: which switch each choice of a path leads to, and by which cable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.model.paths.grouping import components, numbered, place_among_equals
from controller.model.paths.ways import NO_LINK, LinkTable, Ways

IntArray = NDArray[np.int32]


class TierCables(NamedTuple):
    """The C cables of one tier: from which switch to which, numbered within their layers.

    Attributes:
        lower: [C] lower switch of each cable.
        upper: [C] upper switch of each cable.
        number: [C] number of earlier cables between the same two switches.
        uplink: [C] the link from the lower to the upper switch; the link back has the next number.
    """

    lower: IntArray
    upper: IntArray
    number: IntArray
    uplink: IntArray


@dataclass(frozen=True, eq=False)
class Choices:
    """The choices of the switches below a tier of cables. Each leads to a place, by one of the cables to it.

    At most one switch of the layer above is at each place for one lower switch: a spine, or in the first of two tiers
    of cables the plane of an aggregation switch, or in the second one the number of a core within its plane.

    Attributes:
        place: [K] the place to which each choice leads.
        number: [K] which of the parallel cables to that place it takes.
        switch: [N, K] the upper switch at that place, -1: none.
        up: [N, K] link by which a choice leaves a lower switch, ``NO_LINK`` where there is none.
        down: [N, K] link by which it reaches a lower switch: an upper switch maps the i-th cable in to the
            (i mod n)-th of the n cables out.
    """

    place: IntArray
    number: IntArray
    switch: LinkTable
    up: LinkTable
    down: LinkTable


class Pods(NamedTuple):
    """The pods and planes of three layers of switches: what is connected without cores, and without leaves.

    Attributes:
        of_leaf: [L] pod of each leaf.
        of_agg: [A] pod of each aggregation switch.
        plane: [A] plane of each aggregation switch: its place among those of its pod.
        core_place: [S] number of each core among those that its aggregation switches reach.
        network: [A] the aggregation switches with cables to the same cores, directly or not, have one number.
        core_network: [S] that number for each core.
    """

    of_leaf: IntArray
    of_agg: IntArray
    plane: IntArray
    core_place: IntArray
    network: IntArray
    core_network: IntArray


def pods_of(sizes: tuple[int, int, int], lower: TierCables, upper: TierCables, whole: IntArray) -> Pods:
    """Find the pods and planes.

    Args:
        sizes: the number of leaves, of aggregation switches, and of cores.
        lower: the cables between leaves and aggregation switches.
        upper: the cables between aggregation switches and cores.
        whole: [A] network of each aggregation switch, where several networks are one fabric (``model.planes``).

    Returns:
        pods in the order of their first leaves, planes in the order of their first aggregation switches, numbered
        anew in each network. An
        aggregation switch without cores is in the lowest plane that its pod does not have otherwise.
    """
    pod = numbered(components(lower.lower, np.int32(sizes[0]) + lower.upper, sizes[0] + sizes[1]))
    network = numbered(components(upper.lower, np.int32(sizes[1]) + upper.upper, sizes[1] + sizes[2]))
    of_agg, agg_network, core_network = pod[sizes[0] :], network[: sizes[1]], network[sizes[1] :]
    has_cores = np.zeros(sizes[1], dtype=np.bool_)
    has_cores[upper.lower] = True
    turn = place_among_equals(of_agg.astype(np.int64) * len(network) + agg_network)
    wired = np.flatnonzero(has_cores)
    plane = np.full(sizes[1], -1, dtype=np.int32)
    keys = agg_network[wired].astype(np.int64) * (sizes[1] + 1) + turn[wired]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    plane[wired] = place_among_equals(whole[wired][first])[inverse]
    taken = set(zip(of_agg[wired].tolist(), plane[wired].tolist(), strict=True))
    for agg in np.flatnonzero(~has_cores).tolist():
        free = 0
        while (int(of_agg[agg]), free) in taken:
            free += 1
        plane[agg] = free
        taken.add((int(of_agg[agg]), free))
    return Pods(pod[: sizes[0]], of_agg, plane, place_among_equals(core_network), agg_network, core_network)


def choices(cables: TierCables, place: IntArray, switch_at: LinkTable) -> Choices:
    """Return the choices of the N lower switches of a tier.

    Args:
        cables: the cables of the tier.
        place: [M] place of each upper switch.
        switch_at: [N, P] upper switch at each place, for each lower switch; -1: none.
    """
    n_lower, n_places = switch_at.shape
    count = np.zeros((n_lower, n_places), dtype=np.int32)
    np.add.at(count, (cables.lower, place[cables.upper]), 1)
    width = count.max(axis=0, initial=0)
    first = np.cumsum(width) - width
    place_of = np.repeat(np.arange(n_places), width).astype(np.int32)
    number_of = (np.arange(len(place_of)) - first[place_of]).astype(np.int32)
    up = np.full((n_lower, len(place_of)), NO_LINK, dtype=np.int32)
    up[cables.lower, first[place[cables.upper]] + cables.number] = cables.uplink
    there = count[:, place_of]
    back = np.take_along_axis(up, first[place_of] + number_of % np.maximum(there, 1), axis=1) + 1
    down = np.where(there > 0, back, NO_LINK).astype(np.int32)
    return Choices(place_of, number_of, switch_at[:, place_of].astype(np.int32), up, down)


def two_layers(of_leaf: IntArray, of_spine: IntArray, cables: TierCables) -> tuple[Choices, ...]:
    """Return the choices of leaves among the spines of their network: one for each spine and parallel cable.

    Args:
        of_leaf: [L] network of each leaf.
        of_spine: [S] network of each spine.
        cables: the cables between them.
    """
    place = place_among_equals(of_spine)
    return (choices(cables, place, _grid(of_spine, place, of_leaf)),)


def three_layers(pods: Pods, lower: TierCables, upper: TierCables) -> tuple[Choices, Choices]:
    """Return the choices of leaves among planes, and of aggregation switches among the cores of their plane."""
    in_pod = _grid(pods.of_agg, pods.plane, pods.of_leaf)
    in_network = _grid(pods.core_network, pods.core_place, pods.network)
    return choices(lower, pods.plane, in_pod), choices(upper, pods.core_place, in_network)


def path_names(tiers: tuple[Choices, ...], tops: Sequence[str]) -> tuple[str, ...]:
    """Return the name of each path, by the names of the switches of the top layer."""
    if len(tiers) == 1:
        return tuple(tops[at] + _suffix(i) for at, i in zip(*_ends(tiers[0]), strict=True))
    lower, upper = tiers
    planes = [f"plane{at + 1}{_suffix(i)}" for at, i in zip(*_ends(lower), strict=True)]
    names = list(planes)
    for k, plane in enumerate(planes):
        reached = upper.switch[lower.switch[lower.switch[:, k] >= 0, k]]
        core = reached.max(axis=0, initial=-1)
        names += [
            f"{plane}.{tops[c] if c >= 0 else f'core-{at + 1}'}{_suffix(i)}"
            for c, at, i in zip(core.tolist(), *_ends(upper), strict=True)
        ]
    return tuple(names)


def path_numbers(tiers: tuple[Choices, ...]) -> tuple[str, ...]:
    """Return the name of each path, by the places of its switches in its network: ``path2``, ``path2.4``."""
    names = [f"path{at + 1}{_suffix(i)}" for at, i in zip(*_ends(tiers[0]), strict=True)]
    for tier in tiers[1:]:
        names += [f"{name}.{at + 1}{_suffix(i)}" for name in names for at, i in zip(*_ends(tier), strict=True)]
    return tuple(names)


def ways_of(tiers: tuple[Choices, ...], group: IntArray) -> Ways:
    """Return all paths between leaves.

    Args:
        tiers: the choices of each tier of cables, from the leaves up.
        group: [T, L] as in ``Ways``.
    """
    width = np.array([len(tier.place) for tier in tiers], dtype=np.int64)
    size = [tier.up.size for tier in tiers]
    return Ways(
        first=np.concatenate([[0], np.cumsum(np.cumprod(width))]).astype(np.int64),
        width=width,
        table=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
        up=np.concatenate([tier.up.reshape(-1) for tier in tiers]),
        down=np.concatenate([tier.down.reshape(-1) for tier in tiers]),
        above=np.concatenate([np.zeros(0, np.int32), *(tier.switch.reshape(-1) for tier in tiers[:-1])]),
        group=group,
    )


def _grid(row: IntArray, column: IntArray, wanted: IntArray) -> LinkTable:
    """Return [N, M] the entry in each column of N wanted rows, for entries by row and column; -1: none."""
    n_rows = 1 + int(max(row.max(initial=-1), wanted.max(initial=-1)))
    grid = np.full((n_rows, 1 + int(column.max(initial=-1))), -1, dtype=np.int32)
    grid[row, column] = np.arange(len(row))
    return grid[wanted]


def _ends(tier: Choices) -> tuple[list[int], list[int]]:
    return tier.place.tolist(), tier.number.tolist()


def _suffix(number: int) -> str:
    return f":{number}" if number else ""
