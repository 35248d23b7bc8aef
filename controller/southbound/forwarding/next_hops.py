"""The uplinks by which a switch sends packets on to a leaf, by what is live above it."""

from __future__ import annotations

from controller.model.fabric import Fabric

Switches = frozenset[int]
"""Switches of one layer, by their index in it."""


class NextHops:
    """For each switch below the top layer and each leaf: the ports of live uplinks to switches that reach the leaf.

    A switch reaches a leaf if live cables lead down to it, or up to a switch that reaches it. Most leaves are reached
    by the same switches, so the answer is kept by that set and not by the pair of switch and leaf.
    """

    def __init__(self, fabric: Fabric) -> None:
        """Collect the switches of each layer that reach each leaf."""
        self._uplinks: list[list[list[tuple[int, int]]]] = [[[] for _ in layer] for layer in fabric.layers[:-1]]
        ends = zip(
            fabric.cables,
            fabric.cable_tier.tolist(),
            fabric.cable_lower.tolist(),
            fabric.cable_upper.tolist(),
            strict=True,
        )
        for cable, tier, lower, upper in ends:
            if cable.up and cable.lower_port is not None and cable.upper_port is not None:
                self._uplinks[tier][lower].append((cable.lower_port, upper))
        self._above = [[frozenset(upper for _, upper in ports) for ports in layer] for layer in self._uplinks]
        # One object for equal sets: a key of the dictionary is then found without comparing them.
        self._one: dict[Switches, Switches] = {}
        self._climbs: dict[Switches, tuple[Switches, ...]] = {}
        self._reach = [self._climb(switches) for switches in self._above[0]]
        self._known: dict[tuple[int, int, Switches], tuple[int, ...]] = {}

    def _climb(self, direct: Switches) -> tuple[Switches, ...]:
        """Return the switches of each layer from 1 on that reach a leaf, given those with a live cable to it."""
        if direct in self._climbs:
            return self._climbs[direct]
        down = [direct]
        for above in self._above[1:]:
            down.append(frozenset().union(*(above[switch] for switch in down[-1])))
        for layer in range(len(down) - 2, -1, -1):
            above = self._above[layer + 1]
            down[layer] |= {switch for switch, upper in enumerate(above) if not upper.isdisjoint(down[layer + 1])}
        self._climbs[direct] = tuple(self._one.setdefault(switches, switches) for switches in down)
        return self._climbs[direct]

    def reached_by(self, leaf: int, layer: int = 1) -> Switches:
        """Return the switches of a layer above the leaves that reach a leaf; one object for equal sets."""
        return self._reach[leaf][layer - 1]

    def ports(self, switch: int, towards: int, layer: int = 0) -> tuple[int, ...]:
        """Return the uplink ports of a switch of a layer, ascending; empty if no live path leads up to the leaf."""
        key = (layer, switch, self.reached_by(towards, layer + 1))
        if key not in self._known:
            self._known[key] = tuple(sorted(port for port, upper in self._uplinks[layer][switch] if upper in key[2]))
        return self._known[key]

    def live(self, switch: int, layer: int = 0) -> tuple[int, ...]:
        """Return the ports of all live uplinks of a switch, ascending."""
        return tuple(sorted(port for port, _ in self._uplinks[layer][switch]))
