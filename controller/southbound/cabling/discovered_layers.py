"""The layers of the switches that discovery shows, by their distance from switches with hosts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from controller.model.switch_key import SwitchKey


class DiscoveredLayers(NamedTuple):
    """The switches of each layer, by key.

    Attributes:
        leaves: switches with hosts.
        middle: those with a cable to a leaf: spines, or aggregation switches if there are cores.
        cores: those with cables to switches in the middle of several pods. A pod is what cables join below cores. With
            cables into one pod only, a switch is taken as a leaf whose hosts have not been discovered yet.
        unknown: those with cables into one pod and to a switch in no layer: cores, or leaves without hosts.
        pod: a number for each leaf and each switch in the middle, equal for those of one pod.
    """

    leaves: frozenset[SwitchKey]
    middle: frozenset[SwitchKey]
    cores: frozenset[SwitchKey]
    unknown: frozenset[SwitchKey]
    pod: Mapping[SwitchKey, SwitchKey]


def layers_of(leaves: Collection[SwitchKey], cables: Iterable[tuple[SwitchKey, SwitchKey]]) -> DiscoveredLayers:
    """Return the layers, given the switches with hosts and the pairs of switches that cables join."""
    beside: defaultdict[SwitchKey, set[SwitchKey]] = defaultdict(set)
    for a, b in cables:
        beside[a].add(b)
        beside[b].add(a)
    middle = {other for leaf in leaves for other in beside[leaf]} - set(leaves)
    pod = _pods(leaves, beside, middle)
    above = {other for switch in middle for other in beside[switch]} - middle - set(leaves)
    cores = {switch for switch in above if len({pod[other] for other in beside[switch] & middle}) > 1}
    placed = middle | cores | set(leaves)
    unknown = {switch for switch in above - cores if not placed.issuperset(beside[switch])}
    return DiscoveredLayers(frozenset(leaves), frozenset(middle), frozenset(cores), frozenset(unknown), pod)


def _pods(
    leaves: Collection[SwitchKey], beside: Mapping[SwitchKey, set[SwitchKey]], middle: set[SwitchKey]
) -> dict[SwitchKey, SwitchKey]:
    """Return a number for each leaf and each switch in the middle: equal for those that cables join."""
    pod: dict[SwitchKey, SwitchKey] = {}
    for first in leaves:
        todo = [first]
        while todo:
            switch = todo.pop()
            if switch not in pod:
                pod[switch] = first
                todo += beside[switch] & middle if switch not in middle else beside[switch].intersection(leaves)
    return pod
