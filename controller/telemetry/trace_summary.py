"""Summary of a trace: the imbalance of each layer, in all and by plane, and the flows that collide on hot links.

Works on trace documents, so that live traces, saved traces and traces of other tools are summarised in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.model.paths.plane_places import plane_numbers
from controller.model.tolerances import TOLERANCE
from controller.telemetry.imbalance import Imbalance, imbalance

TWO_LAYERS = ("uplinks", "downlinks")
"""Layers of links between leaves and spines, in the order of a path."""

THREE_LAYERS = ("leaf uplinks", "aggregation uplinks", "aggregation downlinks", "leaf downlinks")
"""Layers of links where there are aggregation switches; the downlinks of aggregation switches come from cores."""

MOST_HOT = 16
"""Largest number of hot links in a summary."""


def link_rows(usable: Fabric) -> list[dict[str, Any]]:
    """Return the links over which imbalance is computed: those between switches that are up and not drained.

    Args:
        usable: the fabric without drained links. Links that cannot carry traffic are not part of any mean: a layer is
            even if its usable links are used evenly.
    """
    planes = plane_numbers(usable)
    return [
        {
            "id": usable.link_ids[link],
            "layer": layer_of(usable, link),
            "plane": planes[link],
            "gbps": float(usable.link_gbps[link]),
        }
        for link in range(usable.first_cable_link, usable.n_links)
        if usable.link_up[link]
    ]


def layer_of(fabric: Fabric, link: int) -> str:
    """Return the layer of a link between switches."""
    names = TWO_LAYERS if len(fabric.layers) == 2 else THREE_LAYERS
    tier = fabric.cable_tier.item((link - fabric.first_cable_link) // 2)
    return names[-1 - tier if link % 2 else tier]


def layers_among(layer: Iterable[str]) -> tuple[str, ...]:
    """Return all layers of a network, in the order of a path, of which some links are in these layers."""
    return TWO_LAYERS if set(TWO_LAYERS).issuperset(layer) else THREE_LAYERS


def summary(links: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ``layers``, ``planes``, ``links`` and ``hot`` of a trace.

    Args:
        links: of all layers: ``id``, ``layer``, ``gbps`` (``None``: not known), optionally ``plane``, ``utilisation``.
        flows: ``id``, ``real`` (link ids; ``None``: not known) and ``bytes`` (``None``: not known). Each piece of a
            split flow is a flow of its own. With ``how`` of ``none``, the path is not known, and neither are measures
            that would have to count it. A trace without flows says nothing of any layer.
    """
    index = {row["id"]: i for i, row in enumerate(links)}
    on = [[index[link] for link in flow["real"] or () if link in index] for flow in flows]
    all_traced = bool(flows) and not any(is_unknown(flow) for flow in flows)
    known = all(flow["bytes"] is not None for flow in flows if flow["real"])
    count, size = np.zeros(len(links)), np.zeros(len(links))
    for flow, places in zip(flows, on, strict=True):
        count[places] += 1
        size[places] += flow["bytes"] or 0
    counted = count if all_traced else None, size if known and all_traced else None
    return {
        "layers": measures([row["layer"] for row in links], *counted),
        "planes": measures_by_plane(links, *counted),
        "links": [
            {
                "id": row["id"],
                "layer": row["layer"],
                "plane": row.get("plane"),
                "gbps": row["gbps"],
                "utilisation": row.get("utilisation"),
                "flows": int(count[i]),
                "bytes": int(size[i]) if known else None,
            }
            for i, row in enumerate(links)
        ],
        "hot": _hot(links, flows, on, count, size if known else None),
    }


def is_unknown(flow: Mapping[str, Any]) -> bool:
    """Return whether the path of a traced flow is not known."""
    return flow.get("how") == "none"


def is_without_path(flow: Mapping[str, Any]) -> bool:
    """Return whether a traced flow has no path: none is live for a plan, and its packets are not known to arrive.

    Traces of other tools have no planned paths, and do not say whether packets arrive.
    """
    return flow["planned"] is None and "arrives" in flow and flow["arrives"] is not True


def measures(layer: Sequence[str], count: FloatArray | None, size: FloatArray | None) -> list[dict[str, Any]]:
    """Return the imbalance of each layer; ``None`` for what is not known.

    Args:
        layer: [N] layer of each link.
        count: [N] number of flows on each link; ``None``: not known.
        size: [N] bytes of these flows; ``None``: not known.
    """
    rows = []
    for name in layers_among(layer):
        own = [i for i, each in enumerate(layer) if each == name]
        rows.append(
            {
                "layer": name,
                "links": len(own),
                "flows": None if count is None else as_document(imbalance(count[own])),
                "bytes": None if size is None else as_document(imbalance(size[own])),
            }
        )
    return rows


def measures_by_plane(
    links: Sequence[Mapping[str, Any]], count: FloatArray | None, size: FloatArray | None
) -> list[dict[str, Any]]:
    """Return the imbalance of each layer of each plane, as ``measures`` does; none where NICs have one port.

    Args:
        links: [N] ``layer`` of each link, and optionally its ``plane``, from 1.
        count: [N] number of flows on each link; ``None``: not known.
        size: [N] bytes of these flows; ``None``: not known.
    """
    rows = []
    for plane in sorted({row["plane"] for row in links if row.get("plane") is not None}):
        own = [i for i, row in enumerate(links) if row.get("plane") == plane]
        of_plane = measures(
            [links[i]["layer"] for i in own], *(None if each is None else each[own] for each in (count, size))
        )
        rows += [{"plane": plane, **row} for row in of_plane]
    return rows


def as_document(measured: Imbalance) -> dict[str, float]:
    """Return an imbalance as a JSON object with ``fim``, ``max_over_mean`` and ``cv``."""
    return {"fim": measured.fim, "max_over_mean": measured.max_over_mean, "cv": measured.cv}


def _hot(
    links: Sequence[Mapping[str, Any]],
    flows: Sequence[Mapping[str, Any]],
    on: Sequence[Sequence[int]],
    count: FloatArray,
    size: FloatArray | None,
) -> list[dict[str, Any]]:
    """Return the links with several flows that are busy for longer than their layer's mean, busiest first."""
    load = count if size is None else size
    # Where all capacities are known, compare the time for which a link is busy.
    gbps = [row["gbps"] for row in links]
    if all(gbps):
        load = load / np.array(gbps, dtype=np.float64)
    mean = {name: _mean(load[[row["layer"] == name for row in links]]) for name in {row["layer"] for row in links}}
    hot = [i for i, row in enumerate(links) if count[i] >= 2 and load[i] > mean[row["layer"]] * (1 + TOLERANCE)]
    hot.sort(key=lambda i: (-load[i], i))
    who: dict[int, list[str]] = {i: [] for i in hot[:MOST_HOT]}
    for flow, places in zip(flows, on, strict=True):
        for i in places:
            if i in who:
                who[i].append(flow["id"])
    return [
        {
            "link": links[i]["id"],
            "gbps": links[i]["gbps"],
            "utilisation": links[i].get("utilisation"),
            "flows": ids,
            "bytes": None if size is None else int(size[i]),
        }
        for i, ids in who.items()
    ]


def _mean(load: FloatArray) -> float:
    return float(load.mean()) if len(load) else 0.0


def spread(values: Iterable[float]) -> dict[str, float]:
    """Return the mean, minimum and maximum of several draws."""
    each = np.array(list(values), dtype=np.float64)
    return {"mean": float(each.mean()), "min": float(each.min()), "max": float(each.max())}
