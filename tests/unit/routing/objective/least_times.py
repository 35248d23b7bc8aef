"""Least times of traffic, by a linear program."""

from __future__ import annotations

import numpy as np

from controller.model.fabric import Fabric
from controller.routing.problem.demand import NETWORK, Demand
from controller.routing.relaxation.solver import LinearProgram


def least_seconds(fabric: Fabric, demand: Demand, flows: np.ndarray, gbit: np.ndarray) -> float:  # type: ignore[type-arg]
    """The least time of these flows by a linear program with a variable for each flow and whole path."""
    program = LinearProgram()
    time = int(program.columns(1, cost=1.0)[0])
    links = program.rows(fabric.n_links, upper=0.0)
    program.add(links, time, -fabric.link_gbps)
    scale = float(gbit.max())
    for f, amount in zip(flows.tolist(), (gbit / scale).tolist(), strict=True):
        paths = (
            fabric.live_paths(int(demand.leaf_src[f]), int(demand.leaf_dst[f])) if demand.fixed[f] == NETWORK else [-1]
        )
        share = program.columns(len(paths))
        program.add(np.repeat(program.rows(1, lower=amount, upper=amount), len(paths)), share, 1.0)
        for variable, path in zip(share.tolist(), paths, strict=True):
            used = np.array(fabric.flow_links(int(demand.traffic.src[f]), int(demand.traffic.dst[f]), int(path)))
            program.add(links[used], variable, 1.0)
    return program.solve().value * scale
