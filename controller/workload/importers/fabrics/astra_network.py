"""Importer ``astra-network``: networks of ASTRA-sim's analytical back end (YAML).

``topology``, ``npus_count``, ``bandwidth`` (GB/s) and ``latency`` (ns) have an entry for each dimension
(astra-network-analytical, ``common/NetworkParser.cpp``). In each dimension every NPU has its own links. A fabric
has one dimension of kind ``Switch``, and in front of it at most one that lies within a server (``Ring``,
``FullyConnected`` or ``Switch``): its NPUs are the rails, each of which has a switch, as ASTRA-sim has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controller.model.errors import InputError
from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.documents import mapping, yaml_document
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of, one
from controller.workload.importers.fields import MAX_RANKS
from controller.workload.importers.head import Head

_KINDS = ("Ring", "FullyConnected", "Switch")


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    starts = {line.split(":")[0].strip() for line in head.lines}
    return "an ASTRA-sim network: a fabric" if starts >= {"topology", "npus_count", "bandwidth"} else ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: the file is not a network of ASTRA-sim, or its dimensions are not a leaf-spine fabric.
    """
    source = one(sources, "ASTRA-sim")
    document = mapping(yaml_document(source), source, "")
    kinds, counts, speeds = (_list(document, key, source) for key in ("topology", "npus_count", "bandwidth"))
    if not len(kinds) == len(counts) == len(speeds):
        raise InputError(
            "topology, npus_count and bandwidth must have the same number of entries",
            source=source.name,
            field="topology",
        )
    for i, (kind, count, speed) in enumerate(zip(kinds, counts, speeds, strict=True)):
        if kind not in _KINDS:
            raise InputError(
                f"must be one of {', '.join(_KINDS)}", source=source.name, field=f"topology[{i}]", value=kind
            )
        if type(count) is not int or not 1 <= count <= MAX_RANKS:
            raise InputError("is not a number of NPUs", source=source.name, field=f"npus_count[{i}]", value=count)
        if type(speed) not in (int, float) or not 0 < speed <= 125_000:
            raise InputError("is not a bandwidth in GB/s", source=source.name, field=f"bandwidth[{i}]", value=speed)
    if len(kinds) > 2:
        raise InputError(
            "three or more dimensions are not supported: each NPU has links of its own in each dimension, and of a "
            "fabric in one only; one dimension within a server and one dimension 'Switch' can be read",
            source=source.name,
            field="topology",
            value=kinds,
        )
    if kinds[-1] != "Switch":
        raise InputError(
            "connects NPUs without a switch, so there is no fabric",
            source=source.name,
            field=f"topology[{len(kinds) - 1}]",
            value=kinds[-1],
        )
    rails = counts[0] if len(kinds) == 2 else 1
    servers, gbps = counts[-1], float(speeds[-1]) * 8
    if rails * servers > MAX_RANKS:
        raise InputError(f"there are more than {MAX_RANKS} NPUs", source=source.name, field="npus_count", value=counts)
    graph = Graph("astra-network", source.name)
    for rail in range(rails):
        graph.switches[f"leaf{rail + 1}"] = None
        for server in range(servers):
            npu = f"npu{server * rails + rail}"
            graph.servers[npu] = None
            graph.server_of[npu] = (f"server{server}", rail)
            graph.cables.append(ReadCable(f"leaf{rail + 1}", npu, gbps))
    graph.switches["core"] = None
    graph.cables += [ReadCable(f"leaf{rail + 1}", "core", gbps * servers) for rail in range(rails)]
    graph.notes.append("a spine ('core') is added, because a fabric needs one; ASTRA-sim sends nothing over it")
    return fabric_of(graph, request)


def _list(document: dict[str, Any], key: str, source: Source) -> list[Any]:
    value = document.get(key)
    if not isinstance(value, list) or not value:
        raise InputError("is not a list with an entry for each dimension", source=source.name, field=key, value=value)
    return value
