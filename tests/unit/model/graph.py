"""A fabric as a networkx graph, to compare the fabric's arrays with general algorithms."""

from __future__ import annotations

import networkx as nx

from controller.model.fabric import Fabric


def graph_of(fabric: Fabric) -> nx.MultiDiGraph[str]:
    """Return the live links of a fabric: nodes by name, edges keyed by link id."""
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_nodes_from(member.name for member in (*fabric.leaves, *fabric.spines, *fabric.hosts))
    for name, up in zip(fabric.link_ids, fabric.link_up, strict=True):
        if up:
            src, dst = name.split(":")[0].split("->")
            graph.add_edge(src, dst, key=name)
    return graph
