"""What the rules of switches lead to: leaves, and in three layers also pods, each with its prefixes.

Destinations are numbered: leaves 0..L-1 as in the Fabric, and pod p is L + p. Switches of a pod address the leaves of
their own pod one by one, and those of another pod together, by its fewest prefixes. A leaf-spine fabric is one pod.
"""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Network

import numpy as np

from controller.model.errors import InputError
from controller.model.fabric import Fabric


class Destinations:
    """The destinations of a fabric, whatever is up."""

    def __init__(self, fabric: Fabric) -> None:
        """Give leaves and pods their numbers."""
        self._fabric = fabric
        self.n_leaves = fabric.n_leaves
        self.pod_of_leaf: list[int] = fabric.pod_of_leaf.tolist()

    @cached_property
    def leaves_of(self) -> list[list[int]]:
        """[P] leaves of each pod, ascending; pods that have none, but an aggregation switch, come last."""
        pods = {*self.pod_of_leaf, *(self._fabric.pods.of_agg.tolist() if len(self._fabric.layers) > 2 else ())}
        leaves: list[list[int]] = [[] for _ in range(1 + max(pods))]
        for leaf, pod in enumerate(self.pod_of_leaf):
            leaves[pod].append(leaf)
        return leaves

    @cached_property
    def prefixes(self) -> tuple[tuple[IPv4Network, ...], ...]:
        """[D] prefixes of each destination; a pod without leaves is none."""
        return self._fabric.leaf_prefixes + (self._fabric.pod_prefixes if len(self._fabric.layers) > 2 else ())

    def pod(self, pod: int) -> int:
        """Return the number of a pod among the destinations."""
        return self.n_leaves + pod

    def pod_of(self, layer: int, switch: int) -> int:
        """Return the pod of a switch below the top layer."""
        return self.pod_of_leaf[switch] if layer == 0 else int(self._fabric.pods.of_agg[switch])

    @cached_property
    def cables_below(self) -> tuple[tuple[dict[int, list[int]], ...], ...]:
        """For each layer from 1 on and each of its switches: the cables to each destination below, in static order."""
        below: list[tuple[dict[int, list[int]], ...]] = [tuple({} for _ in layer) for layer in self._fabric.layers[1:]]
        ends = zip(
            self._fabric.cable_tier.tolist(),
            self._fabric.cable_lower.tolist(),
            self._fabric.cable_upper.tolist(),
            strict=True,
        )
        pods = self._fabric.pods.of_agg.tolist() if len(self._fabric.layers) > 2 else []
        n_destinations = len(self.prefixes)
        for cable, (tier, lower, upper) in enumerate(ends):
            to = lower if tier == 0 else self.pod(pods[lower])
            if to < n_destinations:
                below[tier][upper].setdefault(to, []).append(cable)
        return tuple(below)


def check_rules_exist(fabric: Fabric) -> None:
    """See whether there are rules by which the switches of a fabric realize every path that a plan can have.

    Raises:
        InputError: an OpenFlow switch has a cable to a router; or there are three layers, and a choice of a path is
            not known to the switch that must make it.
    """
    for name, cable in zip(fabric.cable_names, fabric.cables, strict=True) if fabric.routers else ():
        if len({fabric.kind_of[cable.lower], fabric.kind_of[cable.upper]}) > 1:
            raise InputError(
                "joins an OpenFlow switch and a router: there are no rules for that, since a router drops packets "
                "which are not for its own MAC address; networks of routers and of OpenFlow switches must be apart",
                field="links",
                value=name,
            )
    if len(fabric.layers) == 2:
        return
    above = fabric.tier_cables[1]
    ends = np.unique(np.stack([above.upper, fabric.pods.of_agg[above.lower], above.lower]), axis=1)
    same = (ends[:2, 1:] == ends[:2, :-1]).all(axis=0)
    if same.any():
        raise InputError(
            "there are no rules for a core with cables to several aggregation switches of one pod",
            value=fabric.spines[int(ends[0, same.argmax()])].name,
        )
