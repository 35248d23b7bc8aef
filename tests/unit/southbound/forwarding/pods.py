"""Fabrics of three layers, and walks of packets through their rules."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import strategies as st

from controller.model.fabric import Cable, Fabric
from controller.southbound.rules.interpreter import Walk
from tests.unit.routing.pod_fabrics import fat_tree, random_pods

K4 = fat_tree(4)
PARTS = [*K4.cable_names, *(switch.name for switch in K4.switches)]
ACTIONS = st.sampled_from(["bundle", "select"])


def up_to_three() -> st.SearchStrategy[list[str]]:
    """Cables and switches of the fat tree of four ports that fail."""
    return st.lists(st.sampled_from(PARTS), max_size=3, unique=True)


@st.composite
def irregular(draw: st.DrawFn) -> Fabric:
    """A small fabric with missing, failed and parallel parts for which there are rules."""
    return random_pods(np.random.default_rng(draw(st.integers(0, 2**32 - 1))))


def cable_ports(cable: Cable) -> list[tuple[str, int]]:
    """The two ports of a cable."""
    assert cable.lower_port is not None
    assert cable.upper_port is not None
    return [(cable.lower, cable.lower_port), (cable.upper, cable.upper_port)]


def joined(fabric: Fabric, src: str, dst: str) -> bool:
    """Whether live cables lead up from one leaf and then down to another: a search of the graph."""
    todo, seen = [(src, False)], {(src, False)}
    while todo:
        at, down = todo.pop()
        for cable in fabric.cables:
            for step in _steps(cable, at, down):
                if step not in seen:
                    seen.add(step)
                    todo.append(step)
    return (dst, True) in seen or (dst, False) in seen


def _steps(cable: Cable, at: str, down: bool) -> list[tuple[str, bool]]:
    if not cable.up:
        return []
    if cable.upper == at:
        return [(cable.lower, True)]
    return [(cable.upper, False)] if cable.lower == at and not down else []


def goes_up_then_down(fabric: Fabric, walk: Walk) -> bool:
    layers = [fabric.layer_of[hop.switch] for hop in walk.hops]
    top = layers.index(max(layers)) if layers else 0
    steps = [after - before for before, after in itertools.pairwise(layers)]
    return steps == [1] * top + [-1] * (len(steps) - top)
