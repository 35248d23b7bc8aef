"""A fabric as a networkx graph, for questions that this package does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.model.fabric import Fabric

if TYPE_CHECKING:
    import networkx as nx


def graph(fabric: Fabric) -> nx.MultiDiGraph[str]:
    """Return the links of a fabric that are up, as a ``networkx.MultiDiGraph``.

    Nodes are switches and hosts by name, with ``kind``: ``host``, or the role of the switch (``leaf``, ``spine``,
    ``aggregation``, ``core``). Edges are directed links, keyed by link id (``leaf1->spine2``), with ``gbps``; parallel
    cables are parallel edges.

    >>> import networkx as nx, fairspine as fs
    >>> nx.edge_connectivity(nx.Graph(fs.graph(fs.clos(leaves=2, spines=3, hosts_per_leaf=1))), "leaf1", "leaf2")
    3
    """
    import networkx as nx

    network: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for role, layer in zip(fabric.roles, fabric.layers, strict=True):
        network.add_nodes_from((switch.name for switch in layer), kind=role)
    network.add_nodes_from(fabric.host_names, kind="host")
    for name, up, gbps in zip(fabric.link_ids, fabric.link_up.tolist(), fabric.link_gbps.tolist(), strict=True):
        if up:
            src, dst = name.split(":")[0].split("->")
            network.add_edge(src, dst, key=name, gbps=gbps)
    return network
