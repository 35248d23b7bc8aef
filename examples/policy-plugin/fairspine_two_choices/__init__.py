"""A routing policy: of two live paths drawn at random, each flow takes the one with fewer bytes on its fuller link.

The power of two random choices (Mitzenmacher, IEEE Transactions on Parallel and Distributed Systems 12(10), 2001),
applied to uplinks and downlinks: between random placement and a global greedy one.
"""

from __future__ import annotations

import numpy as np

import fairspine as fs


def assign(
    fabric: fs.Fabric,
    traffic: fs.Traffic,
    *,
    seed: int = 0,
    previous: fs.PreviousPlan | None = None,
    options: fs.Options | None = None,
) -> fs.Result:
    """Return one path for every placement unit, flows that a switch cannot tell apart."""
    rng = np.random.default_rng(seed)
    load = np.zeros(fabric.n_links)
    path_of_unit: dict[int, int] = {}
    paths = np.empty(traffic.n_flows, dtype=np.int32)
    for flow in range(traffic.n_flows):
        unit = int(traffic.unit[flow])
        src, dst = int(traffic.src[flow]), int(traffic.dst[flow])
        a, b = int(fabric.host_leaf[src]), int(fabric.host_leaf[dst])
        if unit not in path_of_unit:
            path_of_unit[unit] = _path(fabric, load, rng, src, dst, a, b)
        path = paths[flow] = path_of_unit[unit]
        if path >= 0:
            load[list(fabric.ways.links_of(a, b, path))] += traffic.bytes[flow]
    return fs.Result(fs.Assignment.single(paths))


def _path(fabric: fs.Fabric, load: np.ndarray, rng: np.random.Generator, src: int, dst: int, a: int, b: int) -> int:
    hosts_up = fabric.link_up[src] and fabric.link_up[fabric.n_hosts + dst]
    if a == b:
        return fs.LOCAL if hosts_up else fs.UNROUTABLE
    live = fabric.live_paths(a, b)
    if not hosts_up or len(live) == 0:
        return fs.UNROUTABLE
    drawn = rng.choice(live, size=min(2, len(live)), replace=False)
    between = [list(fabric.ways.links_of(a, b, path)) for path in drawn.tolist()]
    fuller = [(load[links] / fabric.link_gbps[links]).max() for links in between]
    return int(drawn[np.argmin(fuller)])


POLICY = fs.Policy("two_choices", "the emptier of two random paths (Mitzenmacher 2001)", assign, draws=True)
