"""Importer ``slurm``: Slurm's ``topology.conf`` of the plug-in topology/tree.

A line is a switch: ``SwitchName=leaf1 Nodes=node[001-016]`` has servers below it,
``SwitchName=spine Switches=leaf[1-4]`` has switches (man topology.conf). The file is a tree for the scheduler: it has
neither cables nor speeds. A cable is assumed for each pair and, where no switch is above the leaves, one that joins
them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from controller.workload.importers.base import Imported, ImportRequest, Source
from controller.workload.importers.fabrics.graph import Graph, ReadCable, fabric_of, one
from controller.workload.importers.fields import MAX_RANKS, SourceLine
from controller.workload.importers.head import Head
from controller.workload.importers.streams import at_line, lines

_PAIR = re.compile(r"(\w+)=(\S+)")
_PART = re.compile(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def looks_like(head: Head) -> str:
    """Return a description of the contents; empty if the file is not of this format."""
    if any(re.match(r"\s*SwitchName=\S", line, re.IGNORECASE) for line in head.lines):
        return "Slurm's topology.conf: a fabric without speeds"
    return ""


def read(sources: Sequence[Source], request: ImportRequest) -> Imported:
    """Read a fabric.

    Raises:
        InputError: a line is invalid, or the network is not a fabric of two or three layers.
    """
    source = one(sources, "Slurm")
    graph = Graph("slurm", source.name)
    children: dict[str, list[str]] = {}
    for place, values in _rows(source):
        if "blockname" in values:
            raise place.error("is for the plug-in topology/block, which has no switches", values["blockname"])
        if "switchname" not in values:
            raise place.error("is not a switch (SwitchName=..)")
        (name,) = expand(place, values["switchname"])[:1]
        if name in graph.switches:
            raise place.error("this switch is described twice", name)
        graph.switches[name] = None
        for node in expand(place, values.get("nodes", "")):
            if node in graph.servers:
                graph.warnings.append(
                    f"{at_line(source, place.line)}: {node} is below two switches: two NICs are assumed"
                )
            graph.servers[node] = None
            graph.cables.append(ReadCable(name, node))
        if len(graph.cables) > MAX_RANKS:
            raise place.error(f"there are more than {MAX_RANKS} nodes")
        children[name] = expand(place, values.get("switches", ""))
    for name, below in children.items():
        for child in below:
            if child not in graph.switches:
                raise graph.error(f"switch {name} has a switch below it that is not described", child)
            graph.cables.append(ReadCable(child, name))
    if not any(children.values()) and len(graph.switches) > 1:
        leaves = list(graph.switches)
        graph.switches["core"] = None
        graph.cables += [ReadCable(leaf, "core") for leaf in leaves]
        graph.warnings.append(
            f"no switch is above the {len(leaves)} leaves: one ('core') is added, with a cable to each"
        )
    else:
        graph.warnings.append("the file has no cables: one is assumed between each switch and the one above it")
    return fabric_of(graph, request)


def _rows(source: Source) -> Iterator[tuple[SourceLine, dict[str, str]]]:
    for number, text in lines(source):
        text = text.partition("#")[0].strip()
        if text:
            place = SourceLine(source, number)
            yield place, {key.lower(): value for key, value in _PAIR.findall(text)}


def expand(place: SourceLine, text: str) -> list[str]:
    """Expand a Slurm host list: ``a[1-3,7],b`` is a1, a2, a3, a7 and b.

    Raises:
        InputError: the text is not a host list, or longer than the most ranks of a job.
    """
    if not text:
        return []
    names: list[str] = []
    for part in _PART.findall(text):
        names += _expanded(place, part)
        if len(names) > MAX_RANKS:
            raise place.error(f"there are more than {MAX_RANKS} names", text)
    if not names or text.count("[") != text.count("]"):
        raise place.error("is not a list of names", text)
    return names


def _expanded(place: SourceLine, part: str) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [head]
    inside, _, tail = rest.partition("]")
    tails = _expanded(place, tail) if tail else [""]
    names: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise place.error("is not a range of a list of names", piece)
        first, last = int(match[1]), int(match[2] or match[1])
        if len(names) + (last - first + 1) * len(tails) > MAX_RANKS:
            raise place.error(f"there are more than {MAX_RANKS} names", piece)
        names += [f"{head}{i:0{len(match[1])}d}{end}" for i in range(first, last + 1) for end in tails]
    return names
