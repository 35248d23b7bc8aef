"""What a trace comes to: how unevenly each layer is used, and which flows collide on its hottest links.

Works on the documents of a trace, so that a saved trace, one from elsewhere and a live one are summed up alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from controller.model.fabric import Fabric, FloatArray
from controller.telemetry.imbalance import Imbalance, imbalance

LAYERS = ("uplinks", "downlinks")

MOST_HOT = 16
"""Hot links that are named."""

TOLERANCE = 1e-6
"""Loads that differ by less are equal."""


def link_rows(usable: Fabric) -> list[dict[str, Any]]:
    """The links that imbalance is about: those between leaves and spines that are up and not drained.

    Args:
        usable: the fabric without what is drained. Links that cannot carry anything are in no mean: a layer is even
            if those that can are used evenly.
    """
    first = usable.first_cable_link
    return [
        {"id": usable.link_ids[link], "layer": LAYERS[link % 2], "gbps": float(usable.link_gbps[link])}
        for link in range(first, usable.n_links)
        if usable.link_up[link]
    ]


def summary(links: Sequence[Mapping[str, Any]], flows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """``layers``, ``links`` and ``hot`` of a trace.

    Args:
        links: of both layers: ``id``, ``layer``, ``gbps`` (``None``: not known), perhaps ``utilisation``.
        flows: ``id``, ``real`` (link ids; ``None``: not known) and ``bytes`` (``None``: not known). Pieces of a split
            flow are flows of their own.
    """
    index = {row["id"]: i for i, row in enumerate(links)}
    on = [[index[link] for link in flow["real"] or () if link in index] for flow in flows]
    known = all(flow["bytes"] is not None for flow in flows if flow["real"])
    count, size = np.zeros(len(links)), np.zeros(len(links))
    for flow, places in zip(flows, on, strict=True):
        count[places] += 1
        size[places] += flow["bytes"] or 0
    return {
        "layers": measures([row["layer"] for row in links], count, size if known else None),
        "links": [
            {
                "id": row["id"],
                "layer": row["layer"],
                "gbps": row["gbps"],
                "utilisation": row.get("utilisation"),
                "flows": int(count[i]),
                "bytes": int(size[i]) if known else None,
            }
            for i, row in enumerate(links)
        ],
        "hot": _hot(links, flows, on, count, size if known else None),
    }


def measures(layer: Sequence[str], count: FloatArray, size: FloatArray | None) -> list[dict[str, Any]]:
    """The imbalance of each layer.

    Args:
        layer: [N] of each link; ``count``: [N] flows on it; ``size``: [N] their bytes, ``None``: not known.
    """
    rows = []
    for name in LAYERS:
        own = [i for i, each in enumerate(layer) if each == name]
        rows.append(
            {
                "layer": name,
                "links": len(own),
                "flows": as_document(imbalance(count[own])),
                "bytes": None if size is None else as_document(imbalance(size[own])),
            }
        )
    return rows


def as_document(found: Imbalance) -> dict[str, float]:
    return {"fim": found.fim, "max_over_mean": found.max_over_mean, "cv": found.cv}


def _hot(
    links: Sequence[Mapping[str, Any]],
    flows: Sequence[Mapping[str, Any]],
    on: Sequence[Sequence[int]],
    count: FloatArray,
    size: FloatArray | None,
) -> list[dict[str, Any]]:
    """Links that several flows share and that are busy for longer than their layer's mean, the busiest first."""
    load = count if size is None else size
    # Where all capacities are known, what counts is for how long a link is busy.
    gbps = [row["gbps"] for row in links]
    if all(gbps):
        load = load / np.array(gbps, dtype=np.float64)
    mean = {name: _mean(load[[row["layer"] == name for row in links]]) for name in LAYERS}
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
    """Mean, least and most of several draws."""
    each = np.array(list(values), dtype=np.float64)
    return {"mean": float(each.mean()), "min": float(each.min()), "max": float(each.max())}
